"""What the solver needs to know of an objective: gradients, curvature, and its slope on a line.

An objective is a sum over rows plus the penalty ``(L/2)||w - u||^2 + b.w``. It stands for ``m``
problems at once that share the rows and differ in ``u`` and ``b``: weights are ``(m, size)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from confrere.maths.solver.preconditioner import Preconditioner
from confrere.maths.solver.rounding import UNIT, penalty_rounding, rounding_bound
from confrere.maths.solver.solver_rows import Floats, Rows


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """A strongly convex sum over rows, for one or several penalties.

    Parameters
    ----------
    rows : Rows
        The data.
    labels : (n,) array
        What the loss compares each row's margin with.
    ridge : float
        ``L``, above zero.
    linear : (m, size) array
        ``b``, one row per problem.
    centre : (m, size) array
        ``u``, one row per problem.
    scale : float
        Weight of the sum over rows: above one for a subsample that stands for all.
    """

    rows: Rows
    labels: NDArray[np.float64] | NDArray[np.intp]
    ridge: float
    linear: Floats
    centre: Floats
    scale: float = 1.0

    @abstractmethod
    def _sum_gradient(self, W: Floats) -> Floats:
        """Return the gradient of the sum over rows, at every row of ``W``."""

    @abstractmethod
    def _sum_hessian(self, w: Floats) -> Callable[[Floats], Floats]:
        """Return the Hessian of the sum at one point, as a map on vectors."""

    @abstractmethod
    def _sum_slope(self, w: Floats, step: Floats) -> Callable[[float], float]:
        """Return the derivative of the sum along ``w + a step``, cheap in ``a``: O(n)."""

    @abstractmethod
    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return an approximate inverse of the Hessian, averaged over the points in ``W``."""

    @property
    @abstractmethod
    def n_classes(self) -> int | None:
        """How many weight vectors compete in the softmax; None if there is a single one."""

    @property
    def m(self) -> int:
        """How many problems share the rows."""
        return len(self.linear)

    def gradient(self, W: Floats) -> Floats:
        """Return the gradient of every problem at its row of ``W``, in one pass over the data."""
        penalty = self.ridge * (W - self.centre) + self.linear
        return self.scale * self._sum_gradient(W) + penalty

    def hessian(self, w: Floats) -> Callable[[Floats], Floats]:
        """Return the Hessian at one point, as a map on vectors."""
        product = self._sum_hessian(w)
        return lambda v: self.scale * product(v) + self.ridge * v

    def slope(self, w: Floats, step: Floats) -> Callable[[float], float]:
        """Return the derivative of the only problem along the line ``w + a step``."""
        data = self._sum_slope(w, step)
        constant = float(step @ (self.ridge * (w - self.centre[0]) + self.linear[0]))
        growth = self.ridge * float(step @ step)
        return lambda a: self.scale * data(a) + constant + a * growth

    def rounding(self, W: Floats) -> Floats:
        """Bound the floating-point error of :meth:`gradient` at every row of ``W``."""
        bounds = [
            rounding_bound(
                self.rows.n,
                self.rows.d,
                row_norm=self.rows.row_norm,
                weight_norm=float(np.linalg.norm(w)),
                n_classes=self.n_classes,
            )
            * self.scale
            + penalty_rounding(self.ridge, float(np.linalg.norm(w - u)), float(np.linalg.norm(b)))
            for w, u, b in zip(W, self.centre, self.linear, strict=True)
        ]
        return np.array(bounds)

    def bound(self, W: Floats, G: Floats) -> Floats:
        """Bound the norms of the true gradients at ``W``, given the computed ones ``G``."""
        norms = np.sqrt(np.vecdot(G, G))
        return np.asarray(norms * (1 + G.shape[1] * UNIT) + self.rounding(W))

    def certified(self, W: Floats, G: Floats, tolerance: float) -> NDArray[np.bool]:
        """Tell which problems' gradients are at most ``tolerance``, rounding included."""
        if np.all(np.vecdot(G, G) > tolerance**2):
            return np.zeros(len(G), dtype=np.bool)
        return self.bound(W, G) <= tolerance

    def select(self, problems: NDArray[np.bool] | slice) -> Self:
        """Return the same objective for some of its problems."""
        return replace(self, linear=self.linear[problems], centre=self.centre[problems])

    def mean(self) -> Self:
        """Return the one problem that is the mean of all."""
        return replace(
            self,
            linear=self.linear.mean(axis=0, keepdims=True),
            centre=self.centre.mean(axis=0, keepdims=True),
        )

    def thinned(self) -> Self | None:
        """Return the objective of a subsample, or None if there are too few rows."""
        chosen = self.rows.subsample()
        if chosen is None:
            return None
        return replace(
            self,
            rows=self.rows.take(chosen),
            labels=self.labels[chosen],
            scale=self.scale * self.rows.n / len(chosen),
        )
