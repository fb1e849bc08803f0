"""Noise on the mean of labels times features, which is all that a logistic risk knows of labels.

Proof: docs/proofs/moments.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confrere.mechanisms.party_average import Floats, PartyMean


@dataclass(frozen=True, kw_only=True)
class PartyMoments(PartyMean):
    """Average every party's mean of ``(y - 1/2) x``, for K classes of ``(e_y - 1/K) x'``.

    Parameters
    ----------
    epsilon, n_parties, n_features, n_classes
        As for :class:`PartyMean`.
    """

    theorem = "docs/proofs/moments.md"

    @property
    def norm(self) -> float:
        """The norm that no party's moment exceeds, its rows being in the unit ball."""
        return 0.5 if self.n_classes == 2 else math.sqrt(1 - 1 / self.n_classes)

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
        signed = ((codes == label) - 1 / n_classes)[:, None] * rows
        moments[:, label] = np.add.reduceat(signed, offsets[:-1], axis=0) / sizes[:, None]
    return moments
