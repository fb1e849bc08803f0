"""What a guarantee says is public, and what it assumes, under every relation."""

from __future__ import annotations

from confrere.guarantee import Guarantee, Neighbours, Unit

_FACTS = ("number of features", "label set", "bounds", "every parameter")
_RECORDS = {
    Neighbours.REPLACE_ONE: ("number of records",),
    Neighbours.ADD_REMOVE: ("declared number of records",),
    Neighbours.LABEL_ONLY: ("number of records", "all features"),
}
_FLOATS = "floats: rounding of the noise and its far tails (total variation below 1e-15)"
_PARTIES = (
    "what a party sends depends on its own data alone",
    "whoever adds up what parties send adds the noise, and keeps the sums to itself",
    _FLOATS,
)

#: What every promise about records assumes.
ASSUMPTIONS = ("each person is in at most one record", _FLOATS)


def public_facts(neighbours: Neighbours, *more: str) -> tuple[str, ...]:
    """Return what is taken to be known where one record changes in this way."""
    return (*_RECORDS[neighbours], *_FACTS, *more)


def party_guarantee(
    epsilon: float, theorem: str, *, auxiliary: str | None, jointly: bool = False
) -> Guarantee:
    """Return a promise to whole parties.

    Parameters
    ----------
    epsilon : float
        The price.
    theorem : str
        The proof page.
    auxiliary : str or None
        What is public about the auxiliary rows.
    jointly : bool, default=False
        Whether one auxiliary row may change together with the party.
    """
    also = ("one auxiliary row may change together with the party",) if jointly else ()
    known = () if auxiliary is None else (auxiliary,)
    return Guarantee(
        epsilon=epsilon,
        unit=Unit.PARTY,
        neighbours=Neighbours.REPLACE_ONE,
        theorem=theorem,
        public=("number of parties", *_FACTS, *known),
        assumptions=(*_PARTIES, *also),
    )
