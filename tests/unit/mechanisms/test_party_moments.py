"""Moments of labels and features: their bound, and that they are enough."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from confrere import MultipartyClassifier
from confrere.guarantee import Unit
from confrere.mechanisms.party_moments import PartyMoments, moments_of_parties
from confrere.rows.ball import into_ball


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    n_classes=st.integers(2, 5),
    seed=st.integers(0, 1000),
)
def test_moments_are_means_within_the_bound(sizes, n_classes, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = into_ball(rng.normal(size=(offsets[-1], 3)))
    codes = rng.integers(0, n_classes, size=offsets[-1])
    moments = moments_of_parties(rows, codes, offsets, n_classes)
    mechanism = PartyMoments(epsilon=1.0, n_parties=len(sizes), n_features=3, n_classes=n_classes)
    assert moments.shape == (len(sizes), *mechanism.shape)
    lengths = np.linalg.norm(moments.reshape(len(sizes), -1), axis=1)
    assert np.all(lengths <= mechanism.norm * (1 + 1e-12))
    np.testing.assert_allclose(mechanism.clipped(moments), moments, atol=1e-12)
    for k in range(len(sizes)):
        own = slice(offsets[k], offsets[k + 1])
        coded = np.eye(n_classes)[codes[own]] - 1 / n_classes
        expected = coded.T @ rows[own] / sizes[k]
        np.testing.assert_allclose(moments[k], expected[1] if n_classes == 2 else expected)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_one_row_turned_round_reaches_the_sensitivity(n_classes):
    mechanism = PartyMoments(epsilon=1.0, n_parties=10, n_features=1, n_classes=n_classes)
    ends = moments_of_parties(
        np.array([[1.0], [-1.0]]), np.array([0, 0]), np.array([0, 1, 2]), n_classes
    )
    assert np.linalg.norm(ends[0] - ends[1]) / 10 == pytest.approx(mechanism.sensitivity)
    assert mechanism.guarantee().unit is Unit.PARTY
    assert mechanism.guarantee().epsilon == 1.0


def test_without_noise_they_come_near_to_learning_from_all_rows():
    """Parties of two rows: no ensemble of their classifiers could know as much."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(26_000, 4)) * [1.0, 0.5, 0.2, 0.1] / 3
    y = (rows @ [1.0, -2.0, 4.0, 8.0] + 0.3 * rng.normal(size=26_000) > 0).astype(int)
    train, auxiliary, test = slice(0, 10_000), slice(10_000, 16_000), slice(16_000, None)
    party = np.repeat(np.arange(5000), 2)
    fitted = {
        method: MultipartyClassifier(method=method, epsilon=1e6, random_state=0).fit(
            rows[train], y[train], party=party, auxiliary=rows[auxiliary]
        )
        for method in ("moments", "statistic")
    }
    pooled = LogisticRegression(C=1e3).fit(rows[train], y[train]).score(rows[test], y[test])
    assert fitted["moments"].score(rows[test], y[test]) > pooled - 0.01
    assert fitted["statistic"].score(rows[test], y[test]) < pooled - 0.03
    assert fitted["moments"].statistic_.shape == (5,)
