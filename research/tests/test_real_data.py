"""Every loader on the real files; collected only where CONFRERE_DATA says where they lie."""

from functools import partial

import numpy as np
import pytest

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


def encodes(data) -> None:
    """Every published value is declared: the schema encodes the whole table."""
    X = data.schema.encoder().fit_transform(data.train.X)
    assert X.shape == (len(data.train), len(data.schema.feature_names))
    assert np.isfinite(X).all()
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-9


def test_every_loader_is_here():
    assert FILES.keys() == LOADERS.keys()


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
