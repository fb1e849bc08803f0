"""Objective perturbation drawn many times on the same rows: what an audit listens to.

The releases are those that :meth:`ObjectivePerturbation.run` and
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
    ObjectivePerturbation,
    public_tolerance,
)


def repeat_objective(
    mechanism: ObjectivePerturbation,
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
        rate=mechanism.rho,
        ridge=mechanism.ridge,
        cap=mechanism.cap,
        step=mechanism.output_step,
        tolerance=mechanism.tolerance,
        count=count,
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
                rate=rate,
                ridge=ridge,
                cap=mechanism.cap,
                step=step,
                tolerance=tolerance,
                count=count,
                source=source,
            )
        )
    return np.hstack(released)


def _repeat(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    *,
    rate: float,
    ridge: float,
    cap: float,
    step: LatticeStep,
    tolerance: float,
    count: int,
    source: RandomSource,
    centre: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    noise = l2_noise(rate, X.shape[1], source, count=count)
    points = minimise_many(
        X, y, ridge=ridge, linear=noise, centre=centre, cap=cap, tolerance=0.9 * tolerance
    ).W
    return step.release(points, source)


def _check_seeded(source: RandomSource) -> None:
    if not source.simulated:
        raise InvalidParameter("source must be seeded: repeated releases are for simulation only.")
