"""Local classifiers of many parties with a few rows each, solved together.

Party i holds rows ``offsets[i]`` to ``offsets[i+1]`` of one stacked array and minimises, on its
rows alone, the mean logistic loss plus ``(alpha/2) ||w||^2``. Every solution is certified: the
norm of the gradient at the returned weights is measured afterwards, in weight space, and is below
the tolerance. Since the objective is ``alpha``-strongly convex, ``||w - w*|| <= gradient norm /
alpha``. A party whose problem cannot be solved that well gets weights of zero, and a mark: its data
never decide what happens to the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.guarantee import check_positive
from confrere.maths.party_newton import solve_each


@dataclass(frozen=True, slots=True)
class PartySolutions:
    """Every party's minimiser and its certificate.

    Parameters
    ----------
    W : ndarray of shape (n_parties, n_features) or (n_parties, n_classes, n_features)
        The minimisers, each within its gradient norm over ``alpha`` of the exact one; zero for a
        party that is not solved.
    gradient_norms : ndarray of shape (n_parties,)
        Euclidean norm of each party's gradient at the point that was reached, at most the tolerance
        asked for if it is solved.
    solved : bool ndarray of shape (n_parties,)
        Whose problem is solved.
    """

    W: NDArray[np.float64]
    gradient_norms: NDArray[np.float64]
    solved: NDArray[np.bool_]


def solve_parties(
    X: ArrayLike,
    y: ArrayLike,
    offsets: ArrayLike,
    *,
    alpha: float,
    tolerance: float = 1e-8,
    block: int = 2048,
) -> PartySolutions:
    """Minimise ``(1/n_i) sum log(1 + exp(-y w.x)) + (alpha/2) ||w||^2`` for every party.

    Parties with one class or one row have a minimiser too, and get it.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        The parties' rows, one party after the other.
    y : array-like of shape (n_rows,)
        Labels, -1 or +1.
    offsets : array-like of shape (n_parties + 1,)
        Where each party's rows begin; the last number is ``n_rows``.
    alpha : float
        Strength of the regulariser, on the mean loss.
    tolerance : float, default=1e-8
        Largest gradient norm that counts as solved.
    block : int, default=2048
        Parties per call, which is what the copy in float64 of other number types is bounded by. It
        does not change the result.
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or not np.all(np.abs(labels) == 1):
        raise InvalidData("y must be one-dimensional, of labels -1 and +1 only.")
    solutions = _solve(X, labels > 0, offsets, 1, alpha, tolerance, block)
    return PartySolutions(solutions.W[:, 0], solutions.gradient_norms, solutions.solved)


def solve_parties_softmax(
    X: ArrayLike,
    codes: ArrayLike,
    offsets: ArrayLike,
    n_classes: int,
    *,
    alpha: float,
    tolerance: float = 1e-8,
    block: int = 2048,
) -> PartySolutions:
    """Minimise ``(1/n_i) sum (logsumexp(W x) - w_c.x) + (alpha/2) ||W||_F^2`` for every party.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        The parties' rows, one party after the other.
    codes : array-like of shape (n_rows,)
        Classes, numbered from 0 to ``n_classes - 1``. A party need not have seen all.
    offsets : array-like of shape (n_parties + 1,)
        Where each party's rows begin; the last number is ``n_rows``.
    n_classes : int
        Number of classes, at least 2.
    alpha, tolerance, block
        As for :func:`solve_parties`.
    """
    if n_classes < 2:
        raise InvalidParameter("n_classes must be at least 2.")
    labels = np.asarray(codes)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InvalidData("codes must be a one-dimensional array of whole numbers.")
    if labels.size and (labels.min() < 0 or labels.max() >= n_classes):
        raise InvalidData("codes must lie between 0 and n_classes - 1.")
    return _solve(X, labels, offsets, n_classes, alpha, tolerance, block)


def _solve(
    X: ArrayLike,
    codes: NDArray[np.generic],
    offsets: ArrayLike,
    n_outputs: int,
    alpha: float,
    tolerance: float,
    block: int,
) -> PartySolutions:
    check_positive(alpha, "alpha")
    check_positive(tolerance, "tolerance")
    if block < 1:
        raise InvalidParameter("block must be at least 1.")
    rows = np.asarray(X)
    starts = np.asarray(offsets)
    _check_shapes(rows, codes, starts)
    n_parties = starts.size - 1
    W = np.zeros((n_parties, n_outputs, rows.shape[1]))
    norms = np.empty(n_parties)
    for first in range(0, n_parties, block):
        last = min(first + block, n_parties)
        begin, end = int(starts[first]), int(starts[last])
        norms[first:last] = solve_each(
            np.ascontiguousarray(rows[begin:end], dtype=np.float64),
            np.zeros((end - begin, n_outputs)),
            codes[begin:end].astype(np.int64),
            (starts[first : last + 1] - begin).astype(np.int64),
            np.full(last - first, float(alpha)),
            1.0,
            np.full(last - first, float(tolerance)),
            W[first:last],
        )
    # Written so that NaN is not solved: no comparison with it is true.
    solved = norms <= tolerance
    W[~solved] = 0.0
    return PartySolutions(W, norms, solved)


def _check_shapes(
    rows: NDArray[np.generic], codes: NDArray[np.generic], starts: NDArray[np.generic]
) -> None:
    if rows.ndim != 2 or rows.shape[1] == 0 or not np.isrealobj(rows):
        raise InvalidData("X must be a two-dimensional array of real numbers.")
    if codes.size != rows.shape[0]:
        raise InvalidData("X and the labels must have the same number of rows.")
    if (
        starts.ndim != 1
        or starts.size < 2
        or not np.issubdtype(starts.dtype, np.integer)
        or starts[0] != 0
        or starts[-1] != rows.shape[0]
        or np.any(np.diff(starts) < 1)
    ):
        raise InvalidData(
            "offsets must be whole numbers that rise from 0 to the number of rows, with at least "
            "one row for every party."
        )
