"""Noise on the shares of public cells and classes, each party's rows weighing one in all.

Proof: docs/proofs/cells.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.norms import L1, Pure
from confrere.kernel.streams import RandomSource
from confrere.mechanisms.counts import PrivateCounts
from confrere.mechanisms.party_total import PartyTotal
from confrere.mechanisms.secure_sum import SharedNoise
from confrere.mechanisms.terms import NoisedPoint

Integers = NDArray[np.int64]

#: What a party has to give away among cells and classes, in whole numbers: then sums are exact.
WHOLE = 2**16

#: Why there is no delta: docs/proofs/cells.md.
NO_DELTA = (
    "delta must be 0 for method='cells': Gaussian noise on shares would be more than their Laplace "
    "noise, whatever delta below .004 epsilon is given."
)

#: More than what probabilities of the integer noise can be off by, in floats.
_ROUNDING = 1 + 1e-5


@dataclass(frozen=True, kw_only=True)
class PartyCells(PartyTotal):
    """Add up how every party's rows are shared over cells and classes, then add integer noise.

    Parameters
    ----------
    epsilon, n_parties, n_classes, colluding, fewest, releases
        As for :class:`PartyTotal`; a party that is left out counts as zero.
    n_cells : int
        Number of cells.
    """

    theorem = "docs/proofs/cells.md"

    n_cells: int

    def __post_init__(self) -> None:
        if self.delta:
            raise InvalidParameter(NO_DELTA)
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
    def noise(self) -> PrivateCounts | SharedNoise:
        """The noise on the sum."""
        if not self.colluding:
            return PrivateCounts(epsilon=self.epsilon / _ROUNDING, sensitivity=self.sensitivity)
        return self.shared_noise(self.n_cells * self.n_classes, float(WHOLE), "integer")

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one share."""
        return self.noise.deviation / (WHOLE * self.n_parties)

    def clipped(self, uploads: NDArray[np.number]) -> Integers:
        """Return what parties sent as it is added up; what nobody can have, counts as nothing."""
        if uploads.shape[1:] != self.shape or not np.issubdtype(uploads.dtype, np.integer):
            raise InvalidData("an upload must hold one whole number per cell and class.")
        # In floats, a sum of huge numbers is not a small one again.
        fits = (uploads >= 0).all(axis=(1, 2)) & (
            uploads.sum(axis=(1, 2), dtype=np.float64) <= WHOLE
        )
        return np.where(fits[:, None, None], uploads, 0).astype(np.int64)

    def run(self, total: NDArray[np.number], *, source: RandomSource) -> Floats:
        """Return the noised shares, from the sum of the uploads."""
        return np.asarray(self.sample(total, source=source, count=1)[0])

    def sample(self, total: NDArray[np.number], *, source: RandomSource, count: int = 1) -> Floats:
        """Return ``count`` independent releases; more than one needs a seeded source."""
        noise, point = self.noise, self._point(total)
        source = source.book(self.guarantee(), count)
        if isinstance(noise, SharedNoise):
            released = noise.release_many(point.astype(np.float64), source, count)
        else:
            released = noise.noised(point, source, count).astype(np.float64)
        return np.stack([self.of_parts(each) for each in released])

    def terms(self, total: NDArray[np.number]) -> list[NoisedPoint]:
        """Return what is noised, for an exact audit."""
        noise = self.noise
        point = self._point(total).astype(np.float64)
        if isinstance(noise, SharedNoise):
            return [NoisedPoint(point, noise.law)]
        return [NoisedPoint(point, Pure(L1(point.size), 1 / noise.scale))]

    def part(self, upload: Integers) -> Floats:
        """Return what one party adds to the sum."""
        return np.asarray(self.clipped(upload[None])[0].ravel().astype(np.float64))

    def of_parts(self, released: Floats) -> Floats:
        """Return the shares of all rows from the noised sum; who is not there counts as zero."""
        return np.asarray(released.reshape(self.shape) / (WHOLE * self.n_parties))

    def _point(self, total: NDArray[np.number]) -> Integers:
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
