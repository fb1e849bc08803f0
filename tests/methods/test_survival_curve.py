"""Survival curves of noised counts: what a person moves, and whether bands cover."""

import numpy as np
import pandas as pd
import pytest

from confrere.errors import InvalidParameter
from confrere.ledger import Ledger
from confrere.outcomes.curve import SurvivalCounts
from confrere.schema import Category
from confrere.survival import SurvivalCurve, TimeToEvent
from tests.world import RELATIONS

ENDS = tuple(np.linspace(0, 10, 21)[1:].tolist())
OUTCOME = TimeToEvent("t", event="e", pieces=ENDS)
ARM = Category("arm", values=("a", "b"), unknown="zeros", missing="center")


def people(n, seed):
    generator = np.random.default_rng(seed)
    lived, seen = generator.exponential(10, n), generator.uniform(0, 15, n)
    return pd.DataFrame({"t": np.minimum(lived, seen), "e": lived <= seen, "arm": n * ["a"]})


def test_a_person_is_one_count():
    counted, table = SurvivalCounts(OUTCOME, ARM), people(50, 0).astype({"arm": object})
    before = counted.sums(table)
    assert before.sum() == 50
    for record in ((0.0, True, "a"), (1e9, True, "b"), (10.0, False, None), (5.0, False, "c")):
        table.iloc[0] = record
        assert np.abs(counted.sums(table) - before).sum() == 2
    assert [counted.point(1.0, relation).sensitivity for relation in RELATIONS] == [2, 1]


def test_without_noise_and_by_fine_pieces_it_is_kaplan_and_meiers():
    table = people(4000, 1).sort_values("t")
    fine = TimeToEvent("t", event="e", pieces=tuple(np.linspace(0, 10, 2001)[1:].tolist()))
    counted = SurvivalCounts(fine)
    found = [one.survival for one in counted.estimates(counted.sums(table), 1e-9)]
    steps = np.cumprod(1 - table["e"].to_numpy() / np.arange(4000, 0, -1))
    exact = np.append(1.0, steps)[np.searchsorted(table["t"], fine.pieces)]
    assert np.abs(np.array(found) - exact).max() < 1e-3


@pytest.mark.parametrize(("n", "epsilon"), [(600, 1.0), (3000, 0.5)])
def test_bands_cover(n, epsilon):
    truth, inside, whole = np.exp(-np.array(ENDS) / 10), [], []
    for seed in range(120):
        found = SurvivalCurve(epsilon, OUTCOME, random_state=seed).fit(people(n, seed)).table()
        one, true = pd.DataFrame(found), truth[: len(found)]
        inside += [*((one["low"] <= true) & (true <= one["high"]))]
        whole.append(bool(np.all((one["band_low"] <= true) & (true <= one["band_high"]))))
    assert 0.92 <= np.mean(inside) <= 0.99
    assert 0.89 <= np.mean(whole) <= 1.0  # of 120 draws, .95 within three deviations


def test_any_noise_gives_curves_and_they_are_paid_for_once():
    ledger, counted = Ledger(), SurvivalCounts(OUTCOME, ARM)
    ledger.open_account("people", epsilon=1.0)
    made = SurvivalCurve(1.0, OUTCOME, ledger["people"], by=ARM).fit(people(2000, 0))
    assert ledger.spent("people") == made.privacy_cost().epsilon == 1.0
    assert len(made.to_csv().splitlines()) == 1 + len(made.estimates_)
    assert "without the event" in made._repr_html_()
    assert list(counted.estimates(np.zeros(counted.shape), 2.0)) == []
    noised = 300 * np.random.default_rng(0).normal(size=(50, *counted.shape))
    for one in (each for noise in noised for each in counted.estimates(noise, 2.0)):
        assert 0 <= one.band_low <= one.low + 1e-9 <= one.high + 2e-9 <= one.band_high + 3e-9
    two = [SurvivalCurve(1.0, OUTCOME, random_state=k).fit(people(500, k)) for k in (1, 2)]
    assert np.array_equal(SurvivalCurve.pooled(two).counts_, two[0].counts_ + two[1].counts_)
    assert SurvivalCurve.pooled(two).deviation_ == pytest.approx(2**0.5 * two[0].deviation_)
    hidden = [SurvivalCurve(1.0, OUTCOME, neighbours="add-remove", random_state=k) for k in (1, 2)]
    hidden = [each.fit(people(500, 1)) for each in hidden]
    assert SurvivalCurve.pooled(hidden).privacy_cost() == hidden[0].privacy_cost()
    with pytest.raises(InvalidParameter, match="neighbours"):
        SurvivalCurve.pooled([*two, *hidden])
