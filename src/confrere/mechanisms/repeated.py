"""Objective perturbation drawn many times on the same rows: what an audit listens to.

The releases are those that a mechanism's ``run`` would make one after the other; only the passes
over the data are shared. Two releases of the same data cost twice: nothing here is for real data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter
from confrere.maths.logistic import sigmoid
from confrere.maths.solver import minimise_many
from confrere.mechanisms.feature_groups import FeatureGroupPerturbation
from confrere.mechanisms.laplace_objective import LaplaceObjectivePerturbation
from confrere.mechanisms.lattice import LatticeStep
from confrere.mechanisms.objective_perturbation import (
    SOLVER_SHARE,
    ObjectivePerturbation,
    PerturbedObjective,
    public_tolerance,
)
from confrere.noise.samplers import gamma_norm, l2_noise
from confrere.noise.sources import RandomSource
from confrere.rows.ball import certify_rows

Floats = NDArray[np.float64]

_NEWTON_STEPS = 200


def repeat_objective(
    mechanism: PerturbedObjective | LaplaceObjectivePerturbation,
    X: Floats,
    y: Floats,
    *,
    count: int,
    source: RandomSource,
    centre: Floats | None = None,
) -> Floats:
    """Return ``(count, d)`` independent releases of the same rows, two classes."""
    _check_seeded(source)
    if isinstance(mechanism, LaplaceObjectivePerturbation):
        rises, falls = (
            gamma_norm(mechanism.rho, 1, count * X.shape[1], source).reshape(count, -1)
            for _ in range(2)
        )
        noise = rises - falls
    elif mechanism.n_classes > 2:
        raise InvalidParameter("n_classes must be 2: there is no batch solver for more.")
    else:
        certify_rows(X)
        noise = mechanism.draw(source, count)
    return _release(
        X,
        y,
        noise,
        ridge=mechanism.ridge,
        cap=mechanism.cap,
        step=mechanism.output_step,
        tolerance=mechanism.tolerance,
        source=source,
        centre=centre,
    )


def repeat_groups(
    mechanism: FeatureGroupPerturbation,
    rows: Sequence[Floats],
    y: Floats,
    *,
    count: int,
    source: RandomSource,
    centres: Sequence[Floats | None] | None = None,
) -> list[Floats]:
    """Return ``(count, size)`` independent releases of every group."""
    _check_seeded(source)
    points = centres if centres is not None else [None] * len(rows)
    released = []
    for X, ridge, rate, centre in zip(rows, mechanism.ridges, mechanism.rates, points, strict=True):
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
            _release(
                X,
                y,
                l2_noise(rate, size, source, count=count),
                ridge=ridge,
                cap=mechanism.cap,
                step=step,
                tolerance=tolerance,
                source=source,
                centre=centre,
            )
        )
    return released


def release_each(
    mechanism: ObjectivePerturbation,
    rows: Floats,
    y: Floats,
    *,
    source: RandomSource,
    centre: Floats,
) -> Floats:
    """Return one release of every data set in ``rows``, ``(count, n, d)``, with the same labels.

    A stack's high level: what it learns from differs from run to run.
    """
    _check_seeded(source)
    certify_rows(rows.reshape(-1, rows.shape[2]))
    noise = l2_noise(mechanism.rho, rows.shape[2], source, count=len(rows))
    points = _minimise_each(
        rows, y, mechanism.ridge, noise - mechanism.ridge * centre, 0.9 * mechanism.tolerance
    )
    return mechanism.output_step.release(points, source)


def _release(
    X: Floats,
    y: Floats,
    noise: Floats,
    *,
    ridge: float,
    cap: float,
    step: LatticeStep,
    tolerance: float,
    source: RandomSource,
    centre: Floats | None,
) -> Floats:
    points = minimise_many(
        X, y, ridge=ridge, linear=noise, centre=centre, cap=cap, tolerance=0.9 * tolerance
    ).W
    return step.release(points, source)


def _minimise_each(
    rows: Floats, y: Floats, ridge: float, linear: Floats, tolerance: float
) -> Floats:
    """Minimise ``sum log(1 + exp(-y w.x)) + (ridge/2)||w||^2 + linear.w`` for every data set.

    Newton's steps, shortened by ``1 + length``: rows in the unit ball bend the loss no faster.
    """
    signed = rows * y[:, None]
    weights = -linear / ridge
    active = np.arange(len(rows))
    for _ in range(_NEWTON_STEPS):
        X, w = signed[active], weights[active]
        p = sigmoid(-np.einsum("bnd,bd->bn", X, w))
        gradient = ridge * w + linear[active] - np.einsum("bnd,bn->bd", X, p)
        left = np.linalg.norm(gradient, axis=1) > tolerance
        active = active[left]
        if not active.size:
            return weights
        X, p = X[left], p[left]
        hessian = np.einsum("bnd,bn,bne->bde", X, p * (1 - p), X) + ridge * np.eye(X.shape[2])
        step = np.linalg.solve(hessian, gradient[left][:, :, None])[:, :, 0]
        lengths = np.linalg.norm(step, axis=1, keepdims=True)
        weights[active] -= step / (1 + np.where(lengths > 0.1, lengths, 0.0))
    raise InvalidParameter("rows cannot be solved to the mechanism's tolerance.")


def _check_seeded(source: RandomSource) -> None:
    if not source.simulated:
        raise InvalidParameter("source must be seeded: repeated releases are for simulation only.")
