"""Neighbouring data sets on which broken mechanisms show.

A promise holds for all data, so an audit may choose them. Rows have as few columns as possible:
noise in more dimensions hides more from whoever counts events, at the same epsilon.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter
from confrere.methods.design import AddRemove


@dataclass(frozen=True)
class Pair:
    """Two data sets that differ in one unit. They must be made up: an audit protects nobody."""

    name: str  #: What differs
    #: ``first``, ``second``: for estimators, a mapping from the names of ``fit``'s arguments to
    #: their values; for functions, whatever they take.
    first: Any
    second: Any

    @classmethod
    def of_rows(
        cls,
        name: str,
        first: tuple[ArrayLike, ArrayLike],
        second: tuple[ArrayLike, ArrayLike],
        **public: Any,
    ) -> Pair:
        """Make a pair for ``fit(X, y, **public)`` from two times ``(X, y)``."""
        sides = [
            {"X": np.asarray(X, dtype=np.float64), "y": np.asarray(y), **public}
            for X, y in (first, second)
        ]
        return cls(name, *sides)


def worst_pairs(
    # Its ``data_norm`` says how long rows may be (one, if it says nothing) and its ``neighbours``
    # what may change (one record is replaced, if it says nothing).
    estimator: Any,
    *,
    n_samples: int = 60,  # Records of each data set
    tilt: float = 0.5,  # Angle, in radians, at which the changed record pulls against all others
) -> list[Pair]:
    """Return neighbours that expose common faults of ``fit(X, y)``.

    A flipped label among equal rows (composition that was not paid for); a badly fitted record that
    becomes another one pulling the opposite way (too little noise), at the first and at the last
    position (splits); a record that grows a thousandfold (scaling by the data). Where records come
    and go, the badly fitted record and the long one are there or not.
    """
    needed = {
        name
        for name, one in inspect.signature(estimator.fit).parameters.items()
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }
    if not needed <= {"X", "y"}:
        raise InvalidParameter(
            f"pair must be given: {type(estimator).__name__}.fit takes more than X and y."
        )
    declared = getattr(estimator, "data_norm", None)
    norm = 1.0 if declared is None else float(np.max(np.atleast_1d(declared)))
    replaced = [
        _flipped_label(n_samples, norm),
        _opposed_misfits(n_samples, norm, tilt, 0),
        _opposed_misfits(n_samples, norm, tilt, n_samples - 1),
        _grown_record(n_samples, norm),
    ]
    if isinstance(getattr(estimator, "neighbours", None), AddRemove):
        return [_removed(pair) for pair in replaced[1:]]
    return replaced


def as_pairs(pair: Pair | Sequence[Pair]) -> list[Pair]:
    """Return a list of pairs, or say what a pair must be."""
    pairs = [pair] if isinstance(pair, Pair) else list(pair)
    if not pairs or not all(isinstance(each, Pair) for each in pairs):
        raise InvalidParameter("pair must be a confrere.audit.Pair, or several of them.")
    if len({each.name for each in pairs}) < len(pairs):
        raise InvalidParameter("pairs must have different names.")
    return pairs


def _flipped_label(n: int, norm: float) -> Pair:
    X = np.tile([norm, 0.0], (n, 1))
    y = np.arange(n) % 2
    flipped = y.copy()
    flipped[0] = 1
    return Pair.of_rows("one label flipped", (X, y), (X, flipped))


def _opposed_misfits(n: int, norm: float, tilt: float, position: int) -> Pair:
    """All records but one agree on the second axis; that one contradicts, to either side."""
    X = np.tile([0.0, norm], (n, 1))
    y = np.ones(n, dtype=np.intp)
    y[position] = 0
    other = X.copy()
    X[position] = _turned(norm, tilt)
    other[position] = _turned(norm, math.pi - tilt)
    return Pair.of_rows(f"opposed misfits at row {position}", (X, y), (other, y))


def _grown_record(n: int, norm: float) -> Pair:
    X = np.tile([norm, 0.0], (n, 1))
    y = np.ones(n, dtype=np.intp)
    grown = X.copy()
    grown[0] *= 1000
    return Pair.of_rows("one record a thousand times longer", (X, y), (grown, y))


def _removed(pair: Pair) -> Pair:
    """Take away the record in which the second data set differs from the first."""
    both = (np.column_stack([side["X"], side["y"]]) for side in (pair.first, pair.second))
    kept = np.all(np.equal(*both), axis=1)
    without = {name: values[kept] for name, values in pair.second.items()}
    return Pair(f"{pair.name}, or not there", pair.second, without)


def _turned(norm: float, angle: float) -> NDArray[np.float64]:
    return norm * np.array([math.cos(angle), math.sin(angle)])
