"""Ridges of the summed objective: by a public rule, given, per column and per group.

Proof: docs/proofs/objective_perturbation.md, "A ridge per column".
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter
from confrere.kernel.guarantee import Neighbours
from confrere.maths.calibration import free_ridge
from confrere.maths.gaussian import GaussianObjective, automatic_gaussian_ridge, check_delta
from confrere.mechanisms.objective_perturbation import SOLVER_SHARE

#: Ridge on the mean loss, or the public rule.
Alpha = float | Literal["auto"]
#: The same, for all or for each.
Alphas = Alpha | ArrayLike

#: By how much the automatic ridge's floor is raised for more than two classes. Chosen on training
#: rows of two tables and on two others, by regressions, averages and stacks together: 10/epsilon
#: has .006 less accuracy than 20/epsilon, 15/epsilon .002 less, 30/epsilon as much.
MANY_CLASSES = 10.0


def class_floor(n_classes: int, floor: float = 2.0) -> float:
    """Return by what the automatic ridge is at least divided by the budget."""
    return floor * MANY_CLASSES if n_classes > 2 else floor


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


def column_ridges(alpha: ArrayLike, n_features: int) -> tuple[float, Floats]:
    """Return the smallest ridge, and the factor by which every column is shortened for its own.

    ``w_j = s_j v_j`` with ``s_j = sqrt(min alpha/alpha_j)`` turns a ridge per column into one
    ridge, of columns that are multiplied by ``s_j``.

    Parameters
    ----------
    alpha : array
        One number per column as it is learned from.
    n_features : int
        How many columns there are.
    """
    given = np.asarray(alpha, dtype=np.float64)
    if given.shape != (n_features,):
        raise InvalidParameter(f"alpha must have one number per column ({n_features}).")
    smallest = float(given.min())
    return smallest, np.sqrt(smallest / given)


def group_ridges(alpha: Alphas, n_groups: int) -> list[float | Literal["auto"]]:
    """Return every group's ridge: the same for all, or one each.

    Parameters
    ----------
    alpha : float, "auto" or a sequence of them
    n_groups : int
        Groups that are in use.
    """
    if isinstance(alpha, str) or np.ndim(alpha) == 0:
        return [alpha] * n_groups  # type: ignore[list-item]
    each: list[Any] = list(np.asarray(alpha, dtype=object))
    if len(each) != n_groups:
        raise InvalidParameter(f"alpha must have one number per group in use ({n_groups}).")
    return ["auto" if isinstance(one, str) else float(one) for one in each]
