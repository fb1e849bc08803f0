"""Finding, fetching and verifying: only the published content is ever handed over."""

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pooch
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import DataSetCorrupt, DataSetMissing, InvalidParameter
from confrere_research.loaders import LOADERS, data_directory
from confrere_research.loaders.har import features
from confrere_research.loaders.published_files import (
    PublishedFile,
    read_archive,
    read_arrays,
    read_content,
    unzip,
)
from confrere_research.organisations import brfss_organisations, split_by_column, split_by_sizes

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


def zipped(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


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


@pytest.fixture
def internet(monkeypatch):
    """Stand in for the network: a table of addresses, and a list of what was asked for."""
    pages: dict[str, bytes] = {}
    asked: list[str] = []

    def retrieve(url, known_hash, fname, path, downloader):
        asked.append(url)
        if url not in pages:
            raise requests.ConnectionError("no route to host")
        target = Path(path) / fname
        target.write_bytes(pages[url])
        return str(target)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return pages, asked


def test_the_argument_comes_first_then_the_environment_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CONFRERE_DATA", "/elsewhere")
    assert data_directory(tmp_path) == tmp_path
    assert data_directory() == Path("/elsewhere")
    monkeypatch.delenv("CONFRERE_DATA")
    assert data_directory() == Path(pooch.os_cache("confrere"))
    assert data_directory("~/studies") == Path.home() / "studies"


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

    @pytest.mark.parametrize("keep", [4, 30])
    def test_a_truncated_gzip_is_refused(self, publish, tmp_path, keep):
        study = publish(published(), CONTENT)
        path = tmp_path / "study" / "study.csv.gz"
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(DataSetCorrupt):
            read_content(study, tmp_path)

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


class TestFetching:
    def test_a_missing_file_is_fetched_once_and_kept(self, internet, tmp_path):
        pages, asked = internet
        pages[URL] = zipped(**{"study.csv": CONTENT})
        study = published(convert=unzip("study.csv"))
        assert read_content(study, tmp_path) == CONTENT
        assert read_content(study, tmp_path) == CONTENT
        assert asked == [URL]
        assert [path.name for path in (tmp_path / "study").iterdir()] == ["study.csv"]

    def test_no_network_says_what_to_put_where(self, internet, tmp_path):
        with pytest.raises(DataSetMissing) as caught:
            read_content(published(), tmp_path)
        message = str(caught.value)
        expected = [str(tmp_path / "study" / "study.csv"), str(tmp_path / "study" / "study.zip")]
        for words in (*expected, URL, published().page, published().sha256, "CONFRERE_DATA"):
            assert words in message
        assert not (tmp_path / "study").exists()

    def test_the_official_container_beside_the_file_will_do(self, internet, tmp_path):
        (tmp_path / "study").mkdir()
        whole = zipped(**{"inner.zip": zipped(**{"a/study.csv": CONTENT})})
        (tmp_path / "study" / "study.zip").write_bytes(whole)
        nested = published(convert=unzip("inner.zip", "a/study.csv"))
        assert read_content(nested, tmp_path) == CONTENT
        assert internet[1] == []

    def test_a_wrong_download_is_refused_and_not_kept(self, internet, tmp_path):
        internet[0][URL] = CONTENT + b"57;1\n"
        with pytest.raises(DataSetCorrupt, match=r"study\.zip"):
            read_content(published(), tmp_path)
        assert not (tmp_path / "study").exists()

    def test_a_directory_that_cannot_be_written_is_named(self, internet, tmp_path):
        internet[0][URL] = CONTENT
        (tmp_path / "study").write_text("a file where the folder should be")
        with pytest.raises(DataSetMissing, match="cannot be written"):
            read_content(published(), tmp_path)

    def test_every_loader_says_what_it_needs(self, internet, tmp_path):
        for name, load in LOADERS.items():
            with pytest.raises(DataSetMissing, match=str(tmp_path)) as caught:
                load(tmp_path)
            assert "sha256" in str(caught.value), name


# Activity features: functions of one window, scaled by declared bounds.


def quiet_windows(n: int, seed: int = 0) -> np.ndarray:
    """Return windows of a telephone at rest, x down, with a little noise on every channel."""
    windows = np.random.default_rng(seed).normal(0, 0.003, (n, 64, 9))
    windows[..., :3] = windows[..., 3:6]
    windows[..., 0] += 1
    return windows.astype(np.float32)


class TestFeatures:
    def test_a_window_is_described_without_the_others(self):
        windows = quiet_windows(6)
        together, _ = features(windows)
        for place in range(6):
            alone, _ = features(windows[place : place + 1])
            np.testing.assert_allclose(alone[0], together[place], atol=1e-6)

    @given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-9, 1.0, 1e3]))
    @settings(max_examples=25, deadline=None)
    def test_any_finite_window_gives_finite_values_in_range(self, seed, size):
        windows = np.random.default_rng(seed).normal(0, 1, (2, 64, 9)) * size
        X, _ = features(windows.astype(np.float32))
        assert np.isfinite(X).all()
        assert np.abs(X).max() <= 1


def states(**counts: int) -> pd.DataFrame:
    names = np.repeat(list(counts), list(counts.values()))
    order = np.random.default_rng(5).permutation(len(names))
    return pd.DataFrame({"State": names[order]}, index=order + 1000)


class TestByColumn:
    @given(st.lists(st.sampled_from("dbca"), min_size=1, max_size=40))
    @settings(max_examples=50, deadline=None)
    def test_every_row_goes_to_its_own_organisation(self, names):
        frame = pd.DataFrame({"site": names}, index=range(100, 100 + len(names)))
        found = split_by_column(frame, "site")
        assert list(found) == sorted(set(names))
        for name, rows in found.items():
            assert rows.tolist() == [place for place, n in enumerate(names) if n == name]


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

    def test_impossible_requests_are_refused(self):
        with pytest.raises(InvalidParameter, match="branch_sizes"):
            self.organise(sizes=(30, 30))
        with pytest.raises(InvalidParameter, match="main_size"):
            brfss_organisations(self.FRAME, 0, main_name="Tiny", main_size=6, branch_sizes=(5,))
        with pytest.raises(InvalidParameter, match="main_name"):
            brfss_organisations(self.FRAME, 0, main_name="Atlantis")
