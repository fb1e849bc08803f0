"""Tables: a party's, read, bounded per unit, encoded and looked at; and raw ones to predict."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from confrere.data import DataReport, data_report
from confrere.data.cells import (
    Container,
    UnitCounts,
    as_cells,
    column_names,
    plain_labels,
    read_numbers,
)
from confrere.data.codes import Coded, PackedCodes
from confrere.data.fact_counts import FactCounts
from confrere.data.tables import Batch, RowTable, gathered_codes, open_table
from confrere.errors import ConfrereError, InvalidData, StudyError
from confrere.files import write_whole
from confrere.methods.plan import encode_labels
from confrere.model import Model
from confrere.release import Release, read_folder
from confrere.study.study_file import Study, study_from_bytes


@dataclass(frozen=True)
class Rows:
    """What a method learns from: bounded rows, and labels.

    Codes that are many lie in a private file, which the system reads when they are touched.
    ``sums`` are those of the raw rows, where the study learns facts of its schema first.
    """

    X: Coded
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

    def blocks() -> Iterator[tuple[list[PackedCodes], NDArray[Any]]]:
        for batch in table.read(list(columns)):
            kept = seen.bounded(batch)
            if len(kept):
                if counts is not None:
                    sums[:] += counts.sums(kept)
                yield encoder.codes(kept), schema.label(kept)

    codes, labels = gathered_codes(blocks(), table.rows)
    assert labels is not None
    return Rows(encoder.encoding().coded(codes), labels, sums if counted else None)


def predict(
    release: Release,  # One that carries its encoder takes raw tables
    table: Container,
    *,
    # Whether columns hold encoded numbers, under the names of the release's features: only such a
    # table is taken by a release without an encoder.
    encoded: bool = False,
    ids: str | None = None,  # A column that says whose row it is, and stays beside the prediction
) -> Batch:
    """Return a table of the predicted label of every row and the probability of each label.

    Raises InvalidData if the table is raw and the release cannot read it, or a row is longer than
    the bound that the model was learned with.
    """
    model = release.model
    scores = model.decision_function(encoded_rows(release, table, encoded=encoded))
    labels = pa.array([str(one) if isinstance(one, bool) else one for one in model.labels])
    found = {"predicted": labels.take(pa.array(model.codes(scores)))}
    for name, probability in zip(model.labels, model.probabilities(scores).T, strict=True):
        found[f"probability of {name}"] = pa.array(probability)
    if ids is None:
        return pa.table(found)
    if column_names(table).count(ids) != 1:
        raise InvalidData(f"data: there is no one column {ids!r} that says whose row it is.")
    return pa.table({ids: as_cells(table[ids], ids), **found})


def predictions(
    folder: Path,  # The release's
    release: Release,
    table: RowTable,
    *,
    encoded: bool = False,
    ids: str
    | None = None,  # By default the column that the study in the folder names, if it is there
) -> Iterator[Batch]:
    """Return :func:`predict` of some rows after the other."""
    columns = {*release.model.features}
    if release.model.encoder is not None and not encoded:
        columns = {*release.model.encoder.schema.columns}
    unit = ids
    with suppress(ConfrereError):  # a study of another version: the model can be read all the same
        study = _study_in(folder)
        unit = ids if ids is not None or study is None else study.promise.unit_column
    columns |= set() if unit is None else {unit}
    for batch in table.read([*columns], all_of_them=False):
        named = unit if ids is not None or unit in batch.column_names else None
        yield predict(release, batch, encoded=encoded, ids=named)


def save_predictions(batches: Iterator[Batch], place: Path | io.BytesIO) -> Iterator[Batch]:
    """Write some predictions after the other as text, and return them."""
    first = next(batches)
    plain = csv.WriteOptions(quoting_style="needed")
    try:
        with csv.CSVWriter(place, first.schema, write_options=plain) as writer:
            for batch in chain([first], batches):
                writer.write_table(batch)
                yield batch
    except BaseException:
        if isinstance(place, Path):
            place.unlink(missing_ok=True)
        raise


def _study_in(folder: str | os.PathLike[str]) -> Study | None:
    """Return the study that lies in a release."""
    content = read_folder(folder).files.get("study.toml")
    return None if content is None else study_from_bytes(content)


def encoded_rows(release: Release, table: Container, *, encoded: bool = False) -> Any:
    """Return the rows that a release's model reads; ``encoded`` says that they were encoded."""
    model = release.model
    if model.encoder is not None and not encoded:
        return model.encoded(table)
    if not encoded:
        raise InvalidData(
            "the release carries no encoder, so it cannot read a raw table: ask for one of a model "
            "that was fitted with schema=, or encode the table as its maker did and say --encoded."
        )
    names = column_names(table)
    lacking = [name for name in model.features if name not in names]
    if lacking:
        raise InvalidData(
            f"the table lacks {len(lacking)} of the release's columns, {lacking[0]!r} first; this "
            "release takes encoded rows."
        )
    columns = [read_numbers(name, as_cells(table[name], name))[0] for name in model.features]
    rows = np.column_stack(columns)
    if np.isnan(rows).any():
        raise InvalidData("the release takes encoded rows: numbers only.")
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


def check_table(
    study: Study,  # Declares columns, label and rows per unit
    table: RowTable,  # The party's table
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
        table.whole(),
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
) -> tuple[Container, NDArray[Any] | None]:
    """Return the rows and labels of a table on which a release is to be measured.

    Surplus rows of a unit are dropped, as the study in the release's folder says.
    """
    study, most = _study_in(folder), 1
    if study is not None and unit_column is None:
        unit_column, most = study.promise.unit_column, study.promise.max_rows_per_unit
    encoder = release.model.encoder
    table = UnitCounts(unit_column, most).bounded(open_table(path).whole())
    if encoder is not None and encoder.schema.outcome is not None and label is None:
        return table, None
    if label is None or label not in table.column_names:
        raise InvalidData(
            "label: the release does not say in which column the labels are; name it: --label."
        )
    labels = plain_labels(label, np.array(table[label].to_pylist(), dtype=object))
    return table if encoder is not None else encoded_rows(release, table, encoded=True), labels


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
