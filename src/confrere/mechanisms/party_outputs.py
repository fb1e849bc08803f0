"""Output perturbation of thousands of parties at once.

Proof: docs/proofs/output_perturbation.md; every party's noise is its own, so the same page holds
for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from confrere.maths.clipping import certify_rows
from confrere.maths.noise import l2_noise
from confrere.maths.parties import solve_parties
from confrere.maths.randomness import RandomSource
from confrere.maths.solver import minimise
from confrere.mechanisms.output_perturbation import OutputPerturbation

Floats = NDArray[np.float64]


def release_outputs(
    mechanisms: Mapping[int, OutputPerturbation],
    X: Floats,
    y: Floats,
    offsets: NDArray[np.int64],
    *,
    source: RandomSource,
) -> Floats:
    """Return every party's noised minimiser, one per row.

    Parameters
    ----------
    mechanisms : mapping of int to OutputPerturbation
        The mechanism of a party of that many records.
    X, y : arrays
        Rows in the unit ball and labels -1 and +1, party by party.
    offsets : (n_parties + 1,) array
        Where each party's rows begin.
    source : RandomSource
        Where all noise comes from; every party has draws of its own.
    """
    certify_rows(X)
    sizes = np.diff(offsets)
    points = np.empty((len(sizes), X.shape[1]))
    for size, mechanism in mechanisms.items():
        members = np.flatnonzero(sizes == size)
        # One slice if all are of one size: no copy of what may be most of the memory.
        rows: slice | NDArray[np.int64] = slice(None)
        if len(members) < len(sizes):
            rows = (offsets[members][:, None] + np.arange(size)).ravel()
        points[members] = _minimisers(mechanism, X[rows], y[rows], len(members))
    noise = l2_noise(1.0, X.shape[1], source, count=len(sizes))
    for size, mechanism in mechanisms.items():
        members = np.flatnonzero(sizes == size)
        # Noise of rate one, divided by the rate, has that rate.
        noised = points[members] + noise[members] * (mechanism.sensitivity / mechanism.epsilon)
        spacing = _spacing(mechanism)
        points[members] = np.rint(noised / spacing) * spacing
    return points


def _minimisers(mechanism: OutputPerturbation, X: Floats, y: Floats, count: int) -> Floats:
    size = mechanism.n_samples
    if mechanism.cap < 1:  # the batched solver knows the plain logistic loss only
        blocks = zip(np.split(X, count), np.split(y, count), strict=True)
        return np.stack(
            [
                minimise(
                    rows,
                    labels,
                    ridge=mechanism.ridge,
                    cap=mechanism.cap,
                    tolerance=mechanism.tolerance,
                ).w
                for rows, labels in blocks
            ]
        )
    # On the mean loss; half of the tolerance is left for rounding in the measured gradient, whose
    # bound is a quarter of it.
    return solve_parties(
        X,
        y,
        np.arange(0, len(y) + 1, size),
        alpha=mechanism.ridge / size,
        tolerance=mechanism.tolerance / size / 2,
    ).W


def _spacing(mechanism: OutputPerturbation) -> float:
    radius = mechanism.tolerance / mechanism.ridge / mechanism.n_features
    return 2.0 ** math.floor(math.log2(radius))
