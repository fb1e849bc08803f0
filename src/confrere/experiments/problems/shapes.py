"""The shapes that problems come in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Encoded rows with labels 0 and 1 (or class codes)."""

    X: Floats
    y: Labels

    def __len__(self) -> int:
        return len(self.y)

    @property
    def signs(self) -> Floats:
        """Labels -1 and +1."""
        return np.where(self.y == 1, 1.0, -1.0)


@dataclass(frozen=True)
class OneParty:
    """One organisation.

    Attributes
    ----------
    train, test : Rows
        What is learned from, and what is scored.
    deviations : array
        Standard deviation of every column: public where the projection is, else the data's own.
    """

    train: Rows
    test: Rows
    deviations: Floats

    @property
    def rms_norm(self) -> float:
        """Root-mean-square norm of a row, as the deviations imply it."""
        return float(np.linalg.norm(self.deviations))


@dataclass(frozen=True)
class SourceAndTarget:
    """A source's rows and a target's, in the same columns."""

    source: Rows
    target: OneParty
