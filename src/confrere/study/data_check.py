"""A party's own look at its own table before anything is spent: what a study would make of it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from confrere.errors import InvalidData, StudyError
from confrere.files import write_whole
from confrere.release import Release, read_folder
from confrere.rows.row_tables import RowTable, read_table
from confrere.schema import DataReport, data_report
from confrere.study.encoded_rows import UnitCounts, encoded_rows
from confrere.study.study_file import Study, study_from_bytes

#: Characters of a header line at most.
MAX_HEADER = 1_000_000


def check_table(study: Study, table: Path | RowTable) -> DataReport:
    """Return how a party's table fits a study; for the party alone.

    Parameters
    ----------
    study : Study
        Declares columns, label and rows per unit.
    table : Path or RowTable
        The party's table.

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
    folder: Path,
    release: Release,
    path: Path,
    *,
    label: str | None = None,
    unit_column: str | None = None,
) -> tuple[Any, Any]:
    """Return the rows and labels of a table on which a release is to be measured.

    Surplus rows of a unit are dropped, as the study in the release's folder says.

    Parameters
    ----------
    folder : Path
        The release's.
    release : Release
    path : Path
        The table.
    label : str, optional
        The label's column, where the release carries no schema.
    unit_column : str, optional
        Whose row it is, where there is no study in the folder; one row per unit then.
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
