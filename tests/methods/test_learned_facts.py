"""Facts that are paid for: the exact loss of adversarial pairs, sampled outputs, and mutations."""

import math

import numpy as np
import pandas as pd
import pytest

from confrere.assurance.learned_facts import FactsPlan
from confrere.audit import Pair, audit_function
from confrere.data.fact_counts import STEPS, ColumnSums, FactCounts
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Neighbours, Unit
from confrere.kernel.measurements import Point
from confrere.methods import sums
from confrere.schema import Category, Flag, Label, Number, PublicSchema
from confrere.simulation import SeededSource

SCHEMA = PublicSchema(
    [
        Number("age", bounds=(0, 100)),
        Number("weight", bounds=(30, 130), missing="indicator"),
        Category("job", values=["a", "b", "c"]),
        Flag("sex", true="m", false="f"),
    ],
    outcome=Label("ill", positive="yes"),
)
CLAIM = 1.0


def records(*rows):
    frame = pd.DataFrame(rows, columns=["age", "weight", "job", "sex", "ill"], dtype=object)
    return pd.concat([frame, pd.DataFrame([(50, 80, "a", "f", "no")] * 3, columns=frame.columns)])


#: One record becomes another: the farthest cells of every column at once, and ordinary ones.
PAIRS = [
    (records((100, 130, "a", "m", "yes")), records((25, None, "b", "f", "no"))),
    (records((0, 30, "c", "f", "no")), records((75, None, "a", "m", "yes"))),
    (records((100, 55, "b", "m", "no")), records((0, 130, "b", "m", "no"))),
    (records((1e9, None, "b", "m", "no")), records((-1e9, None, "c", "m", "yes"))),
]


def loss(plan, first, second):
    """The largest log ratio of two probabilities of one outcome, exactly.

    Each entry's is ``|c - c'|/s`` at most, reached beyond the larger of the two.
    """
    moved = np.abs(plan.counts.sums(first) - plan.counts.sums(second)).sum()
    return float(moved) / plan.counter.scale


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_no_pair_loses_more_than_the_claim_and_one_nearly_all_of_it(epsilon):
    plan = FactsPlan(FactCounts(SCHEMA), epsilon)
    found = [loss(plan, *pair) / epsilon for pair in PAIRS]
    assert 0.999 <= max(found) <= 1.0
    assert plan.guarantee().epsilon == epsilon


@pytest.mark.parametrize("column", SCHEMA.columns)
def test_a_sensitivity_that_is_too_small_is_found(column, monkeypatch):
    right = ColumnSums.sensitivity.fget
    less = property(lambda one: int((1 - 0.1 * (one.column == column)) * right(one)))
    monkeypatch.setattr(ColumnSums, "sensitivity", less)
    plan = FactsPlan(FactCounts(SCHEMA), CLAIM)
    assert max(loss(plan, *pair) for pair in PAIRS) > CLAIM


def test_a_record_that_comes_or_goes_costs_the_claim_and_its_number_is_counted():
    plan = FactsPlan(FactCounts(SCHEMA), CLAIM, Neighbours.ADD_REMOVE)
    assert plan.guarantee().neighbours is Neighbours.ADD_REMOVE
    assert "number of records" not in plan.guarantee().public
    found = []
    for pair in PAIRS:
        for table in pair:
            there, gone = (
                plan.counted(plan.counts.sums(each), len(each)) for each in (table, table[1:])
            )
            found.append(float(np.abs(there - gone).sum()) / plan.counter.scale)
    assert 0.9 * CLAIM < max(found) <= CLAIM
    # Half of what replacing costs, and a little for the number.
    replaced = FactsPlan(FactCounts(SCHEMA), CLAIM).counter.scale
    assert plan.counter.scale < 0.9 * replaced


@pytest.mark.parametrize("forgotten", ["the number of records", "the square"])
def test_what_add_remove_forgets_is_found(forgotten, monkeypatch):
    if forgotten == "the square":
        monkeypatch.setattr(ColumnSums, "longest", property(lambda self: STEPS))
    else:
        monkeypatch.setattr(sums, "STEPS", 0)
    plan = FactsPlan(FactCounts(SCHEMA), CLAIM, Neighbours.ADD_REMOVE)
    table = records((100, 130, "a", "m", "yes"))
    there, gone = (
        np.append(plan.counts.sums(each), STEPS * len(each)) for each in (table, table[1:])
    )
    assert np.abs(there - gone).sum() / plan.counter.scale > CLAIM


COLUMNS = PAIRS[0][0].columns

#: All of a party's records become others: the farthest means of every column at once.
PARTIES = [
    (
        pd.DataFrame([(100, 130, "a", "m", "yes")] * 3, columns=COLUMNS),
        pd.DataFrame([(25, None, "b", "f", "no")] * 5, columns=COLUMNS),
    ),
    (
        pd.DataFrame([(100, 55, "b", "m", "no"), (0, 30, "a", "m", "no")], columns=COLUMNS),
        pd.DataFrame([(0, None, "c", "f", "no")], columns=COLUMNS),
    ),
]


def party_loss(plan, first, second):
    """The same where a party's whole table changes, beside two parties that stay."""
    others = pd.concat([records((1, 40, "a", "m", "no")), records((99, None, "c", "f", "yes"))])
    found = []
    for table in (first, second):
        party = ["changed"] * len(table) + ["p"] * 4 + ["q"] * 4
        sums, count = plan.summed(pd.concat([table, others]), party)
        assert count == 3
        found.append(sums)
    return float(np.abs(found[0] - found[1]).sum()) / plan.counter.scale


def test_a_whole_party_costs_the_claim():
    plan = FactsPlan(FactCounts(SCHEMA), CLAIM, unit=Unit.PARTY)
    assert (plan.guarantee().unit, plan.guarantee().epsilon) == (Unit.PARTY, CLAIM)
    assert "number of records" not in plan.guarantee().public
    found = [party_loss(plan, *pair) for pair in PARTIES]
    assert 0.99 * CLAIM < max(found) <= CLAIM


def test_a_party_s_sums_in_place_of_its_means_are_found(monkeypatch):
    monkeypatch.setattr(FactCounts, "means", staticmethod(lambda sums, n: sums))
    plan = FactsPlan(FactCounts(SCHEMA), CLAIM, unit=Unit.PARTY)
    assert max(party_loss(plan, *pair) for pair in PARTIES) > 2 * CLAIM


def test_means_are_rounded_by_half_a_step_at_most():
    rng = np.random.default_rng(0)
    sums, count = rng.integers(-(10**6), 10**6, size=(50, 4)), rng.integers(1, 1000, size=50)
    off = FactCounts.means(sums, count) - sums / count[:, None]
    assert np.abs(off).max() <= 0.5
    alone = FactCounts.means(sums[3], int(count[3]))
    np.testing.assert_array_equal(alone, FactCounts.means(sums, count)[3])


def test_how_many_parties_there_are_is_not_hidden():
    with pytest.raises(InvalidParameter, match="unit and neighbours"):
        FactsPlan(FactCounts(SCHEMA), CLAIM, Neighbours.ADD_REMOVE, Unit.PARTY)


def _sample(data, count, generator):
    plan = FactsPlan(FactCounts(SCHEMA), CLAIM)
    source = SeededSource(generator)
    (drawn,) = plan.counter.sample(plan.counts.sums(data), source, count)
    return drawn.astype(np.float64)


def _likelihood(pair):
    """The best statistic there is: which of the two data sets an outcome is likelier on."""
    counts = FactCounts(SCHEMA)
    first, second = counts.sums(pair.first), counts.sums(pair.second)
    return lambda outputs: (np.abs(outputs - first) - np.abs(outputs - second)).sum(axis=1)


def test_sampled_outputs_keep_the_claim_and_a_third_of_the_noise_does_not(monkeypatch):
    pair = Pair("farthest", *PAIRS[0])
    settings = {"claimed": CLAIM, "runs": 20_000, "statistic": _likelihood(pair), "progress": False}
    kept = audit_function(_sample, pair, **settings)
    assert 0.2 < kept.epsilon <= CLAIM
    scale = Point.scale.fget
    monkeypatch.setattr(Point, "scale", property(lambda self: scale(self) / 3))
    assert audit_function(_sample, pair, **settings).epsilon > CLAIM


def test_the_noise_has_the_law_that_post_processing_counts_on():
    plan = FactsPlan(FactCounts(SCHEMA), 0.5)
    (drawn,) = plan.counter.sample(
        np.zeros(plan.counts.size, dtype=np.int64), SeededSource(1), 4_000
    )
    assert drawn.std() == pytest.approx(plan.deviation, rel=0.03)
    assert plan.deviation == pytest.approx(math.sqrt(2) * plan.counter.scale, rel=1e-3)
    correlations = np.corrcoef(drawn.T) - np.eye(plan.counts.size)
    assert np.abs(correlations).max() < 0.08
