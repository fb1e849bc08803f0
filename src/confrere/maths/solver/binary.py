"""The logistic objective of two classes, for one or many linear terms at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from confrere.maths.logistic import curvature, residual
from confrere.maths.solver.objective import Objective
from confrere.maths.solver.preconditioner import Preconditioner, precondition
from confrere.maths.solver.solver_rows import Floats


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
