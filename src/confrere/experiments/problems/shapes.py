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
class Split:
    """What is learned from, and what is scored."""

    train: Rows
    test: Rows


@dataclass(frozen=True)
class OneParty(Split):
    """One organisation.

    Attributes
    ----------
    deviations : array
        Standard deviation of every column: public where the projection is, else the data's own.
    """

    deviations: Floats

    @property
    def rms_norm(self) -> float:
        """Root-mean-square norm of a row, as the deviations imply it."""
        return float(np.linalg.norm(self.deviations))


@dataclass(frozen=True)
class SourceAndTargets:
    """A main organisation and its branches, in the same columns.

    Attributes
    ----------
    source : Rows
        What the main organisation learns from.
    targets : tuple of Split
        The branches.
    importance : array
        Importance of every column: declared, or the deviations' squares.
    norm : float
        Public norm at which rows are clipped.
    base_log_odds : float
        Of the declared base rate; 0 if none is declared.
    expert : array or None
        Unit vector along which rows follow what experts expect without any data.
    """

    source: Rows
    targets: tuple[Split, ...]
    importance: Floats
    norm: float
    base_log_odds: float = 0.0
    expert: Floats | None = None


@dataclass(frozen=True)
class ManyParties(Split):
    """Rows of several parties, and what is scored.

    Attributes
    ----------
    party : array of int
        Whose row of ``train`` it is.
    auxiliary : array or None
        Public rows without labels.
    """

    party: Labels
    auxiliary: Floats | None = None
