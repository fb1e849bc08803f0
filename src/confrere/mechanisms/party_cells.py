"""Noise on the shares of public cells and classes, each party's rows weighing one in all.

Proof: docs/proofs/cells.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData
from confrere.kernel.accountants import theorem_of_point
from confrere.mechanisms.measurements import Point
from confrere.mechanisms.noised import PartyTotal
from confrere.mechanisms.secure_sum import SharedNoise

Integers = NDArray[np.int64]

#: What a party has to give away among cells and classes, in whole numbers: then sums are exact.
WHOLE = 2**16


@dataclass(frozen=True, kw_only=True)
class PartyCells(PartyTotal):
    """Add up how every party's rows are shared over cells and classes, then add integer noise.

    A party that is left out counts as zero.
    """

    theorem = "docs/proofs/cells.md"

    n_cells: int  #: Number of cells

    def __post_init__(self) -> None:
        theorem_of_point("L1", "Gaussian" if self.delta else "pure")
        super().__post_init__()
        if self.n_parties < 1 or self.n_cells < 1 or self.n_classes < 2:
            raise InvalidData("cells need at least one party, one cell and two classes.")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of what a party sends."""
        return (self.n_cells, self.n_classes)

    @property
    def sensitivity(self) -> int:
        """Largest sum of absolute changes when one party is replaced: all it has, twice."""
        return 2 * WHOLE

    @property
    @override
    def noise(self) -> Point | SharedNoise:
        return self.noise_on(self.n_cells * self.n_classes, math.inf, float(WHOLE), "integer")

    @property
    @override
    def deviation(self) -> float:
        return super().deviation / (WHOLE * self.n_parties)  # on one share

    def clipped(self, uploads: NDArray[np.number]) -> Integers:
        """Return what parties sent as it is added up; what nobody can have, counts as nothing."""
        if uploads.shape[1:] != self.shape or not np.issubdtype(uploads.dtype, np.integer):
            raise InvalidData("an upload must hold one whole number per cell and class.")
        # In floats, a sum of huge numbers is not a small one again.
        fits = (uploads >= 0).all(axis=(1, 2)) & (
            uploads.sum(axis=(1, 2), dtype=np.float64) <= WHOLE
        )
        return np.where(fits[:, None, None], uploads, 0).astype(np.int64)

    @override
    def turned(self, released: Floats) -> Floats:
        return np.stack([self.of_parts(each) for each in released])

    def part(self, upload: Integers) -> Floats:
        """Return what one party adds to the sum."""
        return np.asarray(self.clipped(upload[None])[0].ravel().astype(np.float64))

    def of_parts(self, released: Floats) -> Floats:
        """Return the shares of all rows from the noised sum; who is not there counts as zero."""
        return np.asarray(released.reshape(self.shape) / (WHOLE * self.n_parties))

    @override
    def value(self, total: NDArray[np.number]) -> Integers:
        """Return the sum of the uploads."""
        if total.shape != self.shape:
            raise InvalidData("the sum of the uploads does not have the shape of one.")
        if np.any(total < 0) or not total.sum() <= WHOLE * self.n_parties:
            raise InvalidData("the uploads were not checked before they were added up.")
        return np.asarray(total, dtype=np.int64).ravel()


def shares_of_parties(
    cells: NDArray[np.intp],
    codes: NDArray[np.intp],
    offsets: NDArray[np.int64],
    shape: tuple[int, int],
) -> Integers:
    """Return every party's rows shared over cells and classes, ``(m, k, K)``.

    A party's numbers add up to :data:`WHOLE`: they are differences of whole parts of running
    counts, exactly.

    Parameters
    ----------
    cells, codes : (n,) arrays
        Cell and class of every row, party by party.
    offsets : (m + 1,) array
        Where each party's rows begin; no party is empty.
    shape : tuple of int
        Numbers of cells and classes.
    """
    sizes = np.diff(offsets)
    entries = shape[0] * shape[1]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    places = (owner * shape[0] + cells) * shape[1] + codes
    counts = np.bincount(places, minlength=len(sizes) * entries).reshape(len(sizes), entries)
    running = np.cumsum(counts, axis=1) * WHOLE // sizes[:, None]
    return np.diff(running, axis=1, prepend=0).reshape(len(sizes), *shape)
