"""A party's own look at its own table before anything is spent: what a study would make of it."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path

from confrere.errors import InvalidData, StudyError
from confrere.schema import DataReport, data_report
from confrere.study.encoded_rows import read_table
from confrere.study.study_file import Study

#: Characters of a header line at most.
MAX_HEADER = 1_000_000


def check_table(study: Study, path: Path) -> DataReport:
    """Return how a party's table fits a study; for the party alone.

    Parameters
    ----------
    study : Study
        Declares columns, label and rows per unit.
    path : Path
        The party's table.

    Returns
    -------
    DataReport
        Counts without noise: they must not leave the organisation.
    """
    promise = study.promise
    return data_report(
        study.schema,
        read_table(path),
        unit_column=promise.unit_column,
        max_rows_per_unit=promise.max_rows_per_unit,
    )


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
        # A new file of mode 0600 under another name: what is there may be open to others.
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(aside).replace(path)
    except OSError as error:
        raise StudyError(
            f"report: {path.name} cannot be written ({error.strerror}); give --report."
        ) from None
    return path
