r"""Losses: what a record's gradient can be, and how far it can bend the objective.

A record's gradient is :math:`g \otimes x`: the residual vector :math:`g` of its loss times the row.
With labels -1 and +1 and the margin :math:`t = y\,w\cdot x` the logistic loss is
:math:`\ell(t) = \log(1 + e^{-t})`, its residual :math:`p = -\ell'(t) = \sigma(-t)` and its
curvature :math:`\ell''(t) = p(1 - p) \le 1/4`. A cap :math:`\kappa < 1` bounds the residual by
:math:`\min(p, \kappa)`: below :math:`t_0 = \log((1 - \kappa)/\kappa)` the loss goes on linearly. It
stays convex and once differentiable; the curvature is 0 there.

Of K classes the loss is :math:`\log\sum_k e^{W_k \cdot x} - W_c \cdot x`, its residual vector
:math:`\pi - e_c` and its curvature :math:`\mathrm{diag}(\pi) - \pi\pi^\top`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from typing_extensions import override

from confrere.arrays import Floats
from confrere.errors import InvalidData, InvalidParameter

Labels = NDArray[np.float64] | NDArray[np.intp]


class Loss(ABC):
    """A convex loss of a row's scores, with what the accountants need of it."""

    n_classes: int  #: How many classes it tells apart
    slope: float  #: The longest residual vector, in L2
    n_scores: int  #: How many weight vectors there are: one tells two classes apart

    @abstractmethod
    def check_labels(self, labels: Labels) -> None:
        """Refuse labels of other classes."""

    @abstractmethod
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        """Turn scores ``(m, n_scores, n)`` into residual vectors, in place."""

    def errors(self, scores: Floats, labels: Labels) -> Floats:
        """Return every record's residual vector, ``(n, n_scores)``: the slope in its scores."""
        turned = np.array(scores.T[None], dtype=np.float64, order="C")
        return np.asarray(self.residuals(turned, labels)[0].T)

    @abstractmethod
    def bends(self, scores: Floats, labels: Labels) -> Floats:
        """Return every record's curvature, ``(n, n_scores, n_scores)``."""


@dataclass(frozen=True)
class Logistic(Loss):
    """Of two classes, with labels -1 and +1."""

    cap: float = 1.0  #: Largest slope, from one half on; 1 is the logistic loss
    n_classes, n_scores = 2, 1

    def __post_init__(self) -> None:
        # Below one half a misfit has curvature where its slope is capped already.
        if not 0.5 <= self.cap <= 1:
            raise InvalidParameter("cap must lie between 0.5 and 1.")
        object.__setattr__(self, "slope", float(self.cap))

    @override
    def check_labels(self, labels: Labels) -> None:
        if not np.all((labels == 1.0) | (labels == -1.0)):
            raise InvalidData("y must be one label, -1 or +1, per row of X.")

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        scores *= labels
        expit(np.negative(scores, out=scores), out=scores)
        if self.cap < 1:
            np.minimum(scores, self.cap, out=scores)
        scores *= -labels
        return scores

    @override
    def bends(self, scores: Floats, labels: Labels) -> Floats:
        signs = np.asarray(labels, dtype=np.float64)[:, None]
        p, rare = expit(-signs * scores), expit(-np.abs(scores))
        # The smaller of p and 1 - p has full relative accuracy; at the cap the curved side counts.
        return np.asarray(np.where(p <= self.cap, rare * (1 - rare), 0.0))[:, :, None]


@dataclass(frozen=True)
class Softmax(Loss):
    """Of K classes, with codes from 0 on."""

    n_classes: int  #: ``K``, at least three: two have the logistic loss
    #: ``||pi - e_c||`` is at most the root of two.
    slope = math.sqrt(2)

    def __post_init__(self) -> None:
        if self.n_classes < 3:
            raise InvalidParameter("classes must name at least two labels.")
        object.__setattr__(self, "n_scores", self.n_classes)

    @override
    def check_labels(self, labels: Labels) -> None:
        if not np.all((labels >= 0) & (labels < self.n_classes) & (labels == np.floor(labels))):
            raise InvalidData("codes must be one integer from 0 to n_classes - 1 per row of X.")

    @override
    def residuals(self, scores: Floats, labels: Labels) -> Floats:
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[:, np.asarray(labels, dtype=np.intp), np.arange(scores.shape[2])] -= 1.0
        return scores

    @override
    def bends(self, scores: Floats, labels: Labels) -> Floats:
        shares = softmax(scores, axis=1)
        diagonals = np.einsum("nk,kl->nkl", shares, np.eye(self.n_classes))
        return np.asarray(diagonals - shares[:, :, None] * shares[:, None, :])


def loss_of(n_classes: int, cap: float = 1.0) -> Loss:
    """Return the loss of so many classes; more than two have no cap."""
    return Logistic(cap) if n_classes == 2 else Softmax(n_classes)
