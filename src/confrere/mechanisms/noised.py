"""What noise is put on: functions of data whose value the kernel releases as a point.

What a function computes is a vector in the coordinates of its noise; what follows the noise touches
no data. Each says how far one unit moves its value, rounding included.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from confrere.arrays import Floats
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    FACTS,
    FLOATS,
    RANDOM,
    Guarantee,
    Neighbours,
    Unit,
    check_relation,
)
from confrere.kernel.streams import in_sum_zero_space, sum_zero_basis
from confrere.mechanisms.measurements import Point
from confrere.mechanisms.secure_sum import sum_assumptions

#: Rows that are added up before others: sums in two stages are rounded less often.
_BLOCK = 4096

_OWN = "what a party sends depends on its own data alone"
_PARTIES = (
    _OWN,
    "whoever adds up what parties send adds the noise, and keeps the sums to itself",
    FLOATS,
    RANDOM,
)


def coordinates(point: Floats) -> Floats:
    """Return a vector as it is, and a matrix by its coordinates where columns sum to zero."""
    if point.ndim == 1:
        return point
    return np.asarray((sum_zero_basis(len(point)).T @ point).ravel())


def from_coordinates(released: Floats, n_classes: int) -> Floats:
    """Return vectors, or matrices whose columns sum to zero, from one row of coordinates each."""
    if n_classes == 2:
        return released
    return np.stack([in_sum_zero_space(each, n_classes) for each in released])


def row_products(left: Any, right: Any) -> Floats:
    """Return ``left' right``: within blocks of rows, written down, and then over blocks."""
    blocks = [slice(at, at + _BLOCK) for at in range(0, max(1, left.shape[0]), _BLOCK)]
    parts = [np.asarray(left[one]).T @ np.asarray(right[one]) for one in blocks]
    return np.asarray(parts[0] if len(parts) == 1 else np.sum(parts, axis=0))


def roundings(n_rows: int) -> int:
    """Return how often a term of :func:`row_products` of so many rows is rounded at the most."""
    return n_rows if n_rows <= _BLOCK else _BLOCK + math.ceil(n_rows / _BLOCK)


def coordinate_rounding(reach: float, n_classes: int) -> float:
    """Bound the error of :func:`coordinates` in floats, for matrices of at most that norm."""
    return 0.0 if n_classes == 2 else 4 * n_classes * 2.0**-52 * reach


def counts(
    epsilon: float,  # The price of all counts together
    # Largest sum of absolute changes of the counts when one record is changed: 1 for the number of
    # records with some property, 2 for a histogram with any number of cells.
    sensitivity: int,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    # What is taken to be known, besides what the relation itself makes public.
    public: tuple[str, ...] = ("label set", "the model", "the grid of scores"),
) -> Point:
    """Return integer noise on counts of records: docs/proofs/private_evaluation.md."""
    sizes = ("number of records",) if neighbours is Neighbours.REPLACE_ONE else ()
    promise = Guarantee(
        epsilon=epsilon,
        neighbours=check_relation(neighbours),
        theorem="docs/proofs/private_evaluation.md",
        public=(*sizes, *public),
        assumptions=ASSUMPTIONS,
    )
    return Point(promise=promise, sensitivity=sensitivity)


def party_guarantee(
    epsilon: float,
    theorem: str,
    *,
    auxiliary: str | None,
    jointly: bool = False,
    colluding: int = 0,
    n_parties: int | None = None,
    delta: float = 0.0,
) -> Guarantee:
    """Return a promise to whole parties.

    ``auxiliary`` says what is public about the auxiliary rows; ``jointly``, whether one of them may
    change together with the party; ``colluding``, how many parties may pool what they know where
    their shares make the noise: 0 where a trusted coordinator adds it.
    """
    trusted = (_OWN, *sum_assumptions(colluding, n_parties)) if colluding else _PARTIES
    also = ("one auxiliary row may change together with the party",) if jointly else ()
    known = () if auxiliary is None else (auxiliary,)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        unit=Unit.PARTY,
        neighbours=Neighbours.REPLACE_ONE,
        theorem=theorem,
        public=("number of parties", *FACTS, *known),
        assumptions=(*trusted, *also),
    )
