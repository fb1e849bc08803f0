"""Every loader on the real files; collected only where CONFRERE_DATA says where they lie."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from confrere_research.loaders import (
    LOADERS,
    bank_marketing,
    brfss2015,
    brfss2022,
    credit_default,
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
from confrere_research.loaders.published_files import PublishedFile
from confrere_research.organisations import brfss_organisations

FILES: dict[str, tuple[PublishedFile, ...]] = {
    "bank_marketing": tuple(bank_marketing.FILES.values()),
    "brfss2015": (brfss2015.FILE,),
    "brfss2022": (brfss2022.FILE,),
    "credit_default": (credit_default.FILE,),
    "har": (har.FILE,),
    "iscx_urls": tuple(iscx_urls.LISTS.values()),
    "kdd99": (kdd99.TRAIN, kdd99.TEST),
    "mnist": tuple(mnist.FILES.values()),
    "news20": (news20.FILE,),
    "phishing": (phishing.FILE,),
}


def in_unit_range(X) -> bool:
    values = X.data if sparse.issparse(X) else X
    return bool(np.isfinite(values).all() and np.abs(values).max() <= 1)


def encodes(data) -> None:
    """Every published value is declared: the schema encodes the whole table."""
    X = data.schema.encoder().fit_transform(data.train.X)
    assert X.shape == (len(data.train), len(data.schema.feature_names))
    assert np.isfinite(X).all()
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-9


def test_every_loader_is_here():
    assert FILES.keys() == LOADERS.keys()


class TestArrays:
    def test_mnist(self):
        data = load_mnist()
        assert data.test is not None
        assert data.train.X.shape == (60_000, 784)
        assert data.test.X.shape == (10_000, 784)
        assert np.bincount(data.train.y)[[0, 8, 9]].tolist() == [5_923, 5_851, 5_949]
        assert in_unit_range(data.train.X)
        pair = load_mnist(digits=(0, 8))
        assert np.bincount(pair.train.y).tolist() == [5_923, 5_851]

    def test_news20(self):
        data = load_news20()
        assert data.test is not None
        assert np.bincount(data.train.y).tolist() == [1_952, 2_373]
        assert np.bincount(data.test.y).tolist() == [1_301, 1_579]
        assert in_unit_range(data.train.X)
        model = LogisticRegression(C=10, max_iter=200).fit(data.train.X, data.train.y)
        assert roc_auc_score(data.test.y, model.decision_function(data.test.X)) > 0.98

    def test_kdd99(self):
        data = load_kdd99()
        assert data.test is not None
        assert data.train.X.shape == (494_021, 123)
        assert data.test.X.shape == (311_029, 123)
        assert np.bincount(data.train.y).tolist() == [97_278, 396_743]
        assert np.bincount(data.test.y).tolist() == [60_593, 250_436]
        assert in_unit_range(data.train.X)
        assert in_unit_range(data.test.X)
        one_hot = data.train.X[:, len(kdd99.NUMERIC) :].sum(axis=1)
        np.testing.assert_array_equal(one_hot, 3)
        model = LogisticRegression(max_iter=200).fit(data.train.X[::10], data.train.y[::10])
        assert model.score(data.test.X, data.test.y) > 0.91

    def test_har(self):
        data = load_har()
        assert data.test is not None
        assert (len(data.train), len(data.test)) == (7_352, 2_947)
        assert data.train.X.shape[1] == len(data.feature_names) == len(set(data.feature_names))
        assert np.bincount(data.train.y).tolist() == [1_226, 1_073, 986, 1_286, 1_374, 1_407]
        assert in_unit_range(data.train.X)
        assert data.train.groups is not None
        assert data.test.groups is not None
        people = set(data.train.groups), set(data.test.groups)
        assert (len(people[0]), len(people[1])) == (21, 9)
        assert not people[0] & people[1]
        model = LogisticRegression(max_iter=300).fit(data.train.X, data.train.y)
        assert model.score(data.test.X, data.test.y) > 0.94

    def test_iscx_urls(self):
        data = load_iscx_urls()
        assert np.bincount(data.train.y).tolist() == [35_065, 24_441]
        assert in_unit_range(data.train.X)
        order = np.random.default_rng(0).permutation(len(data.train))
        fit, held = order[:40_000], order[40_000:]
        model = LogisticRegression(C=10, max_iter=200).fit(data.train.X[fit], data.train.y[fit])
        assert model.score(data.train.X[held], data.train.y[held]) > 0.99


class TestTables:
    @pytest.mark.parametrize(
        ("load", "shape", "counts"),
        [
            (load_phishing, (11_055, 30), [6_157, 4_898]),
            (load_bank_marketing, (45_211, 16), [39_922, 5_289]),
            (partial(load_bank_marketing, version="additional"), (41_188, 20), [36_548, 4_640]),
            (load_credit_default, (30_000, 23), [23_364, 6_636]),
            (load_brfss2015, (253_680, 21), [218_334, 35_346]),
            (load_brfss2022, (246_022, 39), [212_209, 33_813]),
        ],
    )
    def test_tables_are_as_large_as_published_and_encode(self, load, shape, counts):
        data = load()
        assert data.train.X.shape == shape
        assert np.bincount(data.train.y).tolist() == counts
        if data.schema is not None:
            encodes(data)

    def test_states_play_the_hospitals(self):
        data = load_brfss2022()
        found = brfss_organisations(data.train.X, seed=0)
        assert len(found.main) == 12_702
        assert list(found.branches)[14] == "Florida"
        assert [len(rows) for rows in found.branches.values()][14] == 6_482
        states = data.train.X["State"].to_numpy()
        assert set(states[found.main]) == {"Washington"}
        assert len(found.branches) == 16
        taken = {"Washington", *found.branches}
        assert len(found.public) == int((~np.isin(states, list(taken))).sum())
