"""Finding, fetching and verifying: only the published content is ever handed over."""

import hashlib
import io
import tarfile

import numpy as np
import pytest

from confrere.errors import DataSetCorrupt
from confrere_research.loaders.published_files import (
    PublishedFile,
    read_archive,
    read_arrays,
    read_content,
)

CONTENT = b"age;label\n61;1\n58;0\n"
URL = "https://data.example.org/static/study.zip"


def published(**changes) -> PublishedFile:
    facts = {
        "folder": "study",
        "file": "study.csv",
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "page": "https://data.example.org/study",
        "url": URL,
    }
    return PublishedFile(**{**facts, **changes})


def tarred(members: dict[str, bytes], mtime: int = 0) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), mtime
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


class TestVerification:
    @pytest.mark.parametrize("packed", [True, False])
    def test_plain_and_gzipped_files_are_the_same_content(self, publish, tmp_path, packed):
        study = publish(published(), CONTENT, packed=packed)
        assert read_content(study, tmp_path) == CONTENT

    def test_one_changed_byte_is_refused(self, publish, tmp_path):
        study = publish(published(), CONTENT.replace(b"61", b"62"), sha256=published().sha256)
        with pytest.raises(DataSetCorrupt, match="not the published one") as caught:
            read_content(study, tmp_path)
        assert "62" not in str(caught.value).replace(study.sha256, "").replace(str(tmp_path), "")

    def test_an_archive_may_be_packed_again_in_another_order(self, publish, tmp_path):
        members = {"b/2": b"two", "a/1": b"one"}
        digest = hashlib.sha256()
        for name in sorted(members):
            digest.update(name.encode() + b"\0" + hashlib.sha256(members[name]).digest())
        for order, mtime in ((members, 0), (dict(reversed(members.items())), 99)):
            study = publish(published(), tarred(order, mtime), sha256=digest.hexdigest())
            assert list(read_archive(study, tmp_path).items()) == [("a/1", b"one"), ("b/2", b"two")]
        for changed in ({"a/1": b"one"}, {"a/1": b"one", "b/2": b"twO"}, {**members, "c": b""}):
            study = publish(published(), tarred(changed), sha256=digest.hexdigest())
            with pytest.raises(DataSetCorrupt):
                read_archive(study, tmp_path)

    def test_arrays_are_verified_by_name_type_shape_and_bytes(self, publish, tmp_path):
        x = np.arange(6, dtype=np.int16).reshape(2, 3)
        digest = hashlib.sha256(b"x <i2 (2, 3)\0" + x.tobytes()).hexdigest()
        study = publish(published(), npz(x=x, other=x), sha256=digest, packed=False)
        np.testing.assert_array_equal(read_arrays(study, tmp_path, ("x",))["x"], x)
        for wrong in (x.reshape(3, 2), x.astype(np.int32), x + 1):
            study = publish(published(), npz(x=wrong), sha256=digest, packed=False)
            with pytest.raises(DataSetCorrupt):
                read_arrays(study, tmp_path, ("x",))


# Activity features: functions of one window, scaled by declared bounds.
