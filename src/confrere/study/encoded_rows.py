"""Tables: a party's, read, bounded per unit and encoded; and raw ones to predict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.plans.base_plan import encode_labels
from confrere.release import Release
from confrere.schema import PublicSchema
from confrere.study.study_file import Study


@dataclass(frozen=True)
class Rows:
    """What a method learns from: bounded rows under public names, and labels."""

    X: pd.DataFrame
    y: NDArray[Any]

    def codes(self, study: Study) -> NDArray[np.float64]:
        """Return labels as parties hold them: -1 and +1, or codes of more than two classes."""
        codes = encode_labels(self.y, np.array(study.classes))
        if study.n_classes > 2:
            return codes.astype(np.float64)
        return np.where(codes == 1, 1.0, -1.0)


def read_table(path: Path, columns: set[str] | None = None) -> pd.DataFrame:
    """Read a CSV file; of its columns, only those that are needed.

    Raises
    ------
    InvalidData
        If it cannot be read; the message quotes nothing from it.
    """
    try:
        wanted = None if columns is None else (lambda name: name in columns)
        table = pd.read_csv(path, usecols=wanted)
    except OSError as error:
        raise InvalidData(f"data: {path.name} cannot be read ({error.strerror}).") from None
    except (ValueError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InvalidData(
            f"data: {path.name} is not a table of comma-separated values ({type(error).__name__})."
        ) from None
    if table.empty:
        raise InvalidData(f"data: {path.name} has no rows with the declared columns.")
    return table


def read_rows(study: Study, path: Path) -> Rows:
    """Return what a study learns from one party's table."""
    schema, unit = study.schema, study.promise.unit_column
    assert schema.outcome is not None
    columns = {*schema.columns, schema.outcome.column} | ({unit} if unit else set())
    table = bounded_per_unit(read_table(path, columns), unit, study.promise.max_rows_per_unit)
    return Rows(encoded(study, table), schema.label(table))


def encoded(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """Return bounded rows under the names of the encoded columns."""
    return named_rows(study.schema, study.encoder().transform(table))


def named_rows(schema: PublicSchema, rows: NDArray[Any]) -> pd.DataFrame:
    """Put the public names on encoded rows: a release carries them."""
    return pd.DataFrame(rows, columns=list(schema.feature_names))


def bounded_per_unit(table: pd.DataFrame, column: str | None, most: int) -> pd.DataFrame:
    """Keep the first ``most`` rows of every unit; without a column nothing can be bounded.

    Which rows of a unit stay depends on that unit's rows alone.
    """
    if column is None:
        return table
    if column not in table.columns:
        raise InvalidData(f"data: there is no column {column!r} (privacy.unit_column).")
    missing = int(table[column].isna().sum())
    if missing:
        raise InvalidData(f"column {column!r}: {missing} rows belong to nobody.")
    kept = table.groupby(column, sort=False).cumcount() < most
    return table[kept].reset_index(drop=True)


def predict(release: Release, table: pd.DataFrame) -> pd.DataFrame:
    """Return the predicted class of every row and the probability of each class.

    A release of a study carries its schema and encoding, and takes raw tables; any other takes
    the encoded columns by their names.
    """
    model = release.model
    rows = encoded_rows(release, table)
    scores = model.decision_function(rows)
    probabilities = model.probabilities(scores)
    labels = np.asarray(model.labels)[model.codes(scores)]
    names = [f"probability of {name}" for name in model.labels]
    found = pd.DataFrame(probabilities, columns=names, index=table.index)
    found.insert(0, "predicted", labels)
    return found


def encoded_rows(release: Release, table: pd.DataFrame) -> np.ndarray:
    """Return the rows that a release's model reads, from a raw table or from encoded columns."""
    if release.model.encoder is not None:
        return release.model.encoded(table)
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
