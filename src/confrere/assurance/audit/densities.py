"""Densities of releases, given the rows, up to constants: what an exact audit compares.

They are worked out from what a measurement says of itself, and are no part of what draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from confrere.arrays import Floats, coordinates
from confrere.kernel.accountants import Labels, Loss
from confrere.kernel.measurements import Act, Objective, Point, SecureSum
from confrere.kernel.noise import L1, L2, Body, Gaussian, LatticeStep, Law, Norm, Pure
from confrere.methods.allowance import SOLVER
from confrere.methods.plan import Term


def norms_of(norm: Norm, points: Floats) -> Floats:
    """Return the norm of every row."""
    if not isinstance(norm, Body):
        return np.asarray(np.linalg.norm(points, ord=1 if isinstance(norm, L1) else 2, axis=1))
    norms, group = norm.factor_norms(np.atleast_2d(points)), np.array(norm.groups)
    return np.asarray(
        sum(share * norms[:, group == g].max(axis=1) for g, share in enumerate(norm.shares))
    )


def log_density(law: Law, noise: Floats) -> float:
    """Return the logarithm of a law's density, up to a constant."""
    if isinstance(law, Gaussian):
        return -float(np.square(noise).sum()) / (2 * law.sigma**2)
    assert isinstance(law, Pure)
    return -law.rho * float(norms_of(law.norm, np.reshape(noise, (law.copies, -1))).sum())


def bends(loss: Loss, scores: Floats, labels: Labels) -> Floats:
    """Return every record's curvature, ``(n, n_scores, n_scores)``."""
    if loss.n_scores == 1:
        return SOLVER.curves(loss).bends(scores.T, labels).T[:, :, None]
    units = np.eye(loss.n_scores)[:, :, None] * np.ones(len(scores))
    at, curves = np.ascontiguousarray(scores.T), SOLVER.curves(loss)
    return np.stack([curves.bent(at.copy(), unit, labels).T for unit in units], axis=2)


def pull(loss: Loss, w: Floats, X: Floats, y: Labels) -> Floats:
    """Return the gradient of the summed losses at weights, all of them in a row."""
    scores = np.array((loss.spread(w[None]) @ X.T)[None], dtype=np.float64)
    return np.asarray(loss.gathered(loss.residuals(scores, y)[0] @ X)[0])


def log_det(loss: Loss, w: Floats, X: Floats, y: Labels, ridge: float) -> float:
    """Return that of the Hessian of the summed losses and the ridge."""
    tie = loss.spread(np.eye(w.size)).reshape(w.size, -1, X.shape[1])
    curved = bends(loss, X @ loss.spread(w[None]).T, y)
    hessian = np.einsum("nab,ni,nj->aibj", curved, X, X, optimize=True)
    hessian = np.tensordot(np.tensordot(tie, hessian), tie, axes=((1, 2), (1, 2)))
    _, found = np.linalg.slogdet(hessian + ridge * np.eye(w.size))
    return float(found)


@dataclass(frozen=True, eq=False)
class PerturbedTerm:
    """The density of one block's release, given its rows."""

    X: Floats
    y: Labels
    made: Act

    @property
    def law(self) -> Law:
        return self.made.law

    @property
    def step(self) -> LatticeStep:
        return self.made.output_step

    @property
    def released(self) -> int:
        return self.step.size

    def noise(self, released: Floats) -> Floats:
        """Return the noise that makes these weights the minimiser."""
        act, w = self.made, np.ravel(released)
        towards = 0.0 if act.centre is None else np.ravel(act.centre)
        return -(pull(act.loss, w, self.X, self.y) + act.ridge * (w - towards))

    def log_density(self, released: Floats) -> float:
        """Return that of the noise, and of the Hessian's determinant."""
        act, w = self.made, np.ravel(released)
        found = log_det(act.loss, w, self.X, self.y, act.ridge)
        return found + log_density(act.law, self.noise(w))


@dataclass(frozen=True, eq=False)
class NoisedPoint:
    """A point with noise on it: the loss between two is their distance times the rate, exactly."""

    point: Floats  #: Before noise, in the coordinates of the noise
    law: Law
    step: LatticeStep | None = None  #: The output step that follows
    n_classes: int = 2  #: Of more than two a release is a matrix whose columns sum to zero

    @property
    def released(self) -> int:
        k = self.n_classes
        return len(self.point) if k == 2 else len(self.point) * k // (k - 1)

    def noise(self, released: Floats) -> Floats:
        """Return the noise that led to a release."""
        shaped = released if self.n_classes == 2 else released.reshape(self.n_classes, -1)
        return np.asarray(coordinates(shaped) - self.point)

    def log_density(self, released: Floats) -> float:
        return log_density(self.law, self.noise(released))

    def loss(self, other: NoisedPoint) -> float:
        """Return the largest log density ratio; ``other`` is on other data."""
        return -log_density(self.law, self.point - other.point)


#: Of each thing that is noised apart.
Density = NoisedPoint | PerturbedTerm


def densities(made: Any, rows: Any) -> list[Density]:
    """Return the density of each part of a measurement's release, given what it sees."""
    if isinstance(made, Objective):
        blocks, y = rows
        return [PerturbedTerm(np.asarray(X), y, a) for a, X in zip(made.acts, blocks, strict=True)]
    if isinstance(made, SecureSum):
        return [NoisedPoint(np.atleast_2d(rows).sum(axis=0), sum_law(made))]
    assert isinstance(made, Point)
    made.certify(rows)
    points = [point.astype(np.float64) for point in made.points(rows)]
    if not made.parts:
        (point,) = points
        return [NoisedPoint(point, Pure(L1(point.size), 1 / made.scale))]
    parts = zip(points, made.laws, made.steps, made.parts, strict=True)
    return [NoisedPoint(point, law, step, part.told.n_classes) for point, law, step, part in parts]


def sum_law(made: SecureSum) -> Law:
    """Return the law that is counted on, whoever colludes; integers have Laplace's on a grid."""
    if made.delta:
        return Gaussian(1 / made.rate, made.size)
    return Pure((L2 if made.law == "l2" else L1)(made.size), made.rate)


def densities_of(terms: Sequence[Term]) -> list[Density]:
    """Return the densities of all that a plan's terms noise."""
    return [density for term in terms for density in densities(term.mechanism, term.data)]
