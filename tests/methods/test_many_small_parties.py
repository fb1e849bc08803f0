"""Thousands of parties in one process; twenty thousand where there is time."""

import numpy as np
import pytest

from confrere import CollaborativeClassifier
from confrere.methods.asking import PartyRows

MANY = [2_000, pytest.param(20_000, marks=pytest.mark.slow)]


def make_rows(sizes, d=5):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], d)) / np.sqrt(d)
    return PartyRows(X, np.where(X[:, 0] > 0, 1.0, -1.0), offsets)


@pytest.mark.parametrize("n_parties", MANY)
@pytest.mark.parametrize("method", ["average", "ofpa", "laplace"])
def test_one_round_is_one_price_and_learns(method, n_parties):
    sizes = np.random.default_rng(1).integers(1, 10, size=n_parties) * (20_000 // n_parties)
    rows, party = make_rows(sizes), np.repeat(np.arange(n_parties), sizes)
    model = CollaborativeClassifier(method=method, data_norm=2.0, random_state=0)
    model.fit(rows.X, rows.y > 0, party=party)
    assert model.guarantee_.epsilon == 1.0
    assert "disjoint parts, split by organisation" in model.guarantee_.assumptions
    assert len(model.party_weights_) == n_parties
    assert model.score(rows.X, rows.y > 0) > 0.9
