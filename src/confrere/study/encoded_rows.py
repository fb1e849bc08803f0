"""Tables: a party's, read, bounded per unit, encoded and looked at; and raw ones to predict."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import ConfrereError, InvalidData, StudyError
from confrere.files import write_whole
from confrere.methods.plan import encode_labels
from confrere.model import Model
from confrere.release import Release, read_folder
from confrere.rows.row_tables import Block, RowTable, declared_batches, gathered, read_table
from confrere.schema import DataReport, data_report
from confrere.schema.fact_counts import FactCounts
from confrere.study.study_file import Study, study_from_bytes


@dataclass(frozen=True)
class Rows:
    """What a method learns from: bounded rows, and labels.

    Rows that are many lie in a private file, which the system reads when they are touched. ``sums``
    are those of the raw rows, where the study learns facts of its schema first.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    sums: NDArray[np.int64] | None = None

    def codes(self, study: Study) -> NDArray[np.float64]:
        """Return labels as parties hold them: -1 and +1, or codes of more than two classes."""
        codes = encode_labels(self.y, np.array(study.classes))
        if study.n_classes > 2:
            return codes.astype(np.float64)
        return np.where(codes == 1, 1.0, -1.0)


def read_rows(study: Study, table: RowTable, *, counted: bool = False) -> Rows:
    """Return what a study learns from one party's table, read and encoded batch by batch.

    With ``counted``, also the sums from which facts of the schema are learned.
    """
    schema, unit = study.schema, study.promise.unit_column
    assert schema.outcome is not None
    columns = dict.fromkeys([*schema.columns, schema.outcome.column, *([unit] if unit else [])])
    encoder, seen = study.encoder(), UnitCounts(unit, study.promise.max_rows_per_unit)
    counts = FactCounts(schema) if counted else None
    sums = np.zeros(0 if counts is None else counts.size, dtype=np.int64)

    def blocks() -> Iterator[Block]:
        for batch in declared_batches(table, list(columns), schema):
            kept = seen.bounded(batch)
            if len(kept):
                if counts is not None:
                    sums[:] += counts.sums(kept)
                yield [encoder.transform(kept)], schema.label(kept)

    (rows,), labels = gathered(blocks(), table.rows)
    assert labels is not None
    return Rows(rows[:], labels, sums if counted else None)


def encoded(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """Return bounded rows under the names of the encoded columns."""
    encoder = study.encoder()
    return pd.DataFrame(encoder.transform(table), columns=list(encoder.names))


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


def predict(
    release: Release,  # One that carries its encoder takes raw tables
    table: pd.DataFrame,
    *,
    # Whether columns hold encoded numbers, under the names of the release's features: only such a
    # table is taken by a release without an encoder.
    encoded: bool = False,
    ids: str | None = None,  # A column that says whose row it is, and stays beside the prediction
) -> pd.DataFrame:
    """Return the predicted label of every row and the probability of each label.

    Raises InvalidData if the table is raw and the release cannot read it, or a row is longer than
    the bound that the model was learned with.
    """
    model = release.model
    rows = encoded_rows(release, table, encoded=encoded)
    scores = model.decision_function(rows)
    probabilities = model.probabilities(scores)
    labels = np.asarray(model.labels)[model.codes(scores)]
    names = [f"probability of {name}" for name in model.labels]
    found = pd.DataFrame(probabilities, columns=names, index=table.index)
    found.insert(0, "predicted", labels)
    if ids is not None:
        if list(table.columns).count(ids) != 1:
            raise InvalidData(f"data: there is no one column {ids!r} that says whose row it is.")
        found.insert(0, ids, table[ids])
    return found


def unit_column_of(folder: str | os.PathLike[str]) -> str | None:
    """Return the column that says whose row it is, by the study that lies in a release."""
    content = read_folder(folder).files.get("study.toml")
    if content is None:
        return None
    try:
        return study_from_bytes(content).promise.unit_column
    except ConfrereError:  # of another version: the model can be read all the same
        return None


def encoded_rows(release: Release, table: pd.DataFrame, *, encoded: bool = False) -> Any:
    """Return the rows that a release's model reads; ``encoded`` says that they were encoded."""
    model = release.model
    if model.encoder is not None and not encoded:
        return model.encoded(table)
    if not encoded:
        raise InvalidData(
            "the release carries no encoder, so it cannot read a raw table: ask for one of a model "
            "that was fitted with schema=, or encode the table as its maker did and say --encoded."
        )
    features = list(model.features)
    lacking = [name for name in features if name not in table.columns]
    if lacking:
        raise InvalidData(
            f"the table lacks {len(lacking)} of the release's columns, {lacking[0]!r} first; this "
            "release takes encoded rows."
        )
    try:
        rows = table[features].to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData("the release takes encoded rows: numbers only.") from None
    _refuse_long(model, rows)
    return rows


def _refuse_long(model: Model, rows: NDArray[np.float64]) -> None:
    """Refuse rows that cannot have been encoded for this model: its own were not longer."""
    bound = 1.0 if model.encoder is not None else model.facts.data_norm
    stack = model.facts.stack
    if stack is not None and stack.rows == "clip" and stack.clipping == "joint":
        bound = stack.norms[0]
    if bound is None:
        return
    scale = model.facts.feature_scale
    scaled = rows if scale is None else rows * np.array(scale)
    with np.errstate(over="ignore"):
        long = int(np.count_nonzero(~(np.linalg.norm(scaled, axis=1) <= bound * (1 + 1e-9))))
    if long:
        raise InvalidData(
            f"{long} rows are longer than the norm {bound:g} that the model was learned with: they "
            "are not encoded as its own were."
        )


#: Characters of a header line at most.
MAX_HEADER = 1_000_000


def check_table(
    study: Study,  # Declares columns, label and rows per unit
    table: Path | RowTable,  # The party's table
) -> DataReport:
    """Return how a party's table fits a study; for the party alone.

    Returns
    -------
    DataReport
        Counts without noise: they must not leave the organisation.
    """
    promise = study.promise
    return data_report(
        study.schema,
        read_table(table, schema=study.schema),
        unit_column=promise.unit_column,
        max_rows_per_unit=promise.max_rows_per_unit,
    )


def evaluation_rows(
    folder: Path,  # The release's
    release: Release,
    path: Path,  # The table
    *,
    label: str | None = None,  # The label's column, where the release carries no schema
    # Whose row it is, where there is no study in the folder; one row per unit then.
    unit_column: str | None = None,
) -> tuple[Any, Any]:
    """Return the rows and labels of a table on which a release is to be measured.

    Surplus rows of a unit are dropped, as the study in the release's folder says.
    """
    content = read_folder(folder).files.get("study.toml")
    most = 1
    if content is not None and unit_column is None:
        promise = study_from_bytes(content).promise
        unit_column, most = promise.unit_column, promise.max_rows_per_unit
    encoder = release.model.encoder
    schema = None if encoder is None else encoder.schema
    table = read_table(path, schema=schema, texts={unit_column or ""})
    table = UnitCounts(unit_column, most).bounded(table)
    if encoder is not None and encoder.schema.outcome is not None and label is None:
        return table, None
    if label is None or list(table.columns).count(label) != 1:
        raise InvalidData(
            "label: the release does not say in which column the labels are; name it: --label."
        )
    if encoder is not None:
        return table, table[label].to_numpy()
    return encoded_rows(release, table, encoded=True), table[label].to_numpy()


def header_of(path: Path) -> list[str]:
    """Return the names in the first line of a CSV file; no row is read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next(csv.reader([file.readline(MAX_HEADER)]), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidData(f"data: {path.name} cannot be read ({type(error).__name__}).") from None
    names = [name.strip() for name in names]
    if not names or "" in names or len(set(names)) < len(names):
        raise InvalidData(f"data: the first line of {path.name} must have different names.")
    return names


def save_report(report: DataReport, path: Path, *, title: str = "") -> Path:
    """Write a report that its owner alone can read; replaces what is there."""
    text = f"{title}\n{report}" if title else str(report)
    try:
        write_whole(path, text.encode())  # a new file: what is there may be open to others
    except OSError as error:
        raise StudyError(
            f"report: {path.name} cannot be written ({error.strerror}); give --report."
        ) from None
    return path
