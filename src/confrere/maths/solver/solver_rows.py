"""A data matrix read in blocks of rows, dense or sparse, without ever copying it whole.

And what descents make of it: approximate inverses of a Hessian, from weighted Gram matrices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.lapack import dtrtri

from confrere.errors import InvalidData
from confrere.maths.solver.certificate import block_rows

Floats: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = "NDArray[np.float64] | NDArray[np.float32] | sparse.csr_array"

#: Largest number of entries of a subsample: 32 MB.
_SUBSAMPLE_ENTRIES = 2**22

_GOLDEN = 0.6180339887498949


class SolverRows:
    """The rows of ``X``, in the blocks that :func:`rounding_bound` speaks of.

    Iterating yields ``(slice, block)`` where ``block`` is float64, dense or CSR: both know
    ``W @ block.T`` and ``R @ block``. The first pass also checks what the bound needs of the rows:
    that the root mean square of their norms is at most ``row_norm``.

    Parameters
    ----------
    X : (n, d) ndarray or CSR
        Any memory order; single precision is widened block by block.
    row_norm : float
        Declared bound on the norm of a row.
    """

    def __init__(self, X: Matrix, row_norm: float) -> None:
        if sparse.issparse(X):
            X = sparse.csr_array(X)
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
        else:
            X = cast(Matrix, np.asarray(X))
        if X.ndim != 2:
            raise InvalidData("X must be a matrix: one row per record.")
        if min(X.shape) < 1:
            raise InvalidData("X needs at least one row and one column.")
        self.X: Matrix = X
        self.n, self.d = X.shape
        self.row_norm = row_norm
        self._checked = False

    def __iter__(self) -> Iterator[tuple[slice, Floats]]:
        step = block_rows(self.d)
        squares = 0.0
        for start in range(0, self.n, step):
            part = slice(start, min(start + step, self.n))
            block = self._block(part)
            if not self._checked:
                squares += _square_norm(block)
            yield part, block
        # Clipping leaves rows within a few roundings of the bound; not a number fails too.
        if not squares <= self.n * self.row_norm**2 * (1 + 1e-9):
            raise InvalidData(
                "X has rows that are longer than row_norm, or not finite; clip them to a public "
                "bound first."
            )
        self._checked = True

    def _block(self, part: slice) -> Floats:
        if isinstance(self.X, np.ndarray):
            return np.asarray(self.X[part], dtype=np.float64)
        first, last = self.X.indptr[part.start], self.X.indptr[part.stop]
        block = sparse.csr_array(
            (
                np.asarray(self.X.data[first:last], dtype=np.float64),
                self.X.indices[first:last],
                self.X.indptr[part.start : part.stop + 1] - first,
            ),
            shape=(part.stop - part.start, self.d),
        )
        return cast(Floats, block)

    def subsample(self) -> NDArray[np.intp] | None:
        """Return a twelfth of the row numbers, spread evenly; None if that is too few.

        The choice is a fixed function of the shape. It decides how fast a solver is, never where
        it stops.
        """
        width = self.d if isinstance(self.X, np.ndarray) else max(1, self.X.nnz // self.n)
        count = min(max(self.n // 12, 20 * self.d, 2000), _SUBSAMPLE_ENTRIES // width)
        if not self.d <= count <= self.n // 4:
            return None
        steps = np.arange(count)
        jitter = (steps * _GOLDEN) % 1
        chosen: NDArray[np.intp] = ((steps + jitter) * (self.n / count)).astype(np.intp)
        return chosen

    def take(self, chosen: NDArray[np.intp]) -> SolverRows:
        """Return some of the rows.

        Their root mean square norm may be larger than that of all, by no more than the square
        root of how few they are.
        """
        X = self.X
        some = X.take(chosen, axis=0) if isinstance(X, np.ndarray) else X[chosen]
        return SolverRows(some, self.row_norm * math.sqrt(self.n / len(chosen)))


def dense(block: Any) -> Floats:
    """Return a block as an array."""
    return block.toarray() if isinstance(block, sparse.csr_array) else block


def _square_norm(block: Any) -> float:
    entries = block.data if isinstance(block, sparse.csr_array) else block
    return float(np.vdot(entries, entries))


#: Entries of all Gram matrices together beyond which only their diagonals are kept: 16 MB.
_GRAM_ENTRIES = 2**21


class Preconditioner(ABC):
    """A symmetric positive definite map that stands for the inverse of a Hessian."""

    @abstractmethod
    def __call__(self, G: Floats) -> Floats:
        """Apply it to every row of ``G``: ``(m, size)`` to ``(m, size)``."""


class BlockPreconditioner(Preconditioner):
    """One dense block of the Hessian per class, ``(K, d, d)``, factored."""

    def __init__(self, hessians: Floats) -> None:
        factors = np.linalg.cholesky(hessians)
        self._roots = np.stack([dtrtri(factor, lower=1)[0] for factor in factors])

    def __call__(self, G: Floats) -> Floats:
        """Solve with every class's block."""
        K, d, _ = self._roots.shape
        parts = G.reshape(-1, K, d).swapaxes(0, 1)
        solved: Floats = parts @ self._roots.mT @ self._roots
        return solved.swapaxes(0, 1).reshape(G.shape)


class Diagonal(Preconditioner):
    """The diagonal of the Hessian, where there are too many columns for more."""

    def __init__(self, diagonal: Floats) -> None:
        self._inverse = 1.0 / diagonal.ravel()

    def __call__(self, G: Floats) -> Floats:
        """Divide by the diagonal."""
        return G * self._inverse


class SumZero(Preconditioner):
    """Another preconditioner on weights that sum to zero over the classes, ``1/L`` off them.

    The softmax does not see what is added to all classes alike: there the Hessian is ``L``.
    """

    def __init__(self, within: Preconditioner, n_classes: int, ridge: float) -> None:
        self._within = within
        self._n_classes = n_classes
        self._ridge = ridge

    def __call__(self, G: Floats) -> Floats:
        """Treat what all classes share, and how they differ, apart."""
        common = self._common(G)
        within = self._within(G - common)
        return within - self._common(within) + common / self._ridge

    def _common(self, G: Floats) -> Floats:
        mean = G.reshape(len(G), self._n_classes, -1).mean(axis=1)
        return np.tile(mean, self._n_classes)


def precondition(
    rows: SolverRows, weigh: Callable[[slice, Floats], Floats], n_classes: int, ridge: float
) -> Preconditioner:
    """Build the inverse of ``X' diag(c_k) X + L I`` for every class ``k``.

    Parameters
    ----------
    rows : SolverRows
        The data.
    weigh : callable
        From a block's position and rows to the curvatures ``c``, ``(n_blocks, rows)``.
    n_classes : int
        How many blocks: 1 for a binary loss.
    ridge : float
        ``L``.
    """
    if n_classes * rows.d**2 > _GRAM_ENTRIES:
        squares = np.zeros((n_classes, rows.d))
        for part, block in rows:
            squares += weigh(part, block) @ block**2
        return Diagonal(squares + ridge)
    grams = np.zeros((n_classes, rows.d, rows.d))
    buffer = np.empty((min(rows.n, block_rows(rows.d)), rows.d))
    for part, block in rows:
        roots = np.sqrt(weigh(part, block))
        entries = dense(block)
        for gram, root in zip(grams, roots, strict=True):
            scaled = np.multiply(entries, root[:, None], out=buffer[: len(entries)])
            gram += scaled.T @ scaled
    diagonals = np.einsum("kii->ki", grams)  # a view
    diagonals += ridge
    try:
        return BlockPreconditioner(grams)
    except np.linalg.LinAlgError:  # the ridge drowns in the rounding of the sums
        return Diagonal(diagonals)
