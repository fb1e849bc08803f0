"""Tables with a public schema: the published values, and the label it declares."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from confrere.schema.loaders.dataset import LabelledRows, Table
from confrere.schema.schema import PublicSchema


def labelled_rows(
    content: bytes, schema: PublicSchema, *, separator: str = ","
) -> LabelledRows[Table]:
    """Read a CSV file: texts as categories, numbers as they are; 1 is the positive label."""
    # The files have no missing values: an answer that reads "None" or "NA" is an answer.
    frame = pd.read_csv(io.BytesIO(content), sep=separator, keep_default_na=False)
    y = (schema.label(frame) > 0).astype(np.int64)
    if schema.outcome is not None:
        frame = frame.drop(columns=schema.outcome.column)
    texts = frame.select_dtypes(exclude="number").columns
    return LabelledRows(frame.astype(dict.fromkeys(texts, "category")), y)
