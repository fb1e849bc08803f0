"""How rows become scores, in operations any language has, with an answer for every finite row.

Sums run from left to right and start at the intercept: a loop over ``s = s + a[j] * b[j]`` in
double precision gives the same bits everywhere, which a library's dot product does not. Entries
beyond ``LARGEST`` are read as ``LARGEST``, so that no sum of theirs overflows: every finite row has
a finite score, and no probability is undefined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, special

from confrere.errors import InvalidData, InvalidRelease

Floats: TypeAlias = NDArray[np.float64]

#: Numbers beyond it, in rows and in models, are read as it.
LARGEST = 1e100

#: The least clipping bound, below the norm of every row that matters: rows of length one.
UNIT_ROWS = 1e-150

#: Rows at a time: their columns, made contiguous, stay in the processor's cache.
_BLOCK = 4096


def wrong(where: str, what: str) -> InvalidRelease:
    """Return the error to raise about a model."""
    return InvalidRelease(f"the model is wrong: {where} {what}.")


def numbers(values: ArrayLike, where: str) -> Floats:
    """Return a read-only copy within ``LARGEST``; refuse what is not numbers."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise wrong(where, "must be numbers, in rows of equal length") from error
    if np.any(np.isnan(array)):
        raise wrong(where, "must be numbers")
    array = np.array(np.clip(array, -LARGEST, LARGEST))
    array.flags.writeable = False
    return array


def number(value: Any, where: str) -> float:
    """Return one number within ``LARGEST``."""
    array = numbers(value, where)
    if array.shape != ():
        raise wrong(where, "must be one number")
    return float(array)


def readable_rows(X: Any, n_features: int) -> Any:
    """Return finite rows within ``LARGEST``; CSR rows stay CSR.

    Raises
    ------
    InvalidData
        If the rows have another number of columns, or values that are not finite.
    """
    rows: Any = X.tocsr().astype(np.float64) if is_sparse(X) else _dense(X)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise InvalidData(
            f"X must be rows of {n_features} features, in the order of the model's features."
        )
    values = rows.data if is_sparse(rows) else rows
    # Two passes that copy nothing: NaN is the smallest and the largest of whatever holds it.
    low, high = values.min(initial=0.0), values.max(initial=0.0)
    if not np.isfinite(low) or not np.isfinite(high):
        raise InvalidData("X must be finite; fill in what is missing as in training.")
    if low >= -LARGEST and high <= LARGEST:
        return rows
    bounded = np.clip(values, -LARGEST, LARGEST)
    if is_sparse(rows):
        return sparse.csr_array((bounded, rows.indices, rows.indptr), shape=rows.shape)
    return bounded


def is_sparse(rows: Any) -> bool:
    """Whether rows are held by their entries that are not zero."""
    return bool(sparse.issparse(rows))


def _dense(X: Any) -> Floats:
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData("X must be rows of numbers; encode text columns first.") from None


def scores(rows: Any, coef: Floats, intercept: Floats) -> Floats:
    """Return ``intercept_k + sum_j rows[:, j] coef[k, j]``, added in that order, one column each.

    Parameters
    ----------
    rows : array or CSR array of shape (n, d)
        As :func:`readable_rows` returns them, or clipped.
    coef : array of shape (K, d)
        Weights.
    intercept : array of shape (K,)
        Where the sums start; where they end for CSR rows.
    """
    coef, intercept = np.clip(coef, -LARGEST, LARGEST), np.clip(intercept, -LARGEST, LARGEST)
    if is_sparse(rows):
        return np.asarray(rows @ coef.T + intercept)
    found = np.empty((len(rows), len(coef)))
    weights = coef.T[:, :, None]
    for begin in range(0, len(rows), _BLOCK):
        columns = np.ascontiguousarray(rows[begin : begin + _BLOCK].T)
        total = np.repeat(intercept[:, None], columns.shape[1], axis=1)
        for column, weight in zip(columns, weights, strict=True):
            total += weight * column
        found[begin : begin + _BLOCK] = total.T
    return found


def two_probabilities(score: Floats) -> Floats:
    """Return ``(n, 2)``: the logistic function of the score, from both sides."""
    return np.column_stack([special.expit(-score), special.expit(score)])


def softmax(score: Floats) -> Floats:
    """Return ``(n, K)``: one probability per column."""
    weights = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Clip:
    """``u -> u * (radius / max(bound, ||u||))``.

    ``Clip(bound=B)`` brings rows of declared norm ``B`` into the unit ball; ``radius`` is less
    than one where a public constant shares the ball, and ``bound`` where nothing is rescaled.
    """

    bound: float
    radius: float = 1.0
    norm: int = 2

    def __post_init__(self) -> None:
        for name in ("bound", "radius"):
            object.__setattr__(self, name, number(getattr(self, name), f"clip.{name}"))
            if getattr(self, name) < UNIT_ROWS:
                raise wrong(f"clip.{name}", f"must be at least {UNIT_ROWS:g}")
        if self.norm not in (1, 2):
            raise wrong("clip.norm", "must be 1 or 2")

    def __call__(self, U: Any) -> Floats:
        """Return clipped rows."""
        rows = U.toarray() if is_sparse(U) else U
        sizes = rows * rows if self.norm == 2 else np.abs(rows)
        norms = scores(sizes, np.ones((1, rows.shape[1])), np.zeros(1))[:, 0]
        norms = np.sqrt(norms) if self.norm == 2 else norms
        return np.asarray(rows * (self.radius / np.maximum(self.bound, norms))[:, None])
