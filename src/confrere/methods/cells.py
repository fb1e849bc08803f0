"""Cells of public rows, and the model that is made of the shares of classes in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from confrere.arrays import Floats
from confrere.maths.public_cells import RIDGES, Cells, HalfWhite, fit_shares, learn_again

#: There are so many cells times a power of ``epsilon M``: noise and detail balance.
_CELLS, _POWER = 0.4, 0.65

#: Public rows that a cell has at least, on average; and no more cells than this.
_ROWS, _MOST = 8, 1000


def cells_for(epsilon: float, n_parties: int, n_rows: int, n_classes: int) -> int:
    """Return how many cells there are, by public sizes alone.

    Noise on a share is the same whatever its cell's size, so its part in all grows with the number
    of cells; what lies within a cell is not seen, so detail grows with it, too.
    """
    wanted = max(math.ceil(_CELLS * math.pow(epsilon * n_parties, _POWER)), 2 * n_classes)
    return max(1, min(wanted, n_rows // _ROWS, _MOST))


@dataclass(frozen=True, eq=False)
class CellRows:
    """Public rows in a frame's coordinates, of which a last one may be constant."""

    rows: Floats
    constant: float  #: The frame's; 0 if there is none

    @cached_property
    def view(self) -> HalfWhite:
        """The rows without the constant, half-white."""
        rows = self.rows[:, :-1] if self.constant else self.rows
        return HalfWhite(np.ascontiguousarray(rows), centred=self.constant > 0)

    def partition(self, count: int) -> Cells:
        """Return a partition of all rows in the frame's coordinates."""
        cells = self.view.cells(count)
        if not self.constant:
            return cells
        return Cells(np.pad(cells.directions, ((0, 0), (0, 1))), cells.offsets)

    def explained(self, cells: Cells) -> float:
        """Return the share of the rows' spread that lies between cells."""
        return self.view.explained(self._without_constant(cells))

    def model(
        self,
        cells: Cells,
        shares: Floats,  # As released
        *,
        deviation: float,  # Of the noise on one share
        n_parties: int,  # How many parties stand behind them, with a row at least each
        alpha: float | None,  # The ridge; None to let the shares choose
    ) -> tuple[Floats, float]:
        """Return weights in the frame's coordinates, ``(d,)`` or ``(K, d)``, and their ridge."""
        places = cells.of(self.rows)
        n_classes = shares.shape[1]
        sizes = np.bincount(places, minlength=len(cells)) / len(self.rows)
        # A class's part of a cell is uncertain besides: private and public rows are samples.
        even = (1 - 1 / n_classes) / n_classes
        sampled = sizes * even * (1 / n_parties + 1 / len(self.rows))
        seen, intercept = self.view.coordinates(self.view.rows), self.constant > 0
        weights, ridge = fit_shares(
            seen,
            places,
            shares,
            deviation**2 + sampled + 1e-12,
            intercept=intercept,
            ridges=RIDGES if alpha is None else (alpha,),
            stretches=self.view.stretches,
        )
        if n_classes > 2:  # two are ranked by scores, which a sharper border makes coarser
            weights = learn_again(seen, weights, intercept=intercept)
        turned = weights[:, : self.view.turn.shape[1]] @ self.view.turn.T
        if self.constant:
            intercepts = weights[:, -1] - turned @ self.view.mean
            turned = np.hstack([turned, intercepts[:, None] / self.constant])
        return (turned[1] - turned[0] if n_classes == 2 else turned), ridge

    def _without_constant(self, cells: Cells) -> Cells:
        if not self.constant:
            return cells
        return Cells(cells.directions[:, :-1], cells.offsets)
