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

from confrere.arrays import Floats
from confrere.errors import InvalidParameter

Labels = NDArray[np.float64] | NDArray[np.intp]


class Loss(ABC):
    """A convex loss of a row's scores, with what the accountants need of it.

    Attributes
    ----------
    n_classes : int
        How many classes it tells apart.
    slope : float
        The longest residual vector, in L2.
    n_scores : int
        How many weight vectors there are: one tells two classes apart.
    """

    n_classes: int
    slope: float
    n_scores: int

    @abstractmethod
    def errors(self, scores: Floats, labels: Labels) -> Floats:
        """Return every record's residual vector, ``(n, n_scores)``: the slope in its scores."""

    @abstractmethod
    def bends(self, scores: Floats, labels: Labels) -> Floats:
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
    n_classes, n_scores = 2, 1

    def __post_init__(self) -> None:
        # Below one half a misfit has curvature where its slope is capped already.
        if not 0.5 <= self.cap <= 1:
            raise InvalidParameter("cap must lie between 0.5 and 1.")
        object.__setattr__(self, "slope", float(self.cap))

    def errors(self, scores: Floats, labels: Labels) -> Floats:
        """Return minus the label times the residual."""
        signs = np.asarray(labels, dtype=np.float64)[:, None]
        return np.asarray(-signs * np.minimum(expit(-signs * scores), self.cap))

    def bends(self, scores: Floats, labels: Labels) -> Floats:
        """Return the curvature of every margin."""
        signs = np.asarray(labels, dtype=np.float64)[:, None]
        p, rare = expit(-signs * scores), expit(-np.abs(scores))
        # The smaller of p and 1 - p has full relative accuracy; at the cap the curved side counts.
        return np.asarray(np.where(p <= self.cap, rare * (1 - rare), 0.0))[:, :, None]


@dataclass(frozen=True)
class Softmax(Loss):
    """Of K classes, with codes from 0 on.

    Parameters
    ----------
    n_classes : int
        ``K``, at least three: two have the logistic loss.
    """

    n_classes: int
    #: ``||pi - e_c||`` is at most the root of two.
    slope = math.sqrt(2)

    def __post_init__(self) -> None:
        if self.n_classes < 3:
            raise InvalidParameter("classes must name at least two labels.")
        object.__setattr__(self, "n_scores", self.n_classes)

    def errors(self, scores: Floats, labels: Labels) -> Floats:
        """Return ``pi - e_c``."""
        found = softmax(scores, axis=1)
        found[np.arange(len(found)), np.asarray(labels, dtype=np.intp)] -= 1
        return np.asarray(found)

    def bends(self, scores: Floats, labels: Labels) -> Floats:  # noqa: ARG002
        """Return ``diag(pi) - pi pi'``."""
        shares = softmax(scores, axis=1)
        diagonals = np.einsum("nk,kl->nkl", shares, np.eye(self.n_classes))
        return np.asarray(diagonals - shares[:, :, None] * shares[:, None, :])


def loss_of(n_classes: int, cap: float = 1.0) -> Loss:
    """Return the loss of so many classes; more than two have no cap."""
    return Logistic(cap) if n_classes == 2 else Softmax(n_classes)
