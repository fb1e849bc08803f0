"""Tables: a party's, read, bounded per unit and encoded; and raw ones to predict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData
from confrere.plans.base_plan import encode_labels
from confrere.release import Release
from confrere.rows.decoding import gathered
from confrere.rows.row_tables import RowTable, open_table
from confrere.schema import PublicSchema
from confrere.study.study_file import Study


@dataclass(frozen=True)
class Rows:
    """What a method learns from: bounded rows, and labels.

    Rows that are many lie in a private file, which the system reads when they are touched.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]

    def codes(self, study: Study) -> NDArray[np.float64]:
        """Return labels as parties hold them: -1 and +1, or codes of more than two classes."""
        codes = encode_labels(self.y, np.array(study.classes))
        if study.n_classes > 2:
            return codes.astype(np.float64)
        return np.where(codes == 1, 1.0, -1.0)


def read_table(path: Path, columns: set[str] | None = None) -> pd.DataFrame:
    """Read a table whole, a CSV file or Parquet; of its columns, only those that are needed.

    Raises
    ------
    InvalidData
        If it cannot be read; the message quotes nothing from it.
    """
    if path.is_dir() or path.suffix in (".parquet", ".pq"):
        wide = pd.concat(open_table(path).read(), ignore_index=True)
        return wide if columns is None else wide.filter(sorted(columns))
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


def read_rows(study: Study, table: RowTable) -> Rows:
    """Return what a study learns from one party's table, read and encoded batch by batch."""
    schema, unit = study.schema, study.promise.unit_column
    assert schema.outcome is not None
    columns = dict.fromkeys([*schema.columns, schema.outcome.column, *([unit] if unit else [])])
    encoder, seen = study.encoder(), UnitCounts(unit, study.promise.max_rows_per_unit)

    def blocks() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        for batch in table.read(list(columns)):
            kept = seen.bounded(batch)
            if len(kept):
                yield np.asarray(encoder.transform(kept), dtype=np.float64), schema.label(kept)

    rows, labels = gathered(blocks(), len(schema.feature_names), table.rows)
    assert labels is not None
    return Rows(rows.read(slice(0, len(rows))), labels)


def encoded(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """Return bounded rows under the names of the encoded columns."""
    return named_rows(study.schema, study.encoder().transform(table))


def named_rows(schema: PublicSchema, rows: NDArray[Any]) -> pd.DataFrame:
    """Put the public names on encoded rows: a release carries them."""
    return pd.DataFrame(rows, columns=list(schema.feature_names))


class UnitCounts:
    """How many rows of every unit were seen; without a column nothing can be bounded.

    Parameters
    ----------
    column : str or None
        Says whose row it is.
    most : int
        Of every unit's rows the first that many are kept: which ones depends on them alone.
    """

    def __init__(self, column: str | None, most: int) -> None:
        self.column, self.most = column, most
        self._seen = pd.Series(dtype=np.int64)

    def bounded(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the next batch that are kept."""
        if self.column is None:
            return table
        if self.column not in table.columns:
            raise InvalidData(f"data: there is no column {self.column!r} (privacy.unit_column).")
        units = table[self.column]
        missing = int(units.isna().sum())
        if missing:
            raise InvalidData(f"column {self.column!r}: {missing} rows belong to nobody.")
        # A batch of text may read as numbers what another one reads as text.
        units = units.astype(str).str.removesuffix(".0")
        before = units.map(self._seen).fillna(0).astype(np.int64)
        kept = before + table.groupby(units, sort=False).cumcount() < self.most
        self._seen = self._seen.add(units.value_counts(), fill_value=0).astype(np.int64)
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
