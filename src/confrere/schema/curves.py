"""Columns where noise is shaped like the rows: intervals, corners, and hats that make a curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

#: Hats of a curve whose knots are not declared, and the most that may be declared.
HATS, MOST_HATS = 8, 64

#: Beyond so many standard deviations a straight line is bent to a constant: noise is as long as the
#: longest rows, so what is rare is cut off for what is common.
REACH = 1.5

#: How many standard deviations the knots of a curve reach.
KNOTS_REACH = 2.5

#: Mean square of a number between -1 and 1: uniform between bounds, and about the same where it is
#: cut at :data:`REACH` standard deviations.
SPREAD = 1 / 3

#: A scale is longer by this share, so that rounding keeps numbers within one.
HAIR = 1e-12

#: Whether a number is a curve: by the public rule, yes, no, or with these knots.
Curve: TypeAlias = bool | Literal["auto"] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BodyBlock:
    """The encoded columns of one raw column, where noise is shaped like the rows.

    Attributes
    ----------
    size : int
        How many there are; magnitudes add up to one at most.
    kind : {"number", "flag", "category", "curve"}
        What they come from.
    spread : float
        Mean square of one of them, as the declared facts imply it.
    line : tuple of float, default=()
        Where the first ones are neighbouring hats of a curve: what a straight line is at their
        knots, from -1 to 1.
    known : bool, default=False
        Whether the mean and the deviation of a curve's number are declared.
    """

    size: int
    kind: Literal["number", "flag", "category", "curve"]
    spread: float
    line: tuple[float, ...] = ()
    known: bool = False

    @property
    def smooth(self) -> int:
        """How many of the first ones are hats."""
        return len(self.line)


def checked_curve(curve: object, bounds: tuple[float, float]) -> Curve:
    """Return what was declared of a number's curve.

    Raises
    ------
    ValueError
        Saying what it must be.
    """
    if isinstance(curve, bool) or (isinstance(curve, str) and curve == "auto"):
        return curve  # type: ignore[return-value]
    if isinstance(curve, str) or not isinstance(curve, Sequence | np.ndarray):
        raise ValueError('curve must be true, false, "auto" or a list of knots')
    numbers = [
        float(knot) if isinstance(knot, int | float | np.number) else math.nan for knot in curve
    ]
    inside = all(bounds[0] <= knot <= bounds[1] for knot in numbers)
    if not 2 <= len(numbers) <= MOST_HATS or not inside or any(np.diff(numbers) <= 0):
        raise ValueError(
            f"the knots of a curve must be 2 to {MOST_HATS} increasing numbers within the bounds"
        )
    return tuple(numbers)


def checked_quantiles(quantiles: object, bounds: tuple[float, float]) -> tuple[float, ...]:
    """Return quantiles from bound to bound.

    Raises
    ------
    ValueError
        Saying what they must be.
    """
    try:
        found = checked_curve(quantiles, bounds)
    except ValueError:
        found = False
    if not isinstance(found, tuple) or len(found) < 3 or (found[0], found[-1]) != bounds:
        raise ValueError(
            f"quantiles must be 3 to {MOST_HATS} increasing numbers, from the lower bound to the "
            "upper one"
        )
    return found


def count_hats(lo: float, hi: float) -> int:
    """Return how many hats a curve has between bounds: eight, or one per whole number."""
    if not (lo.is_integer() and hi.is_integer()):
        return HATS
    # Between 0 and 1 there are rates, not two whole numbers.
    whole = int(min(HATS, hi - lo + 1))
    return HATS if whole < 3 else whole


def line_at(
    places: tuple[float, ...], middle: float, top: float, bottom: float
) -> tuple[float, ...]:
    """Return what a straight line around a middle is at knots, cut where a line is cut.

    Knots that nobody expected may lie all on one side: then from the first of them to the last.
    """
    cut = np.clip(places, bottom, top)
    if not cut[0] < cut[-1]:
        cut, middle = np.array(places), (places[0] + places[-1]) / 2
    return tuple(((cut - middle) / np.abs(cut - middle).max()).tolist())
