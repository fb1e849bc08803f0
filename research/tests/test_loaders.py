"""Finding, fetching and verifying: only the published content is ever handed over."""

import hashlib
import io
import math
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

from confrere.errors import DataSetCorrupt, DataSetMissing, InvalidData, InvalidParameter
from confrere_research.loaders import (
    LOADERS,
    bank_marketing,
    brfss2015,
    brfss2022,
    credit_default,
    data_directory,
    har,
    iscx_urls,
    kdd99,
    load_bank_marketing,
    load_brfss2015,
    load_brfss2022,
    load_credit_default,
    load_har,
    load_iscx_urls,
    load_kdd99,
    load_mnist,
    load_news20,
    load_phishing,
    mnist,
    news20,
    phishing,
)
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


# Loaders that return numbers, on small files with the real layout.


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

    def test_an_undeclared_name_is_refused_without_showing_it(self, publish, monkeypatch, tmp_path):
        self.write(publish, monkeypatch, [self.LINE.format("x.").replace("http", "gopher2")], [])
        with pytest.raises(InvalidData, match="service") as caught:
            load_kdd99(tmp_path)
        assert "gopher2" not in str(caught.value)


LISTS = {
    "benign": ["http://news.example.com/2015/long-story_about-things?page=2"],
    "malware": ["10.0.0.9:7674/a/bot.exe", "10.0.0.9:7674/a/bot.exe"],
    "phishing": ['"http://pay.example.net/a?x=1&amp;amp;y=2"', "https://pay.example.net/a?x=1&y=2"],
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


# Loaders that return tables, on small files with the real layout.


FULL = b""""age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";\
"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"
58;"management";"married";"tertiary";"no";2143;"yes";"no";"unknown";5;"may";261;1;-1;0;"unknown";"no"
33;"admin.";"single";"secondary";"no";-20;"yes";"yes";"cellular";9;"jan";76;1;99;2;"success";"yes"
"""
CREDIT = b""""ID","LIMIT_BAL","SEX","EDUCATION","MARRIAGE","AGE","PAY_0","PAY_2","PAY_3","PAY_4",\
"PAY_5","PAY_6","BILL_AMT1","BILL_AMT2","BILL_AMT3","BILL_AMT4","BILL_AMT5","BILL_AMT6","PAY_AMT1",\
"PAY_AMT2","PAY_AMT3","PAY_AMT4","PAY_AMT5","PAY_AMT6","default.payment.next.month"
1,20000,2,2,1,24,2,2,-1,-1,-2,-2,3913,3102,689,0,0,0,0,689,0,0,0,0,1
2,120000,1,0,2,26,-1,2,0,0,0,2,2682,1725,2682,3272,3455,3261,0,1000,1000,1000,0,2000,0
"""
DIABETES = b"""Diabetes_binary,HighBP,HighChol,CholCheck,BMI,Smoker,Stroke,HeartDiseaseorAttack,\
PhysActivity,Fruits,Veggies,HvyAlcoholConsump,AnyHealthcare,NoDocbcCost,GenHlth,MentHlth,PhysHlth,\
DiffWalk,Sex,Age,Education,Income
0.0,1.0,1.0,1.0,40.0,1.0,0.0,0.0,0.0,0.0,1.0,0.0,1.0,0.0,5.0,18.0,15.0,1.0,0.0,9.0,4.0,3.0
1.0,0.0,0.0,0.0,25.0,1.0,0.0,0.0,1.0,0.0,0.0,0.0,0.0,1.0,3.0,0.0,0.0,0.0,1.0,7.0,6.0,1.0
"""
STATES = """State,Sex,GeneralHealth,PhysicalHealthDays,MentalHealthDays,LastCheckupTime,\
PhysicalActivities,SleepHours,RemovedTeeth,HadHeartAttack,HadAngina,HadStroke,HadAsthma,\
HadSkinCancer,HadCOPD,HadDepressiveDisorder,HadKidneyDisease,HadArthritis,HadDiabetes,\
DeafOrHardOfHearing,BlindOrVisionDifficulty,DifficultyConcentrating,DifficultyWalking,\
DifficultyDressingBathing,DifficultyErrands,SmokerStatus,ECigaretteUsage,ChestScan,\
RaceEthnicityCategory,AgeCategory,HeightInMeters,WeightInKilograms,BMI,AlcoholDrinkers,HIVTesting,\
FluVaxLast12,PneumoVaxEver,TetanusLast10Tdap,HighRiskLastYear,CovidPos
"""
PERSON = (
    "{state},Female,Very good,4.0,0.0,Within past year (anytime less than 12 months ago),Yes,9.0,"
    'None of them,No,No,No,No,No,No,No,No,Yes,"{diabetes}",No,No,No,No,No,No,Former smoker,'
    'Never used e-cigarettes in my entire life,No,"White only, Non-Hispanic",Age 65 to 69,1.6,'
    '71.67,27.99,No,No,Yes,Yes,"Yes, received Tdap",No,No\n'
)


def encoded(data) -> np.ndarray:
    assert data.schema is not None
    return data.schema.encoder().fit_transform(data.train.X)


class TestBankMarketing:
    def test_the_table_is_as_published(self, publish, monkeypatch, tmp_path):
        files = bank_marketing.FILES
        monkeypatch.setitem(files, "full", publish(files["full"], FULL))
        data = load_bank_marketing(tmp_path)
        assert data.train.y.tolist() == [0, 1]
        assert data.feature_names == bank_marketing.SCHEMAS["full"].columns
        assert data.train.X["balance"].tolist() == [2143, -20]
        assert data.train.X["job"].tolist() == ["management", "admin."]
        assert isinstance(data.train.X["job"].dtype, pd.CategoricalDtype)
        assert np.isfinite(encoded(data)).all()


class TestCreditDefault:
    def test_the_identifier_is_no_feature(self, publish, monkeypatch, tmp_path):
        monkeypatch.setattr(credit_default, "FILE", publish(credit_default.FILE, CREDIT))
        data = load_credit_default(tmp_path)
        assert data.feature_names == credit_default.SCHEMA.columns
        assert len(data.feature_names) == 23
        assert data.train.y.tolist() == [1, 0]
        assert data.train.X["LIMIT_BAL"].tolist() == [20_000, 120_000]
        assert np.isfinite(encoded(data)).all()


class TestBrfss2015:
    def test_the_table_is_as_published(self, publish, monkeypatch, tmp_path):
        monkeypatch.setattr(brfss2015, "FILE", publish(brfss2015.FILE, DIABETES))
        data = load_brfss2015(tmp_path)
        assert data.train.X.shape == (2, 21)
        assert data.train.y.tolist() == [0, 1]
        assert data.schema is not None
        assert set(data.schema.columns) == set(data.feature_names)
        assert np.isfinite(encoded(data)).all()


class TestBrfss2022:
    @pytest.fixture(autouse=True)
    def files(self, publish, monkeypatch):
        answers = ("Yes", "No", "No, pre-diabetes or borderline diabetes", "Yes")
        people = [
            PERSON.format(state=state, diabetes=answer)
            for state, answer in zip(("Ohio", "Utah", "Utah", "Guam"), answers, strict=True)
        ]
        content = (STATES + "".join(people)).encode()
        monkeypatch.setattr(brfss2022, "FILE", publish(brfss2022.FILE, content))

    def test_only_yes_is_diabetes_and_the_state_stays(self, tmp_path):
        data = load_brfss2022(tmp_path)
        assert data.train.X.shape == (4, 39)
        assert data.train.y.tolist() == [1, 0, 0, 1]
        assert data.train.X["State"].tolist() == ["Ohio", "Utah", "Utah", "Guam"]
        assert "HadDiabetes" not in data.feature_names

    def test_the_state_is_no_feature_of_the_schema(self, tmp_path):
        data = load_brfss2022(tmp_path)
        assert data.schema is not None
        assert set(data.feature_names) - set(data.schema.columns) == {"State"}
        assert np.isfinite(encoded(data)).all()


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


class TestLoader:
    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "X_train": quiet_windows(3),
            "y_train": np.array([1, 6, 4], dtype=np.int8),
            "subject_train": np.array([1, 1, 7], dtype=np.int8),
            "X_test": quiet_windows(2, seed=1),
            "y_test": np.array([5, 2], dtype=np.int8),
            "subject_test": np.array([2, 9], dtype=np.int8),
        }

    def digest(self, arrays: dict[str, np.ndarray]) -> str:
        digest = hashlib.sha256()
        for name, array in sorted(arrays.items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}\0".encode() + array.tobytes())
        return digest.hexdigest()

    def test_activities_and_people(self, publish, monkeypatch, tmp_path):
        arrays, packed = self.arrays(), io.BytesIO()
        np.savez(packed, **arrays)
        file = publish(har.FILE, packed.getvalue(), sha256=self.digest(arrays), packed=False)
        monkeypatch.setattr(har, "FILE", file)
        data = load_har(tmp_path)
        assert [data.classes[label] for label in data.train.y] == ["walking", "laying", "sitting"]
        assert data.train.groups is not None
        assert data.train.groups.tolist() == [1, 1, 7]
        assert data.test is not None
        assert data.test.y.tolist() == [4, 1]
        assert data.test.X.shape == (2, len(data.feature_names))
        np.testing.assert_array_equal(data.train.X, features(arrays["X_train"])[0])


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
