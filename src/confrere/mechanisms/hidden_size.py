"""Under add-remove neighbours nobody may know how many rows there are, mechanisms included.

Proof: docs/proofs/add_remove.md.

A certificate needs a bound on the number of rows, and a bound must hold for every data set. So the
owner declares about how many rows there are, and at most :attr:`HiddenSize.most` are ever used:
every row draws one of that many cells, and is used if it is alone in its cell. A record that comes
or goes then adds one row or takes one away, never both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Neighbours
from confrere.kernel.streams import RandomSource

#: Cells per declared row: of as many rows as were declared one in a hundred shares its cell.
CELLS = 100


@dataclass(frozen=True, slots=True)
class HiddenSize:
    """A number of rows that is not public, and what stands for it."""

    declared: int  #: About how many rows there are, from public knowledge or a noised count

    def __post_init__(self) -> None:
        if isinstance(self.declared, bool) or int(self.declared) < 1:
            raise InvalidParameter("declared_samples must be a whole number of at least 1.")

    @property
    def most(self) -> int:
        """The most rows that are used, and the number of cells."""
        return CELLS * int(self.declared)

    def used(
        self, n_rows: int, source: RandomSource, count: int = 1, groups: NDArray[np.int64] | int = 0
    ) -> NDArray[np.bool_]:
        """Return which rows are alone in the cells they draw, ``(count, n_rows)``.

        ``groups`` keeps the rows of several owners apart.
        """
        cells = np.floor(source.uniforms(count, n_rows) * self.most).astype(np.int64)
        cells += self.most * np.asarray(groups)
        alone = np.empty(cells.shape, dtype=np.bool_)
        for row, drawn in zip(alone, cells, strict=True):
            _, which, many = np.unique(drawn, return_inverse=True, return_counts=True)
            row[:] = many[which] == 1
        return alone


#: How many rows there are, or what stands for that number where it is not public.
RowCount = int | HiddenSize


def largest_count(n_samples: RowCount) -> int:
    """Return the most rows that are used."""
    return n_samples.most if isinstance(n_samples, HiddenSize) else n_samples


def declared_count(n_samples: RowCount) -> int:
    """Return the number of rows as far as it is public."""
    return n_samples.declared if isinstance(n_samples, HiddenSize) else n_samples


def row_patterns(
    n_samples: RowCount, n_rows: int, source: RandomSource, count: int
) -> list[tuple[NDArray[np.intp] | slice, NDArray[np.bool_] | slice]]:
    """Return which rows are used in which of ``count`` releases: all in all if that is public."""
    if not isinstance(n_samples, HiddenSize):
        return [(slice(None), slice(None))]
    patterns, which = np.unique(n_samples.used(n_rows, source, count), axis=0, return_inverse=True)
    return [(np.flatnonzero(rows), which.ravel() == k) for k, rows in enumerate(patterns)]


def check_row_count(n_samples: object, neighbours: Neighbours) -> None:
    """Refuse a number of rows where it is not public, and a stand-in where it is."""
    hidden = neighbours is Neighbours.ADD_REMOVE
    if hidden != isinstance(n_samples, HiddenSize):
        raise InvalidParameter(
            "n_samples must be a HiddenSize under add-remove neighbours, where the number of rows "
            "is not public, and that number itself under others."
        )
