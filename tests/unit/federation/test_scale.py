"""Twenty thousand parties in one process."""

import numpy as np
import pytest

from confrere.federation import (
    Averaging,
    Books,
    Frame,
    LocalFederation,
    PartyGroup,
    Policy,
    average,
)
from confrere.ledger import Ledger

N_PARTIES = 20_000


def make_group(sizes, d=5):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], d)) / np.sqrt(d)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    ledger = Ledger()
    ledger.open_account("all")
    names = tuple(map(str, range(len(sizes))))
    policy = Policy.anything(unit="record", neighbours="replace-one")
    books = Books(ledger=ledger, account="all", policy=policy)
    return PartyGroup(names, X, y, offsets, books, random_state=0)


@pytest.mark.parametrize(
    ("norm", "perturb"), [("l2", "objective"), ("l1", "objective"), ("l2", "output")]
)
def test_one_round_is_one_charge_and_learns(norm, perturb):
    rng = np.random.default_rng(1)
    group = make_group(rng.integers(1, 10, size=N_PARTIES))
    plan = Averaging(frame=Frame(5, data_norm=2.0, norm=norm), epsilon=1.0, perturb=perturb)
    outcome = average(LocalFederation(group), plan)
    assert group.books.ledger.spent("all") == outcome.guarantee.epsilon == 1.0
    assert len(outcome.sizes) == N_PARTIES
    scores = group.X @ outcome.coef + outcome.intercept
    assert np.mean((scores > 0) == (group.y > 0)) > 0.9


def test_blocks_hold_every_member_once():
    sizes = np.array([1, 300_000, 2, 3, 70_000, 1])
    group = make_group(sizes, d=2)
    seen = []
    for block in group.rows.blocks():
        assert block.offsets[0] == 0
        assert block.offsets[-1] == len(block.X) == len(block.y)
        seen.extend(block.sizes.tolist())
    assert seen == sizes.tolist()
    assert np.array_equal(np.concatenate([block.X for block in group.rows.blocks()]), group.X)


@pytest.mark.parametrize(("sizes", "many"), [([9] * 99, False), ([9] * 100, True)])
def test_few_or_large_parties_are_not_worth_stacking(sizes, many):
    assert make_group(sizes).rows.many is many
    assert not make_group([*sizes, 40_000]).rows.many
