"""Where rows come from: anything that has a shape and gives some of its rows.

A source is read again at every pass over the data, block by block, so nothing here is copied whole.
Sources that cannot be read again and again (files of text, databases) are decoded once, into a file
that can: see :mod:`confrere.rows.spill`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from confrere.errors import InvalidData
from confrere.maths.solver.row_blocks import canonical, sparse_block

#: Types whose values a double holds, and that are read as they are.
_AS_THEY_ARE = (np.float64, np.float32)


class RowSource(ABC):
    """Rows that can be read again.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    sparse : bool
        Whether :meth:`read` returns CSR.
    width : int
        Stored numbers per row.
    """

    shape: tuple[int, int]
    sparse: bool = False
    width: int

    @abstractmethod
    def read(self, part: slice) -> Any:
        """Return consecutive rows, an array or CSR, in the numbers that they are stored in."""

    @abstractmethod
    def take(self, chosen: NDArray[np.intp]) -> Any:
        """Return rows by their numbers, which grow."""

    def check_unchanged(self) -> None:  # noqa: B027
        """Refuse rows that are read from a file which was written to since the first reading."""

    def __len__(self) -> int:
        return self.shape[0]


class ArraySource(RowSource):
    """An array or a memory map, in any memory order, of single or double precision."""

    def __init__(self, X: NDArray[Any]) -> None:
        # Without the class, slices of a memory map are slow to make.
        self.X = np.asarray(X) if X.dtype in _AS_THEY_ARE else np.asarray(X, dtype=np.float64)
        self.shape = self.X.shape
        self.width = self.shape[1]

    def read(self, part: slice) -> NDArray[Any]:
        """Return consecutive rows: a view."""
        return self.X[part]

    def take(self, chosen: NDArray[np.intp]) -> NDArray[Any]:
        """Return rows by their numbers."""
        return self.X.take(chosen, axis=0)


class SparseSource(RowSource):
    """CSR."""

    sparse = True

    def __init__(self, X: Any) -> None:
        self.X = canonical(X)
        self.shape = self.X.shape
        self.width = max(1, self.X.nnz // max(1, self.shape[0]))

    def read(self, part: slice) -> Any:
        """Return consecutive rows: views of their entries."""
        return sparse_block(self.X, part)

    def take(self, chosen: NDArray[np.intp]) -> Any:
        """Return rows by their numbers."""
        return self.X[chosen]


class ChosenSource(RowSource):
    """Some rows of another source, by their numbers, which grow."""

    def __init__(self, source: RowSource, chosen: NDArray[np.intp]) -> None:
        self.source, self.chosen = source, chosen
        self.shape = (len(chosen), source.shape[1])
        self.sparse, self.width = source.sparse, source.width

    def read(self, part: slice) -> Any:
        """Return consecutive ones of the chosen rows."""
        return self.source.take(self.chosen[part])

    def take(self, chosen: NDArray[np.intp]) -> Any:
        """Return some of the chosen rows."""
        return self.source.take(self.chosen[chosen])

    def check_unchanged(self) -> None:
        """Refuse what the other source refuses."""
        self.source.check_unchanged()


def as_source(X: Any) -> RowSource:
    """Return rows as a source: an array, CSR, or what is one already."""
    if isinstance(X, RowSource):
        return X
    if sparse.issparse(X):
        return SparseSource(X)
    X = X if isinstance(X, np.ndarray) else np.asarray(X)
    if X.ndim != 2:
        raise InvalidData("X must be a matrix: one row per record.")
    return ArraySource(X)
