"""Approximate inverses of a Hessian, from weighted Gram matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtri

from confrere.maths.solver.row_blocks import Block, Floats, SolverRows

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


class Scalar(Preconditioner):
    """One number, where the ridge is nearly all there is: no row has to be read for it."""

    def __init__(self, curvature: float) -> None:
        self._inverse = 1.0 / curvature

    def __call__(self, G: Floats) -> Floats:
        """Divide by the curvature."""
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
    rows: SolverRows,
    labels: Any,
    weigh: Callable[[Block, Any], Floats],
    n_classes: int,
    ridge: float,
) -> Preconditioner:
    """Build the inverse of ``X' diag(c_k) X + L I`` for every class ``k``.

    Parameters
    ----------
    rows : SolverRows
        The data.
    labels : (n,) array
        Handed to ``weigh``.
    weigh : callable
        From a block and its labels to the curvatures ``c``, ``(n_classes, rows)``.
    n_classes : int
        How many blocks: 1 for a binary loss.
    ridge : float
        ``L``.
    """
    if n_classes * rows.d**2 > _GRAM_ENTRIES:
        (squares,) = rows.sum(labels, lambda block, y: (block.squares(weigh(block, y)),))
        return Diagonal(squares + ridge)
    (grams,) = rows.sum(labels, lambda block, y: (block.gram(weigh(block, y)),))
    diagonals = np.einsum("kii->ki", grams)  # a view
    diagonals += ridge
    try:
        return BlockPreconditioner(grams)
    except np.linalg.LinAlgError:  # the ridge drowns in the rounding of the sums
        return Diagonal(diagonals)
