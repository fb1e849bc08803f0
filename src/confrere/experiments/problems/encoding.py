"""Tables to rows: by declared facts, or by the data's own range as the papers do."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from confrere.experiments.problems.shapes import Floats
from confrere.schema import PublicSchema
from confrere.schema.encoder import standardised_columns


def encoded_rows(frame: pd.DataFrame, schema: PublicSchema, encoding: str) -> tuple[Floats, float]:
    """Return rows and a bound on their norm.

    ``encoding`` is "public" (declared means and deviations), "weighted" (those times importances),
    "range" (each of those columns to [0, 1] by its own range: a leak) or "codes" (levels as whole
    numbers in alphabetical order, then the same). Only the last has no columns that add up to a
    constant, without which an unregularised model with an intercept has no minimiser.
    """
    if encoding in ("range", "codes"):
        columns = (
            _codes(frame, schema) if encoding == "codes" else standardised_columns(schema, frame)
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
