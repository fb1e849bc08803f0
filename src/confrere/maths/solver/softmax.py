"""The softmax objective of several classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from confrere.maths.solver.objective import Objective
from confrere.maths.solver.preconditioner import Preconditioner, SumZero, precondition
from confrere.maths.solver.solver_rows import Floats


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
