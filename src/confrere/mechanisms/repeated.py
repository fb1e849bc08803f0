"""Objective perturbation drawn many times on the same rows: what an audit listens to.

The releases are those that :meth:`PerturbedObjective.run` and
:meth:`FeatureGroupPerturbation.run` would make one after the other; only the passes over the data
are shared. Two releases of the same data cost twice: nothing here is for real data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter
from confrere.maths.clipping import certify_rows
from confrere.maths.noise import l2_noise
from confrere.maths.randomness import RandomSource
from confrere.maths.solver import minimise_many
from confrere.mechanisms.feature_groups import FeatureGroupPerturbation
from confrere.mechanisms.lattice import LatticeStep
from confrere.mechanisms.objective_perturbation import (
    SOLVER_SHARE,
    PerturbedObjective,
    public_tolerance,
)


def repeat_objective(
    mechanism: PerturbedObjective,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    *,
    count: int,
    source: RandomSource,
    centre: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return ``(count, d)`` independent releases of the same rows, two classes."""
    _check_seeded(source)
    if mechanism.n_classes > 2:
        raise InvalidParameter("n_classes must be 2: there is no batch solver for more.")
    certify_rows(X)
    return _repeat(
        X,
        y,
        noise=mechanism.draw(source, count),
        ridge=mechanism.ridge,
        cap=mechanism.cap,
        step=mechanism.output_step,
        tolerance=mechanism.tolerance,
        source=source,
        centre=centre,
    )


def repeat_groups(
    mechanism: FeatureGroupPerturbation,
    rows: Sequence[NDArray[np.float64]],
    y: NDArray[np.float64],
    *,
    count: int,
    source: RandomSource,
) -> NDArray[np.float64]:
    """Return ``(count, sum of sizes)`` independent releases, the groups side by side."""
    _check_seeded(source)
    released = []
    for X, ridge, rate in zip(rows, mechanism.ridges, mechanism.rates, strict=True):
        size = X.shape[1]
        tolerance = public_tolerance(
            mechanism.n_samples, size, rho=rate, ridge=ridge, prior_norm=mechanism.prior_norm
        )
        step = LatticeStep(
            epsilon=mechanism.epsilon * SOLVER_SHARE / len(mechanism.sizes),
            radius=tolerance / ridge,
            size=size,
        )
        released.append(
            _repeat(
                X,
                y,
                noise=l2_noise(rate, size, source, count=count),
                ridge=ridge,
                cap=mechanism.cap,
                step=step,
                tolerance=tolerance,
                source=source,
            )
        )
    return np.hstack(released)


def _repeat(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    *,
    noise: NDArray[np.float64],
    ridge: float,
    cap: float,
    step: LatticeStep,
    tolerance: float,
    source: RandomSource,
    centre: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    points = minimise_many(
        X, y, ridge=ridge, linear=noise, centre=centre, cap=cap, tolerance=0.9 * tolerance
    ).W
    return step.release(points, source)


def _check_seeded(source: RandomSource) -> None:
    if not source.simulated:
        raise InvalidParameter("source must be seeded: repeated releases are for simulation only.")
