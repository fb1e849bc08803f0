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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax

from confrere.arrays import Floats
from confrere.errors import InvalidParameter


class Loss(ABC):
    """A convex loss of a row's scores, with what the accountants need of it.

    Attributes
    ----------
    n_classes : int
        How many classes it tells apart.
    slope : float
        The longest residual vector, in L2.
    """

    n_classes: int

    @property
    @abstractmethod
    def slope(self) -> float:
        """The longest residual vector, in L2."""

    @property
    def n_scores(self) -> int:
        """How many weight vectors there are: one tells two classes apart."""
        return 1 if self.n_classes == 2 else self.n_classes

    def shape(self, n_features: int) -> tuple[int, ...]:
        """Return the shape of the weights of so many columns."""
        return (n_features,) if self.n_scores == 1 else (self.n_scores, n_features)

    @abstractmethod
    def errors(self, scores: Floats, labels: Any) -> Floats:
        """Return every record's residual vector, ``(n, n_scores)``: the slope in its scores."""

    @abstractmethod
    def bends(self, scores: Floats, labels: Any) -> Floats:
        """Return every record's curvature, ``(n, n_scores, n_scores)``."""


@dataclass(frozen=True)
class Logistic(Loss):
    """Of two classes, with labels -1 and +1.

    Parameters
    ----------
    cap : float, default=1.0
        Largest slope, from one half on; 1 is the logistic loss.
    """

    cap: float = 1.0
    n_classes = 2

    def __post_init__(self) -> None:
        # Below one half a misfit has curvature where its slope is capped already.
        if not 0.5 <= self.cap <= 1:
            raise InvalidParameter("cap must lie between 0.5 and 1.")

    @property
    def slope(self) -> float:
        """The cap."""
        return self.cap

    def errors(self, scores: Floats, labels: Any) -> Floats:
        """Return minus the label times the residual."""
        signs = np.asarray(labels, dtype=np.float64)[:, None]
        return np.asarray(-signs * residual(signs * scores, self.cap))

    def bends(self, scores: Floats, labels: Any) -> Floats:
        """Return the curvature of every margin."""
        signs = np.asarray(labels, dtype=np.float64)[:, None]
        return curvature(signs * scores, self.cap)[:, :, None]


@dataclass(frozen=True)
class Softmax(Loss):
    """Of K classes, with codes from 0 on.

    Parameters
    ----------
    n_classes : int
        ``K``, at least three: two have the logistic loss.
    """

    n_classes: int

    def __post_init__(self) -> None:
        if self.n_classes < 3:
            raise InvalidParameter("classes must name at least two labels.")

    @property
    def slope(self) -> float:
        """``||pi - e_c||`` is at most the root of two."""
        return math.sqrt(2)

    def errors(self, scores: Floats, labels: Any) -> Floats:
        """Return ``pi - e_c``."""
        found = softmax(scores, axis=1)
        found[np.arange(len(found)), np.asarray(labels, dtype=np.intp)] -= 1
        return np.asarray(found)

    def bends(self, scores: Floats, labels: Any) -> Floats:  # noqa: ARG002
        """Return ``diag(pi) - pi pi'``."""
        shares = softmax(scores, axis=1)
        diagonals = np.einsum("nk,kl->nkl", shares, np.eye(self.n_classes))
        return np.asarray(diagonals - shares[:, :, None] * shares[:, None, :])


def loss_of(n_classes: int, cap: float = 1.0) -> Loss:
    """Return the loss of so many classes; more than two have no cap."""
    return Logistic(cap) if n_classes == 2 else Softmax(n_classes)


def sigmoid(t: ArrayLike) -> Floats:
    """Return ``1 / (1 + exp(-t))``, without overflow."""
    return np.asarray(expit(np.asarray(t, dtype=np.float64)), dtype=np.float64)


def residual(t: ArrayLike, cap: float = 1.0, *, out: Floats | None = None) -> Floats:
    """Return minus the slope of the logistic loss, ``min(sigmoid(-t), cap)``.

    ``out`` may be ``t`` itself: solvers call this on every block of rows.
    """
    p = np.negative(np.asarray(t, dtype=np.float64), out=out)
    p = np.asarray(expit(p, out=out), dtype=np.float64)
    return p if cap == 1.0 else np.minimum(p, cap, out=out)


def curvature(t: ArrayLike, cap: float = 1.0) -> Floats:
    """Return the second derivative of the logistic loss; 0 where the cap holds.

    Where it begins to hold, that of the curved side: with all margins zero, as solvers begin, and a
    cap of one half, the other one would say nothing.
    """
    t = np.asarray(t, dtype=np.float64)
    rare = sigmoid(-np.abs(t))  # the smaller of p and 1 - p, to full relative accuracy
    bend = rare * (1.0 - rare)
    return bend if cap == 1.0 else np.where(sigmoid(-t) <= cap, bend, 0.0)
