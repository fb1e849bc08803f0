"""Predict with a release: raw tables in, labels and probabilities out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from confrere.errors import InvalidData, InvalidRelease, SchemaError
from confrere.release import Release
from confrere.schema import PublicSchema
from confrere.study.study import Encoding


def predict(release: Release, table: pd.DataFrame) -> pd.DataFrame:
    """Return the predicted class of every row and the probability of each class.

    A release of a study carries its schema and encoding, and takes raw tables; any other takes
    the encoded columns by their names.
    """
    model = release.plain_model()
    rows = _rows(release, table)
    probabilities = model.predict_proba(rows)
    labels = np.asarray(model.classes)[probabilities.argmax(axis=1)]
    names = [f"probability of {name}" for name in model.classes]
    found = pd.DataFrame(probabilities, columns=names, index=table.index)
    found.insert(0, "predicted", labels)
    return found


def _rows(release: Release, table: pd.DataFrame) -> np.ndarray:
    facts = release.facts
    declared, encoding = facts.get("schema"), facts.get("encoding")
    if declared is not None and encoding is not None:
        try:
            schema = PublicSchema.from_dict(declared)
            encoder = Encoding(rows=encoding["rows"], weighted=encoding["weighted"])
        except (SchemaError, KeyError, TypeError) as error:
            raise InvalidRelease("the release's schema or encoding is not valid.") from error
        return np.asarray(encoder.encoder(schema).transform(table))
    features = list(facts["features"])
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
