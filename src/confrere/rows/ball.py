r"""The one map from any row into the declared ball, and what it is certified by.

Proof: docs/proofs/rows.md.

**It is total.** NaN reads as 0, an infinity as the largest double, and every other row is

.. math:: x \mapsto (1 - h) \left( r \, \frac{v}{\max(B, \|v\|)},\; c \right), \qquad v_j = s_j x_j

with public factors :math:`s`, bound :math:`B`, constant :math:`c` and room :math:`r` for the rest
of the row (:math:`\sqrt{1 - c^2}` in L2, :math:`1 - c` in L1). No row raises or warns, and no row's
image depends on another row.

**It ends inside.** The margin :math:`h = 8 (d + 4) 2^{-53}` is more than all rounding, in the map
and in a certificate that measures its images again. It is taken off the whole row, constant
included: for a constant near one the rest of the row is too short to make room for rounding.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.maths.solver.row_blocks import BlockRows

Written: TypeAlias = "NDArray[np.float64] | sparse.csr_array"
Norm = Literal["l1", "l2"]


class MeasuredRows(BlockRows):
    """Rows that are read in blocks, and whose longest one was measured on the way in."""

    norm: Norm
    longest: float

    @abstractmethod
    def __getitem__(self, chosen: NDArray[np.intp]) -> MeasuredRows:
        """Return some of the rows, by their numbers."""


Rows: TypeAlias = "Written | MeasuredRows"

#: Between these, squares of a norm's entries neither overflow nor matter where they underflow.
_SMALL, _LARGE = 1e-100, 1e100

_MAX = float(np.finfo(np.float64).max)


def rounding_margin(width: int) -> float:
    """Return the share that rows of so many numbers stay away from their bound."""
    return 4 * (width + 4) * float(np.finfo(np.float64).eps)


def into_ball(
    X: Written,
    bound: float = 1.0,
    *,
    factors: Floats | None = None,
    constant: float = 0.0,
    columns: int = 1,
    norm: Norm = "l2",
    unit: bool = False,
) -> Written:
    """Return every row's image in the unit ball; see the module for what it is.

    Parameters
    ----------
    X : (n, d) array or CSR
        Any numbers at all. CSR stays CSR.
    bound : float, default=1.0
        Declared bound on a row's norm after the factors; longer rows are clipped to it.
    factors : (d,) array, optional
        Public factors on the columns, at least 0.
    constant : float, default=0.0
        Public constant inside the bound; 0 for none.
    columns : int, default=1
        How many equal columns the constant is spread over, keeping its norm.
    norm : {"l2", "l1"}, default="l2"
        Which ball.
    unit : bool, default=False
        Give every row the length of the bound, short ones too; rows of zeros stay.

    Returns
    -------
    (n, d) or (n, d + columns) array or CSR
    """
    rows: Written
    if isinstance(X, np.ndarray):
        rows = _clip(np.asarray(X, dtype=np.float64), bound, factors, norm, unit)
    else:
        rows = _clip_sparse(_canonical(X), bound, factors, norm, unit)
    width = X.shape[1] + (columns if constant else 0)
    inside = 1 - rounding_margin(width)
    if not constant:
        return _times(rows, inside)
    room = math.sqrt(1 - constant**2) if norm == "l2" else 1 - constant
    each = constant / (math.sqrt(columns) if norm == "l2" else columns)
    rows = _times(rows, inside * room)
    block = np.full((X.shape[0], columns), inside * each)
    if isinstance(rows, np.ndarray):
        return np.hstack([rows, block])
    return sparse.csr_array(sparse.hstack([rows, sparse.csr_array(block)]))


def row_norms(X: Rows, norm: Norm = "l2") -> Floats:
    """Return the norm of every row; infinite or NaN where doubles cannot hold its square."""
    if isinstance(X, sparse.csr_array):
        return _sparse_norms(_canonical(X), norm)
    return _norms(np.asarray(X), norm)


def certify_rows(X: Rows, bound: float = 1.0, norm: Norm = "l2") -> None:
    """Refuse rows outside the ball: the theorem's hypothesis, checked before any draw."""
    longest = 0.0
    if isinstance(X, MeasuredRows):
        # No row is longer in L2 than in L1.
        longest = X.longest if X.norm in (norm, "l1") else math.inf
    elif X.shape[0]:
        longest = float(row_norms(X, norm).max())
    # Written so that NaN is refused: no comparison with it is true.
    if not longest <= bound:
        raise InvalidData("a row is longer than the declared bound; clip the rows first.")


def _norms(X: Floats, norm: Norm) -> Floats:
    with np.errstate(all="ignore"):
        if norm == "l1":
            return np.asarray(np.abs(X).sum(axis=1))
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X)))


def _clip(X: Floats, bound: float, factors: Floats | None, norm: Norm, unit: bool) -> Floats:
    """Return ``v / max(bound, ||v||)``, or ``v / ||v||``."""
    with np.errstate(all="ignore"):
        scaled = X if factors is None else X * factors
        norms = _norms(scaled, norm)
        rows = scaled / (norms if unit else np.maximum(norms, bound))[:, None]
    odd = _odd(norms, bound, unit)
    if odd.any():
        some = X[odd]
        n_rows, width = some.shape
        rows[odd] = _clip_entries(
            some.ravel(),
            np.repeat(np.arange(n_rows), width),
            n_rows,
            bound,
            None if factors is None else np.tile(factors, n_rows),
            norm,
            unit,
        ).reshape(some.shape)
    return np.asarray(rows)


def _odd(norms: Floats, bound: float, unit: bool) -> NDArray[np.bool_]:
    """Return whose norm says too little about its row: overflown, underflown, or NaN."""
    smallest = _SMALL if unit or bound < _SMALL else 0.0
    # Written so that NaN is odd: no comparison with it is true.
    return np.asarray(~((norms >= smallest) & (norms <= _LARGE)))


def _times(rows: Written, factor: float) -> Written:
    """Multiply rows that are ours in place."""
    if isinstance(rows, np.ndarray):
        rows *= factor
    else:
        rows.data *= factor
    return rows


def _reach(sums: Floats, norm: Norm) -> Floats:
    """Return one over the norm, from sums of magnitudes or squares; 1 for a row of zeros."""
    sums = np.where(sums > 0, sums, 1.0)
    return np.asarray(1 / (sums if norm == "l1" else np.sqrt(sums)))


def _canonical(X: sparse.csr_array) -> sparse.csr_array:
    """Return CSR in doubles that holds every entry once: two entries of one place add up."""
    rows: sparse.csr_array = sparse.csr_array(X).astype(np.float64, copy=False)
    if not rows.has_canonical_format:
        rows = rows.copy()
        with np.errstate(all="ignore"):
            rows.sum_duplicates()
    return rows


def _sparse_norms(X: sparse.csr_array, norm: Norm) -> Floats:
    with np.errstate(all="ignore"):
        if norm == "l1":
            return _row_sums(X, np.abs(X.data))
        return np.asarray(np.sqrt(_row_sums(X, X.data * X.data)))


def _row_sums(X: sparse.csr_array, data: Floats) -> Floats:
    ones = np.ones(X.shape[1])
    return np.asarray(sparse.csr_array((data, X.indices, X.indptr), shape=X.shape) @ ones)


def _clip_sparse(
    X: sparse.csr_array, bound: float, factors: Floats | None, norm: Norm, unit: bool
) -> sparse.csr_array:
    owners = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    with np.errstate(all="ignore"):
        data = X.data if factors is None else X.data * factors[X.indices]
        scaled = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
        norms = _sparse_norms(scaled, norm)
        data = data / (norms if unit else np.maximum(norms, bound))[owners]
    odd = _odd(norms, bound, unit)[owners]
    if odd.any():
        data[odd] = _clip_entries(
            X.data[odd],
            owners[odd],
            X.shape[0],
            bound,
            None if factors is None else factors[X.indices[odd]],
            norm,
            unit,
        )
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _clip_entries(
    data: Floats,
    owners: NDArray[np.intp],
    n_rows: int,
    bound: float,
    factors: Floats | None,
    norm: Norm,
    unit: bool,
) -> Floats:
    """Clip rows of any size, largest entry first, given entry by entry with the rows' numbers.

    Every sum is taken in the order of the entries: a row's image does not depend on the others.
    """

    def largest(entries: Floats) -> Floats:
        found = np.zeros(n_rows)
        np.maximum.at(found, owners, np.abs(entries))
        return np.where(found > 0, found, 1.0)

    with np.errstate(all="ignore"):
        finite = np.nan_to_num(data, nan=0.0, posinf=_MAX, neginf=-_MAX)
        first = largest(finite)
        entries = finite / first[owners]
        second = np.ones(n_rows)
        if factors is not None:
            entries *= factors
            second = largest(entries)
            entries /= second[owners]
        sizes = np.abs(entries) if norm == "l1" else entries * entries
        lengths = _reach(np.bincount(owners, sizes, minlength=n_rows).astype(np.float64), norm)
        if not unit:
            lengths = np.minimum(lengths, first * (second / bound))
        return np.asarray(entries * lengths[owners])
