"""Moments of labels and features: their bound, and that they are enough."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from confrere import MultipartyClassifier
from confrere.guarantee import Unit
from confrere.mechanisms.party_moments import PartyMoments, moments_of_parties
from confrere.noise.sources import SeededSource
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
    lengths = [mechanism.length(one) for one in moments]
    assert np.all(np.array(lengths) <= mechanism.longest_upload * (1 + 1e-12))
    np.testing.assert_allclose(mechanism.clipped(moments), moments, atol=2e-12)
    for k in range(len(sizes)):
        own = slice(offsets[k], offsets[k + 1])
        coded = np.eye(n_classes)[codes[own]] - (1 / 2 if n_classes == 2 else 0)
        expected = coded.T @ rows[own] / sizes[k]
        np.testing.assert_allclose(moments[k], expected[1] if n_classes == 2 else expected)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_one_row_turned_round_reaches_the_sensitivity(n_classes):
    mechanism = PartyMoments(epsilon=1.0, n_parties=10, n_features=1, n_classes=n_classes)
    ends = moments_of_parties(
        np.array([[1.0], [-1.0]]), np.array([0, 0]), np.array([0, 1, 2]), n_classes
    )
    assert mechanism.length(ends[0] - ends[1]) / 10 == pytest.approx(mechanism.sensitivity)
    assert mechanism.guarantee().unit is Unit.PARTY
    assert mechanism.guarantee().epsilon == 1.0


def lost(mechanism, first, second):
    """Return the exact loss between two totals that differ in one party."""
    others = np.zeros(mechanism.shape)
    one, other = (
        mechanism.terms(others + mechanism.clipped(each[None])[0])[0] for each in (first, second)
    )
    return one.loss(other)


@pytest.mark.parametrize("colluding", [0, 1])
@pytest.mark.parametrize("n_classes", [3, 6])
def test_every_class_has_its_noise_and_no_pair_of_parties_loses_more(n_classes, colluding):
    mechanism = PartyMoments(
        epsilon=1.0, n_parties=10, n_features=2, n_classes=n_classes, colluding=colluding
    )
    rng = np.random.default_rng(0)
    ends = [np.outer(np.eye(n_classes)[k], [sign, 0.0]) for k in (0, 1) for sign in (1, -1)]
    wild = list(1e300 * rng.normal(size=(4, *mechanism.shape)))
    mixed = list(rng.normal(size=(20, *mechanism.shape)))
    found = [lost(mechanism, a, b) for a in ends + wild + mixed for b in ends + wild + mixed]
    assert 0.95 < max(found) <= 1.0


@pytest.mark.parametrize("n_classes", [3, 6, 10])
def test_noise_of_every_class_is_less_than_noise_in_one_norm(n_classes):
    """By (K - 1)/sqrt(K), in coordinates where columns sum to zero."""
    mechanism = PartyMoments(epsilon=1.0, n_parties=10, n_features=50, n_classes=n_classes)
    size = (n_classes - 1) * 50 + 1
    one_norm = np.sqrt(size) * 2 * np.sqrt(1 - 1 / n_classes) / 10
    less = (n_classes - 1) / np.sqrt(n_classes)
    assert mechanism.deviation == pytest.approx(one_norm / less, rel=0.02)


def test_a_norm_of_all_classes_for_the_noise_of_each_is_found(monkeypatch):
    mechanism = PartyMoments(epsilon=1.0, n_parties=10, n_features=2, n_classes=3)
    monkeypatch.setattr(
        PartyMoments, "sensitivity", property(lambda self: np.sqrt(2) / self.n_parties)
    )
    first, second = (np.outer(np.eye(3)[k], [1.0, 0.0]) for k in (0, 1))
    assert lost(mechanism, first, second) > 1.3


def test_what_all_classes_share_is_taken_off_and_a_delta_takes_it_off_before():
    rng = np.random.default_rng(1)
    rows = into_ball(rng.normal(size=(40, 3)))
    codes = rng.integers(0, 4, size=40)
    total = moments_of_parties(rows, codes, np.arange(0, 41, 4), 4)
    for delta in (0.0, 1e-3):
        mechanism = PartyMoments(epsilon=1e8, n_parties=10, n_features=3, n_classes=4, delta=delta)
        found = mechanism.run(mechanism.clipped(total).sum(axis=0), source=SeededSource(0))
        wanted = total.mean(axis=0)
        np.testing.assert_allclose(found, wanted - wanted.mean(axis=0), atol=1e-4)
    # No party is so long that one of its classes decides whether this fails.
    same = np.tile(np.outer(np.eye(4)[0], [1.0, 0, 0]), (10, 1, 1))
    mechanism.run(mechanism.clipped(same).sum(axis=0), source=SeededSource(0))


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
