"""The ridge of a private objective: a public rule, written once."""

from __future__ import annotations

from typing import Literal

from confrere.errors import InvalidData
from confrere.guarantee import Neighbours
from confrere.maths.calibration import free_ridge
from confrere.maths.gaussian import GaussianObjective, automatic_gaussian_ridge
from confrere.mechanisms.gaussian_objective import check_delta
from confrere.mechanisms.objective_perturbation import SOLVER_SHARE

Alpha = float | Literal["auto"]


def noise_budget(epsilon: float) -> float:
    """Return what is left of epsilon for the noise when the solver has its share."""
    return epsilon * (1 - SOLVER_SHARE)


def summed_ridge(
    alpha: Alpha,
    budget: float,
    n_samples: float,
    size: int,
    *,
    cap: float = 1.0,
    floor: float | None = 2.0,
    noise: float | None = None,
) -> float:
    """Return ``L`` of the summed objective of rows in the unit ball.

    Parameters
    ----------
    alpha : float or "auto"
        Ridge on the mean loss. ``"auto"`` is ``k d^3 / (n budget^2)`` with ``k = 1``, or ``.3`` for
        the capped loss: the variance of the noise over prior variance times curvature.
    budget : float
        What pays for the noise; see :func:`noise_budget`.
    n_samples : float
        Records behind the model, public.
    size : int
        Number of weights ``d``.
    cap : float, default=1.0
        Largest slope of the loss.
    floor : float or None, default=2.0
        The ridge is at least ``floor / budget``; at 2 the Jacobian costs nothing. None leaves an
        ``alpha`` that is given alone.
    noise : float, optional
        In place of ``d^3``, where noise or rows are shorter than in the unit ball of L2.
    """
    if alpha != "auto":
        given = n_samples * float(alpha)
        return given if floor is None else max(given, free_ridge(budget, factor=floor))
    if n_samples < 1:
        raise InvalidData("X needs at least one row.")
    k = 0.3 if cap < 1 else 1.0
    rule = k * (size**3 if noise is None else noise) / (n_samples * budget**2)
    return max(free_ridge(budget, factor=2.0 if floor is None else floor), rule)


def gaussian_ridge(
    budget: float,
    delta: float,
    n_samples: int,
    size: int,
    *,
    cap: float,
    n_classes: int,
    neighbours: Neighbours,
    floor: float,
) -> float:
    """Return the automatic ridge where noise is Gaussian."""
    check_delta(delta, n_samples)
    objective = GaussianObjective(
        ridge=float("inf"), cap=cap, n_classes=n_classes, neighbours=neighbours
    )
    return automatic_gaussian_ridge(budget, delta, n_samples, size, objective, floor=floor)
