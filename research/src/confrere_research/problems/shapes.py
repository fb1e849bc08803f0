"""The shapes that problems come in, and how tables become rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.schema import PublicSchema

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
    expert_prior : array or None
        The same as log odds per unit of each column, for rows of length one.
    """

    source: Rows
    targets: tuple[Split, ...]
    importance: Floats
    norm: float
    base_log_odds: float = 0.0
    expert: Floats | None = None
    expert_prior: Floats | None = None


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


def encoded_rows(frame: pd.DataFrame, schema: PublicSchema, encoding: str) -> tuple[Floats, float]:
    """Return rows and a bound on their norm.

    ``encoding`` is "public" (declared means and deviations), "weighted" (those times importances),
    "range" (each of those columns to [0, 1] by its own range: a leak) or "codes" (levels as whole
    numbers in alphabetical order, then the same). Only the last has no columns that add up to a
    constant, without which an unregularised model with an intercept has no minimiser.
    """
    if encoding in ("range", "codes"):
        columns = (
            _codes(frame, schema)
            if encoding == "codes"
            else schema.encoder().standardised(frame).toarray().T
        )
        low = columns.min(axis=1, keepdims=True)
        span = np.maximum(columns.max(axis=1, keepdims=True) - low, 1e-12)
        return np.ascontiguousarray(((columns - low) / span).T), math.sqrt(len(columns))
    return schema.encoder(weighted=encoding == "weighted").transform(frame), 1.0


def _codes(frame: pd.DataFrame, schema: PublicSchema) -> Floats:
    """Return one row per declared column: numbers as they are, levels by their place."""
    columns = (frame[name] for name in schema.columns)
    return np.stack(
        [
            np.asarray(column, dtype=np.float64)
            if pd.api.types.is_numeric_dtype(column)
            else pd.factorize(column, sort=True)[0].astype(np.float64)
            for column in columns
        ]
    )
