"""Loaders that return numbers, on small files with the real layout."""

from __future__ import annotations

import hashlib
import io
import math
import tarfile

import numpy as np
import pytest
from scipy import sparse

from confrere.errors import InvalidData, InvalidParameter
from confrere_research.loaders import (
    iscx_urls,
    kdd99,
    load_iscx_urls,
    load_kdd99,
    load_mnist,
    load_news20,
    load_phishing,
    mnist,
    news20,
    phishing,
)


class TestMnist:
    IMAGES = np.arange(3 * 784, dtype=np.uint8).reshape(3, 28, 28)

    @pytest.fixture(autouse=True)
    def files(self, publish, monkeypatch):
        for part, labels in (("train", [8, 3, 0]), ("test", [0, 8, 8])):
            sizes = np.array([3, 28, 28], dtype=">u4").tobytes()
            images = b"\0\0\x08\x03" + sizes + self.IMAGES.tobytes()
            answers = b"\0\0\x08\x01" + np.array([3], dtype=">u4").tobytes() + bytes(labels)
            for kind, content in (("images", images), ("labels", answers)):
                key = f"{part}_{kind}"
                monkeypatch.setitem(mnist.FILES, key, publish(mnist.FILES[key], content))

    def test_grey_levels_are_divided_by_255(self, tmp_path):
        data = load_mnist(tmp_path)
        expected = self.IMAGES.reshape(3, 784) / 255
        np.testing.assert_allclose(data.train.X, expected, rtol=1e-6)
        assert data.train.X.dtype == np.float32
        assert data.train.y.tolist() == [8, 3, 0]
        assert data.feature_names[29] == "row1_column1"

    def test_digits_are_labelled_in_the_order_given(self, tmp_path):
        data = load_mnist(tmp_path, digits=(8, 0))
        assert data.classes == ("8", "0")
        assert data.train.y.tolist() == [0, 1]
        np.testing.assert_allclose(data.train.X[1], self.IMAGES[2].ravel() / 255, rtol=1e-6)
        assert data.test is not None
        assert data.test.y.tolist() == [1, 0, 0]

    @pytest.mark.parametrize("digits", [(), (3,), (3, 3), (0, 10), (-1, 2)])
    def test_other_digits_are_refused(self, tmp_path, digits):
        with pytest.raises(InvalidParameter, match="digits"):
            load_mnist(tmp_path, digits=digits)


MESSAGES = {
    "20news-bydate-train/sci.space/1": b"orbit orbit orbit moon",
    "20news-bydate-train/talk.politics.misc/2": b"the tax and the vote",
    "20news-bydate-train/rec.autos/3": b"engine",
    "20news-bydate-train/sci.med/4": b"",
    "20news-bydate-test/talk.religion.misc/5": b"caf\xe9 vote",
    "20news-bydate-test/sci.crypt/6": b"orbit orbit orbit moon",
}


class TestNews20:
    @pytest.fixture(autouse=True)
    def files(self, publish, monkeypatch):
        packed, digest = io.BytesIO(), hashlib.sha256()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, text in MESSAGES.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        for name, text in sorted(MESSAGES.items()):
            digest.update(name.encode() + b"\0" + hashlib.sha256(text).digest())
        file = publish(news20.FILE, packed.getvalue(), sha256=digest.hexdigest())
        monkeypatch.setattr(news20, "FILE", file)

    def test_science_is_one_and_talk_is_zero(self, tmp_path):
        data = load_news20(tmp_path)
        assert data.train.groups is not None
        assert data.train.groups.tolist() == ["sci.med", "sci.space", "talk.politics.misc"]
        assert data.train.y.tolist() == [1, 1, 0]
        assert data.test is not None
        assert data.test.y.tolist() == [1, 0]

    def test_counts_are_damped_and_rows_have_norm_one(self, tmp_path):
        data = load_news20(tmp_path, n_features=512)
        assert isinstance(data.train.X, sparse.csr_array)
        assert data.train.X.shape == (3, 512)
        assert len(data.feature_names) == 512
        norms = sparse.linalg.norm(data.train.X, axis=1)
        np.testing.assert_allclose(norms, [0, 1, 1], rtol=1e-6)
        row = np.sort(np.abs(data.train.X[[1]].data))
        np.testing.assert_allclose(row[0] / row[1], math.log(2) / math.log(4), rtol=1e-5)

    def test_a_message_is_encoded_without_the_others(self, tmp_path):
        data = load_news20(tmp_path)
        assert data.test is not None
        same = data.train.X[[1]] - data.test.X[[0]]
        assert abs(same).max() == 0


class TestKdd99:
    LINE = (
        "0,tcp,http,SF,181,5450,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,8,511,0.00,0.25,0.00,0.00,1.00,"
        "0.00,0.00,9,255,1.00,0.00,0.11,0.00,0.00,0.00,0.00,0.00,{}"
    )

    def write(self, publish, monkeypatch, train: list[str], test: list[str]) -> None:
        for name, lines in (("TRAIN", train), ("TEST", test)):
            content = "".join(f"{line}\n" for line in lines).encode()
            monkeypatch.setattr(kdd99, name, publish(getattr(kdd99, name), content))

    def test_numbers_are_scaled_by_declared_bounds_and_names_are_one_hot(
        self, publish, monkeypatch, tmp_path
    ):
        lines = ([self.LINE.format("normal.")], [self.LINE.format("smurf.")])
        self.write(publish, monkeypatch, *lines)
        data = load_kdd99(tmp_path)
        row = dict(zip(data.feature_names, data.train.X.toarray()[0], strict=True))
        whole = math.log1p(1e9)
        ones = ("logged_in", "srv_count", "same_srv_rate", "dst_host_srv_count")
        ones += ("dst_host_same_srv_rate", "protocol_type=tcp", "service=http", "flag=SF")
        expected = dict.fromkeys(ones, 1) | {"count": 8 / 511, "srv_serror_rate": 0.25}
        expected |= {"src_bytes": math.log1p(181) / whole, "dst_bytes": math.log1p(5450) / whole}
        expected |= {"dst_host_count": 9 / 255, "dst_host_same_src_port_rate": 0.11}
        nonzero = {name: value for name, value in row.items() if value}
        assert nonzero == pytest.approx(expected, rel=1e-6)
        assert data.test is not None
        assert (data.train.y.tolist(), data.test.y.tolist()) == ([0], [1])
        assert data.test.groups is not None
        assert data.test.groups.tolist() == ["smurf"]

    def test_values_beyond_the_bounds_are_clipped(self, publish, monkeypatch, tmp_path):
        huge = self.LINE.replace("0,tcp", "999999,tcp").replace(",8,511", ",9999,511")
        self.write(publish, monkeypatch, [huge.format("x.")], [huge.format("x.")])
        row = load_kdd99(tmp_path).train.X.toarray()[0]
        assert row[kdd99.COLUMNS.index("duration")] == 1
        assert row[kdd99.COLUMNS.index("count")] == 1

    def test_blocks_are_joined_in_order(self, publish, monkeypatch, tmp_path):
        monkeypatch.setattr(kdd99, "CHUNK", 2)
        lines = [self.LINE.format(f"kind{n}.").replace(",181,", f",{n},") for n in range(5)]
        self.write(publish, monkeypatch, lines, lines[:1])
        data = load_kdd99(tmp_path)
        assert data.train.X.shape == (5, 123)
        assert data.train.X.dtype == np.float32
        assert data.train.groups is not None
        assert data.train.groups.tolist() == [f"kind{n}" for n in range(5)]
        sizes = data.train.X.toarray()[:, kdd99.COLUMNS.index("src_bytes")]
        np.testing.assert_allclose(sizes, np.log1p(np.arange(5)) / math.log1p(1e9), rtol=1e-6)

    def test_an_undeclared_name_is_refused_without_showing_it(self, publish, monkeypatch, tmp_path):
        self.write(publish, monkeypatch, [self.LINE.format("x.").replace("http", "gopher2")], [])
        with pytest.raises(InvalidData, match="service") as caught:
            load_kdd99(tmp_path)
        assert "gopher2" not in str(caught.value)


LISTS = {
    "benign": ["http://news.example.com/2015/long-story_about-things?page=2"],
    "malware": ["10.0.0.9:7674/a/bot.exe", "10.0.0.9:7674/a/bot.exe"],
    "phishing": [
        '"http://pay.example.net/a?x=1&amp;amp;y=2"',
        "https://pay.example.net/a?x=1&y=2",
    ],
    "spam": ["'http://Shop-7.example.org/B/C/'"],
}


class TestIscxUrls:
    @pytest.fixture(autouse=True)
    def files(self, publish, monkeypatch):
        for kind, lines in LISTS.items():
            content = "".join(f"{line}\r\n" for line in ["URLs", *lines]).encode()
            monkeypatch.setitem(iscx_urls.LISTS, kind, publish(iscx_urls.LISTS[kind], content))

    def test_addresses_are_cleaned_and_counted_once(self, tmp_path):
        data = load_iscx_urls(tmp_path)
        assert data.train.y.tolist() == [0, 1, 1, 1]
        assert data.train.groups is not None
        assert data.train.groups.tolist() == [
            "news.example.com",
            "10.0.0.9:7674",
            "pay.example.net",
            "shop-7.example.org",
        ]

    def test_characters_are_hashed_to_norm_one_beside_lexical_shares(self, tmp_path):
        data = load_iscx_urls(tmp_path, n_features=256)
        assert data.train.X.shape == (4, 256 + len(iscx_urls.LEXICAL))
        assert data.feature_names[256:] == iscx_urls.LEXICAL
        assert abs(data.train.X).max() <= 1
        norms = sparse.linalg.norm(data.train.X[:, :256], axis=1)
        np.testing.assert_allclose(norms, 1, rtol=1e-5)
        malware, spam = (
            dict(zip(iscx_urls.LEXICAL, data.train.X[[k]].toarray()[0, 256:], strict=True))
            for k in (1, 3)
        )
        size = len("10.0.0.9:7674/a/bot.exe")
        shares = {"share of .": 4 / size, "share of digits": 9 / size, "share of host": 8 / size}
        shares |= {"host is an address": 1, "host has a port": 1, "host has a hyphen": 0}
        shares |= {"labels of host": 0.4, "depth of path": 0.2}
        assert {name: malware[name] for name in shares} == pytest.approx(shares)
        capitals = 3 / len("Shop-7.example.org/B/C/")
        shares = {"share of capitals": capitals, "host has a hyphen": 1, "host has a digit": 1}
        assert {name: spam[name] for name in shares} == pytest.approx(shares)


class TestPhishing:
    ARFF = """@relation phishing

@attribute having_IP_Address  {-1,1}
@attribute URL_Length   {1,0,-1}
@attribute Result  {-1,1}

@data
-1,0,-1
1,1,1

"""

    def test_minus_one_is_phishing(self, publish, monkeypatch, tmp_path):
        monkeypatch.setattr(phishing, "FILE", publish(phishing.FILE, self.ARFF.encode()))
        data = load_phishing(tmp_path)
        assert data.feature_names == ("having_IP_Address", "URL_Length")
        np.testing.assert_array_equal(data.train.X, [[-1, 0], [1, 1]])
        assert data.train.y.tolist() == [1, 0]
        assert data.classes[1] == "phishing"
        assert data.test is None
