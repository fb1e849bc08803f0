"""Noise on the mean of labels times features, which is all that a logistic risk knows of labels.

Proof: docs/proofs/moments.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.mechanisms.party_average import Floats, PartyMean


@dataclass(frozen=True, kw_only=True)
class PartyMoments(PartyMean):
    """Average every party's mean of ``(y - 1/2) x``, for K classes of ``e_y x'``.

    Of K > 2 classes every class has noise of its own, and what all of them share is taken off
    afterwards; with a delta it is taken off before.

    Parameters
    ----------
    epsilon, n_parties, n_features, n_classes
        As for :class:`PartyMean`.
    """

    theorem = "docs/proofs/moments.md"

    @property
    def norm(self) -> float:
        """The norm that no party's moment exceeds, its rows being in the unit ball."""
        if self.n_classes == 2:
            return 0.5
        return math.sqrt(1 - 1 / self.n_classes) if self.delta else 1.0

    @property
    def blocks(self) -> int:
        """A class is a block, of more than two and without a delta."""
        return self.n_classes if self.n_classes > 2 and not self.delta else 1

    @property
    def longest_upload(self) -> float:
        """Rows in the unit ball have a mean of at most one, of several classes in all."""
        return self.norm if self.n_classes == 2 else 1.0

    def length(self, upload: Floats) -> float:
        """Return the norm; of more than two classes the sum of theirs."""
        return float(np.linalg.norm(np.atleast_2d(upload), axis=1).sum())

    @property
    def sensitivity(self) -> float:
        """Largest move of the computed mean between neighbours, in the noise's norm."""
        # In the sum of the classes' norms an error is up to sqrt(K) times as long.
        return 2 * self.norm / self.n_parties + math.sqrt(self.blocks) * self._rounding

    def clipped(self, uploads: Floats, *, directions: bool = False) -> Floats:
        """Return moments as they are added up; of K > 2 classes their norms sum to one at most."""
        if self.n_classes == 2:
            return super().clipped(uploads, directions=directions)
        if uploads.shape[1:] != self.shape or not np.all(np.isfinite(uploads)):
            raise InvalidData("an upload must be finite, with one number per weight.")
        largest = np.maximum(np.abs(uploads).max(axis=(1, 2)), 1.0)
        safe = uploads / largest[:, None, None]
        lengths = np.linalg.norm(safe, axis=2).sum(axis=1)
        # A hair below one, so that what is computed is not longer either.
        with np.errstate(divide="ignore"):
            factors = np.minimum(largest, (1 - 1e-12) / lengths)
        return np.asarray(safe * factors[:, None, None])

    def sampling_variances(self, second_moments: Floats, n_auxiliary: int) -> Floats:
        """Return a public estimate of the statistic's sampling variance along directions.

        In a direction where the rows' mean square is ``m``, one row's ``(y - 1/2) x`` has a mean
        square of ``m/4``, and ``(e_y - 1/K) x'`` one of ``m/K`` in each of its K - 1 dimensions.
        Rows are at least as many as parties, and the risk's other half is a mean over the
        auxiliary rows.
        """
        spread = 1 / 4 if self.n_classes == 2 else 1 / self.n_classes
        return np.asarray(spread * second_moments * (1 / self.n_parties + 1 / n_auxiliary))


def moments_of_parties(
    rows: Floats, codes: NDArray[np.intp], offsets: NDArray[np.int64], n_classes: int
) -> Floats:
    """Return the moment of every party, ``(m, d)`` or for more than two classes ``(m, K, d)``.

    Of two classes ``(y - 1/2) x``, of more ``e_y x'``.

    Parameters
    ----------
    rows : (n, d) array
        Rows in the unit ball, party by party.
    codes : (n,) array
        Class of every row, from 0 on.
    offsets : (m + 1,) array
        Where each party's rows begin; no party is empty.
    n_classes : int
        K.
    """
    sizes = np.diff(offsets)
    if n_classes == 2:
        signed = (codes - 0.5)[:, None] * rows
        return np.asarray(np.add.reduceat(signed, offsets[:-1], axis=0) / sizes[:, None])
    moments = np.empty((len(sizes), n_classes, rows.shape[1]))
    for label in range(n_classes):
        own = (codes == label)[:, None] * rows
        moments[:, label] = np.add.reduceat(own, offsets[:-1], axis=0) / sizes[:, None]
    return moments
