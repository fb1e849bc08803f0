"""What all releases about whole parties share: the promise, and the noise.

Proof: docs/proofs/multiparty.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from confrere.guarantee import Guarantee, Neighbours, Unit
from confrere.noise.samplers import l2_noise, sum_zero_noise
from confrere.noise.sources import RandomSource

Floats = NDArray[np.float64]

#: Spacing of the released numbers, as a share of the noise's scale.
_FINENESS = 1e-6

_PUBLIC = ("number of parties", "number of features", "label set", "bounds", "every parameter")
_ASSUMPTIONS = (
    "what a party sends depends on its own data alone",
    "whoever adds up what parties send adds the noise, and keeps the sums to itself",
    "floats: rounding of the noise and its far tails (total variation below 1e-15)",
)


def party_guarantee(
    epsilon: float, theorem: str, *, auxiliary: str | None, jointly: bool = False
) -> Guarantee:
    """Return a promise to whole parties.

    Parameters
    ----------
    epsilon : float
        The price.
    theorem : str
        The proof page.
    auxiliary : str or None
        What is public about the auxiliary rows.
    jointly : bool, default=False
        Whether one auxiliary row may change together with the party.
    """
    also = ("one auxiliary row may change together with the party",) if jointly else ()
    return Guarantee(
        epsilon=epsilon,
        unit=Unit.PARTY,
        neighbours=Neighbours.REPLACE_ONE,
        theorem=theorem,
        public=_PUBLIC if auxiliary is None else (*_PUBLIC, auxiliary),
        assumptions=(*_ASSUMPTIONS, *also),
    )


def party_noise(rho: float, point: Floats, source: RandomSource) -> Floats:
    """Return noise for a vector, or for a matrix whose columns sum to zero."""
    if point.ndim == 1:
        return np.asarray(l2_noise(rho, len(point), source)[0])
    n_classes, n_features = point.shape
    return sum_zero_noise(rho, n_classes, n_features, source)


def on_grid(noised: Floats, scale: float) -> Floats:
    """Round to a public grid far below the noise: low bits of floats would leak."""
    spacing = 2.0 ** math.floor(math.log2(_FINENESS * scale))
    return np.asarray(np.rint(noised / spacing) * spacing)
