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

from confrere.maths.logistic import curvature, residual
from confrere.maths.solver.certificate import UNIT, penalty_rounding, rounding_bound
from confrere.maths.solver.solver_rows import (
    Floats,
    Preconditioner,
    SolverRows,
    SumZero,
    precondition,
)


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """A strongly convex sum over rows, for one or several penalties.

    Parameters
    ----------
    rows : SolverRows
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

    rows: SolverRows
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


@dataclass(frozen=True, kw_only=True)
class Binary(Objective):
    """``sum_i l(y_i w.x_i)`` with labels -1 and +1, and its penalty; ``cap`` bounds the slope."""

    cap: float = 1.0

    @property
    def n_classes(self) -> None:
        """None: one weight vector tells two classes apart."""
        return None

    def _sum_gradient(self, W: Floats) -> Floats:
        total = np.zeros_like(W)
        for part, block in self.rows:
            y = self.labels[part]
            t = W @ block.T
            t *= y
            residual(t, self.cap, out=t)
            t *= y
            total -= t @ block
        return total

    def _sum_hessian(self, w: Floats) -> Callable[[Floats], Floats]:
        bend = curvature(self.labels * self._margins(w), self.cap)

        def product(v: Floats) -> Floats:
            total = np.zeros_like(v)
            for part, block in self.rows:
                total += (bend[part] * (v @ block.T)) @ block
            return total

        return product

    def _sum_slope(self, w: Floats, step: Floats) -> Callable[[float], float]:
        t = self.labels * self._margins(w)
        rate = self.labels * self._margins(step)
        return lambda a: -float(residual(t + a * rate, self.cap) @ rate)

    def _margins(self, w: Floats) -> Floats:
        return np.concatenate([w @ block.T for _, block in self.rows])

    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return the inverse of the Hessian, with curvatures averaged over the rows of ``W``."""
        W = W[:: -(-len(W) // 8)]  # a few points show the average

        def weigh(part: slice, block: Floats) -> Floats:
            bend = curvature(self.labels[part] * (W @ block.T), self.cap)
            return np.asarray(self.scale * bend.mean(axis=0, keepdims=True))

        return precondition(self.rows, weigh, 1, self.ridge)


@dataclass(frozen=True, kw_only=True)
class Softmax(Objective):
    """``sum_i [logsumexp(W x_i) - W_{c_i}.x_i]`` and its penalty; labels are class codes.

    The weights of a problem are ``W`` of shape ``(K, d)``, flattened.
    """

    classes: int

    @property
    def n_classes(self) -> int:
        """``K``."""
        return self.classes

    def _sum_gradient(self, W: Floats) -> Floats:
        total = np.zeros((len(W), self.classes, self.rows.d))
        for j, w in enumerate(W):
            for part, block in self.rows:
                total[j] += self._residual(self._matrix(w) @ block.T, part) @ block
        return total.reshape(W.shape)

    def _residual(self, t: Floats, part: slice) -> Floats:
        """Probabilities minus indicators, ``(K, rows)``."""
        p = _softmax(t)
        p[self.labels[part], np.arange(p.shape[1])] -= 1.0
        return p

    def _sum_hessian(self, w: Floats) -> Callable[[Floats], Floats]:
        p = _softmax(self._margins(w))

        def product(v: Floats) -> Floats:
            total = np.zeros((self.classes, self.rows.d))
            for part, block in self.rows:
                tilt = p[:, part] * (self._matrix(v) @ block.T)
                total += (tilt - p[:, part] * tilt.sum(axis=0)) @ block
            return total.ravel()

        return product

    def _sum_slope(self, w: Floats, step: Floats) -> Callable[[float], float]:
        t, rate = self._margins(w), self._margins(step)
        return lambda a: float(np.vdot(self._residual(t + a * rate, slice(None)), rate))

    def _margins(self, w: Floats) -> Floats:
        return np.concatenate([self._matrix(w) @ block.T for _, block in self.rows], axis=1)

    def _matrix(self, w: Floats) -> Floats:
        return w.reshape(self.classes, self.rows.d)

    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return the inverse of the Hessian's diagonal blocks, one per class.

        A record's curvature ``diag(p) - p p'`` acts on weights that sum to zero over the classes;
        for equal ``p`` its diagonal is ``(K-1)/K`` of it there, so that much is given back.
        """
        K = self.classes

        def weigh(_: slice, block: Floats) -> Floats:
            p = np.mean([_softmax(self._matrix(w) @ block.T) for w in W], axis=0)
            return np.asarray(self.scale * K / (K - 1) * p * (1.0 - p))

        return SumZero(precondition(self.rows, weigh, K, self.ridge), K, self.ridge)


def _softmax(t: Floats) -> Floats:
    """Turn margins into probabilities of the classes, in place."""
    t -= t.max(axis=0)
    np.exp(t, out=t)
    t /= t.sum(axis=0)
    return t
