"""Projections by public facts: nothing is learned from the rows they are given."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from confrere_research.projections import PublicPCA, canonical_components

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
