"""What an exact audit asks of a mechanism: the density of each thing that it noises.

Mechanisms answer from the laws and the computations of their own ``run_many``. Releases with noise
of their own are terms of their own, whose losses of privacy add up. Nothing here is for real data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confrere.arrays import Floats
from confrere.maths.logistic import log_density, residual
from confrere.maths.solver import minimise, minimise_softmax, smallest_tolerance
from confrere.mechanisms.laws import NoiseLaw
from confrere.mechanisms.noisy_minimiser import NoisyMinimiser
from confrere.mechanisms.output_step import LatticeStep


@dataclass(frozen=True, eq=False)
class NoisedPoint:
    """A point with noise on it: the loss between two is their distance times the rate, exactly.

    Attributes
    ----------
    point : (size,) array
        Before noise, in the coordinates of the noise.
    law : NoiseLaw
        Of the noise.
    step : LatticeStep, optional
        The output step that follows.
    unturned : callable, optional
        From releases to the coordinates of the noise, where they are not the same.
    """

    point: Floats
    law: NoiseLaw
    step: LatticeStep | None = None
    unturned: Callable[[Floats], Floats] | None = None

    @property
    def size(self) -> int:
        """Number of coordinates of the noise."""
        return len(self.point)

    def noise(self, released: Floats) -> Floats:
        """Return the noise that led to a release, in the coordinates of the noise."""
        return np.asarray(released - self.point)

    def loss(self, other: NoisedPoint) -> float:
        """Return the largest log density ratio; ``other`` is on other data."""
        return -self.law.log_density(self.point - other.point)


@dataclass(frozen=True, eq=False)
class PerturbedObjectiveTerm:
    """One perturbed objective of two classes on one data set."""

    X: Floats
    y: Floats
    made: NoisyMinimiser
    centre: Floats | None = None

    @property
    def size(self) -> int:
        """Number of coordinates of a release."""
        return int(self.X.shape[1])

    @property
    def step(self) -> LatticeStep:
        """The output step that follows."""
        return self.made.output_step

    def noise(self, w: Floats) -> Floats:
        """Return the noise that makes ``w`` the minimiser."""
        made = self.made
        margins = self.y * (self.X @ w)
        towards = 0.0 if self.centre is None else self.centre
        pull = self.X.T @ (self.y * residual(margins, made.cap))
        return np.asarray(pull - made.ridge * (w - towards))

    def log_density(self, w: Floats) -> float:
        """Return the log density of the minimiser at ``w``, up to a constant."""
        made = self.made
        # At rate zero the density is the Hessian's determinant.
        log_det = log_density(w, self.X, self.y, rho=0.0, ridge=made.ridge, cap=made.cap)
        return log_det + made.law.log_density(self.noise(w))

    def minimiser(self) -> Floats:
        """Return the minimiser without noise."""
        # Rows that break their bound are what an audit may be looking for.
        longest = max(1.0, float(np.linalg.norm(self.X, axis=1).max()))
        smallest = smallest_tolerance(
            *self.X.shape,
            ridge=self.made.ridge,
            row_norm=longest,
            centre_norm=0.0 if self.centre is None else float(np.linalg.norm(self.centre)),
        )
        return minimise(
            self.X,
            self.y,
            ridge=self.made.ridge,
            centre=self.centre,
            cap=self.made.cap,
            tolerance=max(1e-6, 2 * smallest),
            row_norm=longest,
        ).w


@dataclass(frozen=True, eq=False)
class PerturbedSoftmaxTerm:
    """The same for more classes, in the coordinates of the noise."""

    X: Floats
    codes: NDArray[np.intp]
    made: NoisyMinimiser
    centre: Floats | None = None

    @property
    def size(self) -> int:
        """Number of coordinates of a release."""
        return self.made.noise_dimension

    @property
    def step(self) -> LatticeStep:
        """The output step that follows."""
        return self.made.output_step

    def noise(self, released: Floats) -> Floats:
        """Return the noise that makes these ``K d`` weights the minimiser, in its coordinates."""
        W = released.reshape(self.made.n_classes, -1)
        errors = special.softmax(self.X @ W.T, axis=1)
        errors[np.arange(len(self.codes)), self.codes] -= 1
        towards = 0.0 if self.centre is None else self.centre
        pull = errors.T @ self.X + self.made.ridge * (W - towards)
        return np.asarray(-(self.made.class_basis.T @ pull).ravel())

    def log_density(self, w: Floats) -> float:
        """Return ``log_density_softmax``, for many rows at once."""
        basis, made = self.made.class_basis, self.made
        W = basis @ w.reshape(-1, self.X.shape[1])
        P = special.softmax(self.X @ W.T, axis=1)
        reduced = P @ basis
        blocks = np.einsum("ka,nk,kb->nab", basis, P, basis)
        blocks -= reduced[:, :, None] * reduced[:, None, :]
        hessian = np.einsum("nab,ni,nj->aibj", blocks, self.X, self.X, optimize=True)
        _, log_det = np.linalg.slogdet(
            hessian.reshape(self.size, self.size) + made.ridge * np.eye(self.size)
        )
        return float(log_det) + made.law.log_density(self.noise(W))

    def minimiser(self) -> Floats:
        """Return the minimiser without noise."""
        made = self.made
        solved = minimise_softmax(
            self.X,
            self.codes,
            made.n_classes,
            ridge=made.ridge,
            centre=self.centre,
            tolerance=made.tolerance,
            row_norm=max(1.0, float(np.linalg.norm(self.X, axis=1).max())),
        )
        return np.asarray((made.class_basis.T @ solved.w).ravel())


Density = NoisedPoint | PerturbedObjectiveTerm | PerturbedSoftmaxTerm
