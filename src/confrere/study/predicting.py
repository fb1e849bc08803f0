"""Predict with a release: raw tables in, labels and probabilities out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from confrere.errors import InvalidData
from confrere.release import Release


def predict(release: Release, table: pd.DataFrame) -> pd.DataFrame:
    """Return the predicted class of every row and the probability of each class.

    A release of a study carries its schema and encoding, and takes raw tables; any other takes
    the encoded columns by their names.
    """
    model = release.model
    rows = _rows(release, table)
    probabilities = model.predict_proba(rows)
    labels = np.asarray(model.classes)[probabilities.argmax(axis=1)]
    names = [f"probability of {name}" for name in model.classes]
    found = pd.DataFrame(probabilities, columns=names, index=table.index)
    found.insert(0, "predicted", labels)
    return found


def _rows(release: Release, table: pd.DataFrame) -> np.ndarray:
    encoder = release.model.encoder
    if encoder is not None and encoder.rows is not None and encoder.weighted is not None:
        transformer = encoder.schema.encoder(rows=encoder.rows, weighted=encoder.weighted)
        return np.asarray(transformer.transform(table))
    features = list(release.model.features)
    lacking = [name for name in features if name not in table.columns]
    if lacking:
        raise InvalidData(
            f"the table lacks {len(lacking)} of the release's columns, {lacking[0]!r} first; this "
            "release takes encoded rows."
        )
    try:
        return table[features].to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData("the release takes encoded rows: numbers only.") from None
