"""Rows into the unit ball, by a declared bound and never by the data's own largest norm."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from confrere.errors import InvalidData

Rows: TypeAlias = "NDArray[np.float64] | sparse.csr_array"


def row_norms(X: Rows) -> NDArray[np.float64]:
    """Return the Euclidean norm of every row."""
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    else:
        squares = np.einsum("ij,ij->i", X, X)
    return np.asarray(np.sqrt(squares))


def scale_columns(X: Rows, factors: NDArray[np.float64]) -> Rows:
    """Return ``X`` with every column multiplied by its public factor."""
    if sparse.issparse(X):
        return sparse.csr_array(X.multiply(factors[None, :]))
    return np.asarray(X * factors)


def clip_rows(X: Rows, bound: float) -> Rows:
    """Return ``x min(1, bound/||x||) / bound`` for every row, so that no norm exceeds one.

    A hair is taken off, so that rounding in the norm itself cannot leave a row outside.
    """
    hair = 1 - 4 * (X.shape[1] + 4) * np.finfo(np.float64).eps
    norms = row_norms(X)
    if not np.all(np.isfinite(norms)):
        raise InvalidData("X has rows whose norm overflows; declare a schema with finite bounds.")
    factors = hair / np.maximum(norms, bound)
    if sparse.issparse(X):
        return sparse.csr_array(X.multiply(factors[:, None]))
    return np.asarray(X * factors[:, None])


def with_constant(X: Rows, constant: float) -> Rows:
    """Return rows of the unit ball with a public constant inside the bound.

    ``x -> (sqrt(1 - c^2) x, c)``: the norm stays at most one, and the intercept is clipped,
    regularised and noised like every other weight.
    """
    shrink = np.sqrt(1 - constant**2)
    column = np.full((X.shape[0], 1), constant)
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X * shrink, sparse.csr_array(column)]))
    return np.hstack([X * shrink, column])


def certify_rows(X: Rows, bound: float = 1.0) -> None:
    """Refuse rows outside the ball: the theorem's hypothesis, checked before any draw."""
    # Written so that NaN is refused: no comparison with it is true.
    if X.shape[0] and not float(row_norms(X).max()) <= bound:
        raise InvalidData("a row is longer than the declared bound; clip the rows first.")
