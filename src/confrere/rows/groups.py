"""Rows of feature groups, bounded by public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from confrere.maths.partition import Clipping, Groups
from confrere.rows.ball import into_ball
from confrere.rows.body import Body, BodyFrame

RowRule = Literal["clip", "unit"]


@dataclass(frozen=True)
class GroupRows:
    """The public map from a row to the bounded rows of its groups.

    Parameters
    ----------
    groups : tuple of int arrays
        Columns of every group in use.
    norms : tuple of float
        Declared bound of every group (separate clipping) or of the whole row, repeated (joint).
    rule : {"clip", "unit"}
        Shorten rows that are too long, or give every row length one.
    clipping : {"separate", "joint"}
        Whether the bound is a group's own or the whole row's.
    constant : float
        The public constant appended to every group inside the bound.
    """

    groups: Groups
    norms: tuple[float, ...]
    rule: RowRule
    clipping: Clipping
    constant: float

    #: Noise is that of a ball.
    bodies: ClassVar[tuple[Body, ...]] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of weights of every group."""
        return tuple(len(group) + 1 for group in self.groups)

    def __call__(self, X: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return one ``(n, d_k + 1)`` array per group, whatever the rows hold."""
        unit = self.rule == "unit"
        if self.clipping == "separate":
            return [
                np.asarray(into_ball(X[:, group], norm, constant=self.constant, unit=unit))
                for group, norm in zip(self.groups, self.norms, strict=True)
            ]
        count, width = len(self.groups), X.shape[1]
        whole = np.asarray(
            into_ball(X, self.norms[0], constant=self.constant, columns=count, unit=unit)
        )
        return [whole[:, np.append(group, width + k)] for k, group in enumerate(self.groups)]

    def parts(self, X: NDArray[np.float64]) -> Sequence[NDArray[np.float64]]:
        """Return the columns of every group, of length one if the rule says so."""
        if self.rule == "clip":
            return [X[:, group] for group in self.groups]
        if self.clipping == "joint":
            whole = np.asarray(into_ball(X, unit=True))
            return [whole[:, group] for group in self.groups]
        return [np.asarray(into_ball(X[:, group], unit=True)) for group in self.groups]

    def coefficients(
        self, weights: NDArray[np.float64], k: int
    ) -> tuple[NDArray[np.float64], float]:
        """Return group ``k``'s weights and intercept on its :meth:`parts`."""
        norm = self.norms[k] if self.rule == "clip" else 1.0
        shrink = math.sqrt(1 - self.constant**2)
        return weights[:-1] * shrink / norm, float(weights[-1] * self._constant)

    def weights(self, coef: NDArray[np.float64], intercept: float, k: int) -> NDArray[np.float64]:
        """Invert :meth:`coefficients`."""
        norm = self.norms[k] if self.rule == "clip" else 1.0
        shrink = math.sqrt(1 - self.constant**2)
        return np.append(coef * norm / shrink, intercept / self._constant)

    def baseline(self, intercept: float, k: int) -> NDArray[np.float64]:
        """Return the weights of group ``k`` that score every row ``intercept``."""
        return self.weights(np.zeros(len(self.groups[k])), intercept, k)

    @property
    def _constant(self) -> float:
        """The constant of one group; under joint clipping the groups share its square."""
        joint = self.clipping == "joint"
        return self.constant / math.sqrt(len(self.groups)) if joint else self.constant


@dataclass(frozen=True, eq=False)
class GroupBodies:
    """The same map where noise is shaped like the rows: every group has a body of its own.

    Parameters
    ----------
    groups : tuple of int arrays
        Columns of every group in use, as encoded.
    frames : tuple of BodyFrame
        Of every group's columns and a constant.
    """

    groups: Groups
    frames: tuple[BodyFrame, ...]

    #: A row's part lies in its group's body, whatever its other parts are.
    rule: ClassVar[RowRule] = "clip"
    clipping: ClassVar[Clipping] = "separate"
    #: For those who start from such groups in a ball.
    constant: ClassVar[float] = 0.4

    @property
    def norms(self) -> tuple[float, ...]:
        """Encoded rows are no longer than one."""
        return (1.0,) * len(self.groups)

    @property
    def bodies(self) -> tuple[Body, ...]:
        """What noise is shaped like."""
        return tuple(frame.body for frame in self.frames)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of weights of every group."""
        return tuple(frame.size for frame in self.frames)

    def __call__(self, X: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return every group's rows in its body's coordinates, whatever the rows hold."""
        return [frame.rows(X[:, group]) for group, frame in self._pairs()]

    def parts(self, X: NDArray[np.float64]) -> Sequence[NDArray[np.float64]]:
        """Return the columns of every group."""
        return [X[:, group] for group in self.groups]

    def coefficients(
        self, weights: NDArray[np.float64], k: int
    ) -> tuple[NDArray[np.float64], float]:
        """Return group ``k``'s weights and intercept on its :meth:`parts`."""
        return self.frames[k].coefficients(weights)

    def weights(self, coef: NDArray[np.float64], intercept: float, k: int) -> NDArray[np.float64]:
        """Invert :meth:`coefficients`."""
        return self.frames[k].weights(coef, intercept)

    def baseline(self, intercept: float, k: int) -> NDArray[np.float64]:
        """Return the weights of group ``k`` that score every row ``intercept``."""
        return self.frames[k].weights(None, intercept)

    def _pairs(self) -> list[tuple[NDArray[np.intp], BodyFrame]]:
        return list(zip(self.groups, self.frames, strict=True))
