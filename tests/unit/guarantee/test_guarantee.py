"""The value that says what is promised."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from confrere.errors import CompositionError, InvalidParameter
from confrere.kernel.accountants import gaussian_delta, gaussian_mu
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Apart,
    Guarantee,
    Neighbours,
    Split,
    Then,
    Together,
    chained,
)
from confrere.mechanisms.measurements import Part, Point, SecureSum
from confrere.methods.allowance import shares
from tests.world import ball


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
    total = Together([Guarantee(epsilon=value) for value in values]).guarantee()
    exactly = sum((Decimal(repr(value)) for value in values), Decimal(0))
    assert Decimal(repr(total.epsilon)) >= exactly
    assert Decimal(repr(math.nextafter(total.epsilon, 0))) < exactly


@given(epsilons)
def test_parallel_takes_the_largest(values):
    total = Apart([Guarantee(epsilon=value) for value in values], Split.BY_INDEX).guarantee()
    assert total.epsilon == max(values)
    assert "disjoint parts, split by index" in total.assumptions


def test_deltas_follow():
    parts = [Guarantee(epsilon=1, delta=1e-6), Guarantee(epsilon=2, delta=1e-7)]
    assert Together(parts).guarantee().delta == pytest.approx(1.1e-6)
    assert Apart(parts, Split.BY_ORGANISATION).guarantee().delta == 1e-6


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
    with pytest.raises(CompositionError, match="stratified, sorted"):
        Apart([Guarantee(epsilon=1)], split).guarantee()


def test_positions_shift_when_a_row_is_removed():
    part = Guarantee(epsilon=1, neighbours=Neighbours.ADD_REMOVE)
    with pytest.raises(CompositionError, match="shifts rows"):
        Apart([part, part], Split.SEEDED_PERMUTATION).guarantee()
    assert Apart([part, part], Split.BY_ORGANISATION).guarantee().epsilon == 1


def test_facts_and_assumptions_are_kept_once():
    first = Guarantee(epsilon=1, public=("n", "d"), assumptions=("a",), theorem="one")
    second = Guarantee(epsilon=1, public=("d", "k"), assumptions=("a", "b"), theorem="two")
    total = Together([first, second]).guarantee()
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


class TestSeveralUnits:
    """A person with several rows: between the data are neighbours, one after the other."""

    @given(st.floats(1e-3, 3), st.integers(1, 50))
    def test_pure(self, epsilon, units):
        found = Guarantee(epsilon=epsilon, assumptions=ASSUMPTIONS).guarantee(units)
        assert found.pure
        assert Decimal(repr(found.epsilon)) >= units * Decimal(repr(epsilon))
        assert found.epsilon == pytest.approx(units * epsilon)
        assert units == 1 or f"each person is in at most {units} records" in found.assumptions

    def test_with_delta(self):
        found = Guarantee(epsilon=0.5, delta=1e-6).guarantee(3)
        assert found.epsilon == 1.5
        assert found.delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.exp(1.0)), rel=1e-6)
        with pytest.raises(CompositionError, match="promised to 40 units"):
            Guarantee(epsilon=1.0, delta=1e-6).guarantee(40)

    @pytest.mark.parametrize("units", [2, 5, 20])
    def test_a_profile_keeps_delta(self, units):
        """The Gaussian mechanism's own group price lies below that by neighbours in a row."""

        def profile(mu):
            return lambda at: float(gaussian_delta(at, mu))

        one = Guarantee(epsilon=1.0, delta=1e-6)
        mu = gaussian_mu(1.0, 1e-6)
        exact, bound = (
            one.guarantee(units, each)
            for each in (profile(units * mu), chained(profile(mu), units))
        )
        assert exact.delta == bound.delta == 1e-6
        assert gaussian_delta(exact.epsilon, units * mu) <= 1e-6
        assert units < exact.epsilon < bound.epsilon

    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_of_a_minimiser(self, delta):
        made = ball(3, ridge=5.0, epsilon=0.5, delta=delta)
        prices = [made.guarantee(units) for units in (1, 2, 4)]
        assert [one.delta for one in prices] == [delta] * 3
        for units, one in zip((1, 2, 4), prices, strict=True):
            assert 0.5 * units <= one.epsilon < 0.65 * units
            assert one.covers(prices[0])

    @pytest.mark.parametrize("law", ["point", "sum"])
    def test_of_gaussian_noise_on_what_is_computed(self, law):
        """What two units move is twice as far: a Gaussian of its own, and not a bound by chains."""
        one = {"epsilon": 0.5, "delta": 1e-6}
        sizes = {"size": 3, "largest": 9.0, "n_parties": 4, "releases": 5}
        made = SecureSum(**one, **sizes, sensitivity=2.0)
        if law == "point":
            made = Point(promise=Guarantee(**one), sensitivity=2.0, parts=(Part(3, 9.0),))
        for units in (2, 4):
            found, bound = made.guarantee(units), Guarantee(**one).guarantee(units)
            assert found.delta == 1e-6 < bound.delta
            # The same sensitivity in one unit, at the same noise.
            mu = units * gaussian_mu(0.5, 1e-6)
            least = optimize.brentq(lambda at, mu=mu: gaussian_delta(at, mu) - 1e-6, 0.1, 90)
            assert least * 0.75 <= found.epsilon <= least * 1.02

    @pytest.mark.parametrize("bad", [0, -1, 1.5, True])
    def test_how_many(self, bad):
        with pytest.raises(InvalidParameter, match="units"):
            Guarantee(epsilon=1.0).guarantee(bad)

    @pytest.mark.parametrize("made", [Together, lambda g: Apart(g, Split.BY_INDEX)])
    def test_of_what_is_composed(self, made):
        parts = [Guarantee(epsilon=1.0), Guarantee(epsilon=0.5)]
        assert made(parts).guarantee(3) == made(parts).guarantee().guarantee(3)


def test_what_follows_is_covered_or_refused():
    then = Then(Guarantee(0.25), Guarantee, Guarantee(1.0))
    assert then.after(0.75) == Guarantee(0.75)
    assert (then.guarantee(), then.event()) == (Guarantee(1.0), Guarantee(1.0).event())
    for dearer in (math.nextafter(0.75, 1), 2.0):
        with pytest.raises(CompositionError):
            then.after(dearer)
