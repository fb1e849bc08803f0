"""Gaussian noise for groups of features of the same records: what all groups promise together.

Every group minimises an objective of its own with noise ``N(0, sigma_g^2 I)``; see
:mod:`confrere.maths.gaussian` for one of them. Proof: docs/proofs/feature_groups.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import CalibrationError, InvalidParameter
from confrere.guarantee import check_positive
from confrere.maths.gaussian import gaussian_delta, gaussian_mu

Floats = NDArray[np.float64]


def group_mu(
    epsilon: float,
    delta: float,
    ridges: Sequence[float],
    *,
    n_classes: int = 2,
    joint: bool = False,
) -> float:
    """Return how far one record may move the noise of all groups of features, over sigma.

    Groups that see the same records have residuals of their own: with G groups the loss of privacy
    is largest at one of ``2^(2G)`` corners (``K^(2G)`` of K > 2 classes), each of which is a
    Gaussian mechanism, and pays every group's Jacobian; under joint clipping those share one row.
    """
    taken = jacobian(ridges, n_classes, joint=joint)
    if epsilon <= taken:
        raise CalibrationError(
            f"no Gaussian noise reaches epsilon={epsilon:g} at these ridges: the Jacobian alone "
            "costs more. Raise alpha."
        )
    return gaussian_mu(epsilon - taken, delta / corners(len(ridges), n_classes))


def jacobian(ridges: Sequence[float], n_classes: int = 2, *, joint: bool = False) -> float:
    """Return the most that the Jacobians of all groups change by with one record."""
    others = n_classes - 1
    bend = 1 / 4 if n_classes == 2 else others / n_classes  # the largest trace of one record
    if joint:
        return bend / min(ridges)
    return math.fsum(others * math.log1p(bend / (others * ridge)) for ridge in ridges)


def corners(n_groups: int, n_classes: int = 2) -> float:
    """Return in how many ways both records' residuals may be extreme in all groups."""
    return float(n_classes) ** (2 * n_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianGroups:
    """Groups of two classes with their noise, as far as privacy is concerned.

    Attributes
    ----------
    sigmas, ridges : tuple of float
        Of every group.
    cap : float
        Largest slope of the loss.
    joint : bool
        Whether all groups' parts of a row share one unit of length; then they have one sigma.
    """

    sigmas: tuple[float, ...]
    ridges: tuple[float, ...]
    cap: float = 1.0
    joint: bool = False

    def __post_init__(self) -> None:
        if not len(self.sigmas) == len(self.ridges) >= 1:
            raise InvalidParameter("sigmas and ridges must have one entry per group.")
        for sigma, ridge in zip(self.sigmas, self.ridges, strict=True):
            check_positive(sigma, "sigma")
            check_positive(ridge, "ridge")
        if self.joint and len(set(self.sigmas)) > 1:
            raise InvalidParameter("groups that share a row's length must share one sigma.")

    @property
    def reach(self) -> float:
        """How far a replaced record moves the noise of all groups, over sigma."""
        one = 1 / self.sigmas[0] if self.joint else math.hypot(*(1 / s for s in self.sigmas))
        return 2 * self.cap * one

    def delta(self, epsilon: ArrayLike) -> Floats:
        """Return the bound on delta that noise is calibrated by: every corner at its worst."""
        at = np.asarray(epsilon, dtype=np.float64) - jacobian(self.ridges, joint=self.joint)
        count = corners(len(self.ridges))
        return np.asarray(np.minimum(1.0, count * gaussian_delta(at, self.reach)))

    def profile(self, epsilon: ArrayLike) -> Floats:
        """Return a bound on delta that is good at small epsilons too, where releases compose.

        A replaced record is one that goes and one that comes. For either, group by group, the
        Jacobian apart, no test does better than between two Gaussians: groups compose as those do,
        and no corner is counted beside another.
        """
        taken = jacobian(self.ridges, joint=self.joint)
        at = np.asarray(epsilon, dtype=np.float64) - 2 * taken
        composed = math.exp(taken) * gaussian_delta(at, self.reach)
        return np.asarray(np.minimum(composed, self.delta(epsilon)))
