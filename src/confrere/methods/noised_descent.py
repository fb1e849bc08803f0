"""Descent on noised gradients: post-processing of sums that were released."""

from __future__ import annotations

import numpy as np

from confrere.arrays import Floats
from confrere.mechanisms.output_step import from_coordinates

#: Descent with momentum on curvature that is known in public.
_STEP, _MOMENTUM = 0.3, 0.8


class Descent:
    """Descent with momentum on noised gradients; post-processing of what was released.

    Parameters
    ----------
    centre : array
        Start, and what the ridge pulls towards.
    ridge : array
        Of all records together.
    metric : array
        Public curvature of every coordinate, ridge included.
    n_classes : int, default=2
        Of more than two, gradients are in coordinates where columns sum to zero.
    """

    def __init__(self, centre: Floats, ridge: Floats, metric: Floats, n_classes: int = 2) -> None:
        self.weights = centre.copy()
        self._n_classes = n_classes
        self._centre, self._ridge, self._metric = centre, ridge, metric
        self._velocity = np.zeros_like(centre)
        self._sum, self._steps = np.zeros_like(centre), 0

    def take(self, gradient: Floats) -> None:
        """Take a step by the noised gradient of the loss at the present weights."""
        pull = as_weights(gradient, self._n_classes)
        pulled = pull + self._ridge * (self.weights - self._centre)
        self._velocity = _MOMENTUM * self._velocity + pulled / self._metric
        self.weights = self.weights - _STEP * self._velocity
        self._steps += 1
        self._sum += self._steps * self.weights

    @property
    def average(self) -> Floats:
        """Weights of all steps, later ones counting more."""
        return np.asarray(self._sum / (self._steps * (self._steps + 1) / 2))


def as_weights(released: Floats, n_classes: int) -> Floats:
    """Return what a sum told as weights: a matrix, of more than two classes."""
    return np.asarray(from_coordinates(released[None], n_classes)[0])
