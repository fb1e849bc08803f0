"""The value that says what is promised."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confrere.errors import CompositionError, InvalidParameter
from confrere.kernel.guarantee import Guarantee, Neighbours, Split, in_parallel, in_sequence, shares


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "1", None])
def test_epsilon_must_be_a_positive_finite_number(bad):
    with pytest.raises(InvalidParameter, match="epsilon"):
        Guarantee(epsilon=bad)


@pytest.mark.parametrize("bad", [-1e-9, 1.0, math.nan, True])
def test_delta_must_lie_in_the_unit_interval(bad):
    with pytest.raises(InvalidParameter, match="delta"):
        Guarantee(epsilon=1.0, delta=bad)


epsilons = st.lists(st.floats(1e-3, 10), min_size=1, max_size=8)


@given(epsilons)
def test_sequence_adds(values):
    total = in_sequence(Guarantee(epsilon=value) for value in values)
    exactly = sum((Decimal(repr(value)) for value in values), Decimal(0))
    assert Decimal(repr(total.epsilon)) >= exactly
    assert Decimal(repr(math.nextafter(total.epsilon, 0))) < exactly


@given(epsilons)
def test_parallel_takes_the_largest(values):
    total = in_parallel((Guarantee(epsilon=value) for value in values), split=Split.BY_INDEX)
    assert total.epsilon == max(values)
    assert "disjoint parts, split by index" in total.assumptions


def test_deltas_follow():
    parts = [Guarantee(epsilon=1, delta=1e-6), Guarantee(epsilon=2, delta=1e-7)]
    assert in_sequence(parts).delta == pytest.approx(1.1e-6)
    assert in_parallel(parts, split=Split.BY_ORGANISATION).delta == 1e-6


@pytest.mark.parametrize("compose", [in_sequence, lambda g: in_parallel(g, split=Split.BY_INDEX)])
def test_mixed_units_and_relations_are_refused(compose):
    with pytest.raises(CompositionError, match="units differ"):
        compose([Guarantee(epsilon=1), Guarantee(epsilon=1, unit="party")])
    with pytest.raises(CompositionError, match="neighbours differ"):
        compose([Guarantee(epsilon=1), Guarantee(epsilon=1, neighbours="add-remove")])
    with pytest.raises(CompositionError, match="nothing"):
        compose([])


@pytest.mark.parametrize("split", ["stratified", "by index", None])
def test_parallel_needs_a_split_that_cannot_look_at_the_data(split):
    with pytest.raises(CompositionError, match="stratified, sorted"):
        in_parallel([Guarantee(epsilon=1)], split=split)


def test_positions_shift_when_a_row_is_removed():
    part = Guarantee(epsilon=1, neighbours=Neighbours.ADD_REMOVE)
    with pytest.raises(CompositionError, match="shifts rows"):
        in_parallel([part, part], split=Split.SEEDED_PERMUTATION)
    assert in_parallel([part, part], split=Split.BY_ORGANISATION).epsilon == 1


def test_facts_and_assumptions_are_kept_once():
    first = Guarantee(epsilon=1, public=("n", "d"), assumptions=("a",), theorem="one")
    second = Guarantee(epsilon=1, public=("d", "k"), assumptions=("a", "b"), theorem="two")
    total = in_sequence([first, second])
    assert total.public == ("n", "d", "k")
    assert total.assumptions == ("a", "b")
    assert total.theorem == "one; two"


@given(
    st.floats(1e-3, 10),
    st.lists(st.floats(0, 1e3), min_size=1, max_size=12).filter(lambda w: sum(w) > 0),
)
def test_shares_never_exceed_the_whole(epsilon, weights):
    parts = shares(epsilon, weights)
    assert sum((Decimal(repr(part)) for part in parts), Decimal(0)) <= Decimal(repr(epsilon))
    assert math.fsum(parts) == pytest.approx(epsilon)


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0, 2.0], [math.nan], [math.inf]])
def test_bad_weights(bad):
    with pytest.raises(InvalidParameter, match="weights"):
        shares(1.0, bad)
