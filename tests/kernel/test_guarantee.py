"""The value that says what is promised."""

import math

import pytest

from confrere.errors import CompositionError, InvalidParameter
from confrere.kernel.guarantee import Guarantee, Neighbours, Split
from confrere.ledger.compose import Apart, Then, Together
from confrere.release.spending import Spending


@pytest.mark.parametrize("compose", [Together, lambda g: Apart(g, Split.BY_INDEX)])
def test_mixed_units_and_relations_are_refused(compose):
    with pytest.raises(CompositionError, match="units differ"):
        compose([Guarantee(epsilon=1), Guarantee(epsilon=1, unit="party")]).guarantee()
    with pytest.raises(CompositionError, match="neighbours differ"):
        compose([Guarantee(epsilon=1), Guarantee(epsilon=1, neighbours="add-remove")]).guarantee()
    with pytest.raises(CompositionError, match="nothing"):
        compose([]).guarantee()


@pytest.mark.parametrize("split", ["stratified", "by index", None])
def test_parallel_needs_a_split_that_cannot_look_at_the_data(split):
    with pytest.raises(CompositionError, match="split"):
        Apart([Guarantee(epsilon=1)], split).guarantee()


def test_positions_shift_when_a_row_is_removed():
    part = Guarantee(epsilon=1, neighbours=Neighbours.ADD_REMOVE)
    with pytest.raises(CompositionError, match="split"):
        Apart([part, part], Split.SEEDED_PERMUTATION).guarantee()
    assert Apart([part, part], Split.BY_ORGANISATION).guarantee().epsilon == 1


def test_several_rows_of_a_person_with_delta():
    """Between the data are neighbours, one after the other."""
    epsilon, delta = Spending(Guarantee(epsilon=0.5, delta=1e-6)).privacy_cost(3)
    assert epsilon == 1.5
    assert delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.exp(1.0)), rel=1e-6)
    with pytest.raises(InvalidParameter, match="max_rows_per_unit"):
        Spending(Guarantee(epsilon=1.0, delta=1e-6)).privacy_cost(40)


def test_what_follows_is_covered_or_refused():
    then = Then(Guarantee(0.25), Guarantee, Guarantee(1.0))
    assert then.after(0.75) == Guarantee(0.75)
    assert (then.guarantee(), then.event()) == (Guarantee(1.0), Guarantee(1.0).event())
    for dearer in (math.nextafter(0.75, 1), 2.0):
        with pytest.raises(CompositionError):
            then.after(dearer)
