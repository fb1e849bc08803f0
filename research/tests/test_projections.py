"""Projections by public facts: nothing is learned from the rows they are given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from confrere_research.projections import (
    PublicPCA,
    RandomProjection,
    TopFeatures,
    canonical_components,
)

RNG = np.random.default_rng(3)
PUBLIC = RNG.normal(size=(200, 6)) @ np.diag([5, 3, 2, 1, 0.5, 0.1]) + 4
ROWS = RNG.normal(size=(50, 6)) * 3


def test_public_pca_is_the_pca_of_the_public_data():
    pca = PCA(3).fit(PUBLIC)
    scores = pca.transform(ROWS)
    turned = canonical_components(pca.components_, pca.explained_variance_)
    scores *= np.sign((turned * pca.components_).sum(axis=1))
    rms = np.sqrt(pca.explained_variance_.sum())
    ours = PublicPCA(PUBLIC, 3).fit(ROWS)
    lengths = np.linalg.norm(scores, axis=1, keepdims=True)
    assert ours.transform(ROWS) == pytest.approx(scores / np.maximum(lengths, rms))
    loose = PublicPCA(PUBLIC, 3, whiten=True, clip_norm=1e3).fit(ROWS).transform(ROWS) * 1e3
    assert loose == pytest.approx(scores / np.sqrt(pca.explained_variance_))
    unit = PublicPCA(PUBLIC, 3, whiten=True, clip_norm=1e3).fit(PUBLIC).transform(PUBLIC) * 1e3
    assert unit.std(axis=0, ddof=1) == pytest.approx(np.ones(3))


ALL = {
    "pca": lambda **more: PublicPCA(PUBLIC, 3, **more),
    "whitened": lambda **more: PublicPCA(PUBLIC, 3, whiten=True, **more),
    "random": lambda **more: RandomProjection(3, 7, **more),
    "top": lambda **more: TopFeatures([1, 5, 2, 5, 0, 3], 3, **more),
}


@pytest.mark.parametrize("name", ALL)
def test_what_fit_is_given_changes_nothing(name):
    one = ALL[name]().fit(ROWS)
    other = ALL[name]().fit(np.full((2, 6), 1e9), y=[0, 1])
    assert one.transform(ROWS).tolist() == other.transform(ROWS).tolist()
    assert one.fingerprint() == other.fingerprint() == ALL[name]().fingerprint()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("way", ["clip", "unit"])
@settings(max_examples=20, deadline=None)
@given(scale=st.floats(1e-6, 1e6), clip_norm=st.floats(1e-3, 1e3))
def test_rows_are_bounded(name, way, scale, clip_norm):
    projection = ALL[name](rows=way, clip_norm=clip_norm).fit(ROWS)
    norms = np.linalg.norm(projection.transform(ROWS * scale), axis=1)
    assert (norms <= 1).all()
    if way == "unit":
        assert norms == pytest.approx(np.ones(len(ROWS)))
