"""Finding, fetching and verifying: only the published content is ever handed over."""

import hashlib
import io
import tarfile

import numpy as np
import pandas as pd
import pooch
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import DataSetCorrupt, DataSetMissing
from confrere_research.loaders import LOADERS
from confrere_research.loaders.published_files import (
    PublishedFile,
    read_archive,
    read_arrays,
    read_content,
)
from confrere_research.organisations import brfss_organisations, split_by_sizes

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


def states(**counts: int) -> pd.DataFrame:
    names = np.repeat(list(counts), list(counts.values()))
    order = np.random.default_rng(5).permutation(len(names))
    return pd.DataFrame({"State": names[order]}, index=order + 1000)


class TestBySizes:
    @given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 30), st.integers(0))
    @settings(max_examples=50, deadline=None)
    def test_parts_are_disjoint_and_sized(self, sizes, spare, seed):
        n_rows = sum(sizes) + spare
        parts = split_by_sizes(n_rows, sizes, seed)
        assert [len(part) for part in parts] == sizes
        rows = np.concatenate(parts)
        assert len(np.unique(rows)) == len(rows)
        assert rows.min() >= 0
        assert rows.max() < n_rows


class TestStates:
    FRAME = states(Main=50, Tiny=5, Small=11, Middle=20, Large=40)

    def organise(self, seed=3, sizes=(10, 30, 4), **settings):
        return brfss_organisations(
            self.FRAME, seed, main_name="Main", main_size=40, branch_sizes=sizes, **settings
        )

    def test_the_largest_size_chooses_first_the_smallest_state_that_has_enough(self):
        found = self.organise()
        # 30 needs Large; 10 takes Small before Middle; 4 takes Tiny. Branches keep their order.
        assert {name: len(rows) for name, rows in found.branches.items()} == {
            "Small": 10,
            "Large": 30,
            "Tiny": 4,
        }
        assert list(found.branches) == ["Small", "Large", "Tiny"]


def test_every_loader_says_what_it_needs_and_where_to_put_it(monkeypatch, tmp_path):
    def unreachable(url, **_):
        raise requests.ConnectionError("no route to host")

    monkeypatch.setattr(pooch, "retrieve", unreachable)
    for name, load in LOADERS.items():
        with pytest.raises(DataSetMissing, match=str(tmp_path)) as caught:
            load(tmp_path)
        assert "sha256" in str(caught.value), name
        assert "CONFRERE_DATA" in str(caught.value)
