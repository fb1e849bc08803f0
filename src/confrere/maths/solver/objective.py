"""What the solver needs to know of an objective: gradients, curvature, and its slope on a line.

An objective is a sum over rows plus the penalty ``(L/2)||w - u||^2 + b.w``. It stands for ``m``
problems at once that share the rows and differ in ``u`` and ``b``: weights are ``(m, size)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from confrere.maths.logistic import curvature, residual
from confrere.maths.solver.certificate import UNIT, penalty_rounding, rounding_bound
from confrere.maths.solver.preconditioners import Preconditioner, Scalar, SumZero, precondition
from confrere.maths.solver.row_blocks import Block, Floats, SolverRows, Sums, Work

#: Rows times columns squared up to which a Hessian costs about as much as a few calls.
_FEW = 2**20

#: Up to this ratio of largest curvature to ridge no curvature is measured: steps are one number.
_TAME = 5.0


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """A strongly convex sum over rows, for one or several penalties.

    Parameters
    ----------
    rows : SolverRows
        The data.
    labels : (n,) array
        What the loss compares each row's margin with; read in slices.
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
    labels: Any
    ridge: float
    linear: Floats
    centre: Floats
    scale: float = 1.0

    @abstractmethod
    def _gradient_work(self, W: Floats) -> Work:
        """Return what makes the gradient of the sum over rows, at every row of ``W``."""

    @abstractmethod
    def _hessian_work(self, w: Floats, v: Floats) -> Work:
        """Return what makes the product of the sum's Hessian at ``w`` with ``v``."""

    @abstractmethod
    def _slope_work(self, w: Floats, step: Floats) -> Work:
        """Return what makes the sum's derivative at ``w`` in the direction ``step``."""

    @abstractmethod
    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return an approximate inverse of the Hessian, averaged over the points in ``W``."""

    @property
    @abstractmethod
    def bend(self) -> float:
        """The largest curvature of a row's loss, for rows of length one."""

    def expansion(self) -> Callable[[Floats], tuple[Floats, Floats]] | None:
        """Return what makes gradient and Hessian of the only problem at a point.

        None unless rows are so few that a Hessian costs no more than calling for it.
        """
        return None

    @property
    @abstractmethod
    def n_classes(self) -> int | None:
        """How many weight vectors compete in the softmax; None if there is a single one."""

    @property
    def offset(self) -> float:
        """What is taken off every margin, whose rounding counts as that of a longer weight's."""
        return 0.0

    @property
    def m(self) -> int:
        """How many problems share the rows."""
        return len(self.linear)

    def gradient(self, W: Floats) -> Floats:
        """Return the gradient of every problem at its row of ``W``, in one pass over the data."""
        penalty = self.ridge * (W - self.centre) + self.linear
        (total,) = self.rows.sum(self.labels, self._gradient_work(W))
        return self.scale * total + penalty

    def hessian(self, w: Floats) -> Callable[[Floats], Floats]:
        """Return the Hessian at one point, as a map on vectors."""

        def product(v: Floats) -> Floats:
            (total,) = self.rows.sum(self.labels, self._hessian_work(w, v))
            return np.asarray(self.scale * total + self.ridge * v)

        return product

    def slope(self, w: Floats, step: Floats) -> Callable[[float], float]:
        """Return the derivative of the only problem along the line ``w + a step``."""
        constant = float(step @ (self.ridge * (w - self.centre[0]) + self.linear[0]))
        growth = self.ridge * float(step @ step)

        def at(a: float) -> float:
            (total,) = self.rows.sum(self.labels, self._slope_work(w + a * step, step))
            return self.scale * float(total) + constant + a * growth

        return at

    @property
    def most_curvature(self) -> float:
        """No eigenvalue of the sum's Hessian is larger: a public number, like the ridge."""
        return self.scale * self.rows.n * self.rows.row_norm**2 * self.bend

    @property
    def conditioning(self) -> float:
        """The ratio of largest curvature to ridge: public.

        The trace of the sum's Hessian is no larger either, so in no more directions than this does
        the rows' curvature outweigh the ridge.
        """
        return self.most_curvature / self.ridge

    def scalar_metric(self, worst: float = _TAME) -> Preconditioner | None:
        """Return the inverse of the Hessian's middle, if its condition number is small."""
        if self.conditioning > worst:
            return None
        return Scalar(self.ridge + self.most_curvature / 2)

    @property
    def hessian_passes(self) -> float:
        """What a Hessian of all rows costs, in gradients of one problem; measured."""
        return 2 + self.rows.d / 16

    def rounding(self, W: Floats) -> Floats:
        """Bound the floating-point error of :meth:`gradient` at every row of ``W``."""
        away = W - self.centre
        norms = np.sqrt([np.vecdot(A, A) for A in (W, away, self.linear)])
        bounds = [
            rounding_bound(
                self.rows.n,
                self.rows.d,
                row_norm=self.rows.row_norm,
                weight_norm=weight + self.offset,
                n_classes=self.n_classes,
            )
            * self.scale
            + penalty_rounding(self.ridge, offset, linear)
            for weight, offset, linear in norms.T.tolist()
        ]
        return np.array(bounds)

    @staticmethod
    def bound(G: Floats, roundings: Floats) -> Floats:
        """Bound the norms of the true gradients, given the computed ones ``G``."""
        norms = np.sqrt(np.vecdot(G, G))
        return np.asarray(norms * (1 + G.shape[1] * UNIT) + roundings)

    def certified(self, W: Floats, G: Floats, tolerance: float) -> NDArray[np.bool]:
        """Tell which problems' gradients are at most ``tolerance``, rounding included."""
        if np.all(np.vecdot(G, G) > tolerance**2):
            return np.zeros(len(G), dtype=np.bool)
        return self.bound(G, self.rounding(W)) <= tolerance

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
        chosen = self.rows.subsample(min(self.rows.d, self.conditioning))
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
    """``sum_i l(y_i w.x_i - m)`` with labels -1 and +1, and its penalty.

    ``cap`` bounds the slope, ``margin`` is ``m``: above zero the loss is a smooth hinge.
    """

    cap: float = 1.0
    margin: float = 0.0

    @property
    def n_classes(self) -> None:
        """None: one weight vector tells two classes apart."""
        return None

    @property
    def offset(self) -> float:
        """The margin, in units of the longest row."""
        return self.margin / self.rows.row_norm

    @property
    def bend(self) -> float:
        """The curvature of the logistic loss is at most a quarter."""
        return 0.25

    def _gradient_work(self, W: Floats) -> Work:
        cap, margin = self.cap, self.margin

        def work(block: Block, y: Any) -> Sums:
            t = block.times(W)
            t *= y
            if margin:
                t -= margin
            residual(t, cap, out=t)
            t *= -y
            return (block.pull(t),)

        return work

    def _hessian_work(self, w: Floats, v: Floats) -> Work:
        both, cap, margin = np.stack([w, v]), self.cap, self.margin

        def work(block: Block, y: Any) -> Sums:
            t, rate = block.times(both)
            return (block.pull((curvature(y * t - margin, cap) * rate)[None])[0],)

        return work

    def _slope_work(self, w: Floats, step: Floats) -> Work:
        both, cap, margin = np.stack([w, step]), self.cap, self.margin

        def work(block: Block, y: Any) -> Sums:
            t, rate = block.times(both) * y
            return (np.array(-(residual(t - margin, cap) @ rate)),)

        return work

    def expansion(self) -> Callable[[Floats], tuple[Floats, Floats]] | None:
        """Return what makes gradient and Hessian of the only problem, where rows are few."""
        if self.m > 1 or self.rows.n * self.rows.d**2 > _FEW or self.rows.data.sparse:
            return None
        blocks = self.rows.written(self.labels)
        cap, margin, d = self.cap, self.margin, self.rows.d

        def at(W: Floats) -> tuple[Floats, Floats]:
            pull, hessian = np.zeros(d), np.zeros((d, d))
            for rows in blocks:
                p = residual(rows @ W[0] - margin)
                bend = p * (1.0 - p)
                if cap < 1.0:
                    bend *= p <= cap
                    np.minimum(p, cap, out=p)
                pull += p @ rows
                scaled = rows * np.sqrt(bend)[:, None]
                hessian += scaled.T @ scaled
            hessian *= self.scale
            hessian.flat[:: d + 1] += self.ridge
            gradient = self.ridge * (W - self.centre) + self.linear - self.scale * pull
            return gradient, hessian

        return at

    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return the inverse of the Hessian, with curvatures averaged over the rows of ``W``."""
        W = W[:: -(-len(W) // 8)]  # a few points show the average
        cap, margin, scale = self.cap, self.margin, self.scale

        def weigh(block: Block, y: Any) -> Floats:
            bend = curvature(y * block.times(W) - margin, cap)
            return np.asarray(scale * bend.mean(axis=0, keepdims=True))

        return precondition(self.rows, self.labels, weigh, 1, self.ridge)


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

    @property
    def bend(self) -> float:
        """The largest eigenvalue of ``diag(p) - p p'`` is at most a half."""
        return 0.5

    def _gradient_work(self, W: Floats) -> Work:
        stacked, m, K = self._stacked(W), len(W), self.classes

        def work(block: Block, codes: Any) -> Sums:
            t = block.times(stacked).reshape(m, K, -1)
            pulls = block.pull(_residual(t, codes).reshape(m * K, -1))
            return (pulls.reshape(m, -1),)

        return work

    def _hessian_work(self, w: Floats, v: Floats) -> Work:
        at, along, K = self._stacked(w), self._stacked(v), self.classes

        def work(block: Block, _: Any) -> Sums:
            p = _softmax(block.times(at).reshape(1, K, -1))[0]
            tilt = p * block.times(along)
            tilt -= p * tilt.sum(axis=0)
            return (block.pull(tilt).ravel(),)

        return work

    def _slope_work(self, w: Floats, step: Floats) -> Work:
        at, along, K = self._stacked(w), self._stacked(step), self.classes

        def work(block: Block, codes: Any) -> Sums:
            errors = _residual(block.times(at).reshape(1, K, -1), codes)
            return (np.array(np.vdot(errors, block.times(along))),)

        return work

    def _stacked(self, W: Floats) -> Floats:
        """Return the weights of all classes of all problems, one vector per row."""
        return W.reshape(-1, self.rows.d)

    def scalar_metric(self, worst: float = _TAME) -> Preconditioner | None:
        """Return one number on weights that sum to zero over the classes, if that is enough."""
        within = super().scalar_metric(worst)
        return None if within is None else SumZero(within, self.classes, self.ridge)

    def preconditioner(self, W: Floats) -> Preconditioner:
        """Return the inverse of the Hessian's diagonal blocks, one per class.

        A record's curvature ``diag(p) - p p'`` acts on weights that sum to zero over the classes;
        for equal ``p`` its diagonal is ``(K-1)/K`` of it there, so that much is given back.
        """
        stacked, m, K, scale = self._stacked(W), len(W), self.classes, self.scale

        def weigh(block: Block, _: Any) -> Floats:
            p = _softmax(block.times(stacked).reshape(m, K, -1)).mean(axis=0)
            return np.asarray(scale * K / (K - 1) * p * (1.0 - p))

        within = precondition(self.rows, self.labels, weigh, K, self.ridge)
        return SumZero(within, K, self.ridge)


def _softmax(t: Floats) -> Floats:
    """Turn margins ``(m, K, rows)`` into probabilities of the classes, in place."""
    t -= t.max(axis=1, keepdims=True)
    np.exp(t, out=t)
    t /= t.sum(axis=1, keepdims=True)
    return t


def _residual(t: Floats, codes: Any) -> Floats:
    """Turn margins ``(m, K, rows)`` into probabilities minus indicators, in place."""
    p = _softmax(t)
    p[:, codes, np.arange(p.shape[2])] -= 1.0
    return p
