"""A party's table: read, bounded per unit, encoded and looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.data.cells import UnitCounts, encode_labels
from confrere.data.codes import Coded, PackedCodes
from confrere.data.encoding import SchemaEncoder
from confrere.data.fact_counts import FactCounts
from confrere.data.report import DataReport, data_report
from confrere.data.tables import RowTable, gathered_codes
from confrere.errors import StudyError
from confrere.files import write_whole
from confrere_federation.studies.study_file import Study


@dataclass(frozen=True)
class Rows:
    """What a method learns from: bounded rows, and labels.

    Codes that are many lie in a private file, which the system reads when they are touched.
    ``sums`` are those of the raw rows, where the study learns facts of its schema first.
    """

    X: Coded
    y: NDArray[Any]
    sums: NDArray[np.int64] | None = None

    def coded(self, study: Study) -> tuple[Coded, NDArray[np.float64]]:
        """Return rows, and labels as parties hold them: -1 and +1, or codes of more classes."""
        codes = encode_labels(self.y, np.array(study.classes))
        return self.X, codes.astype(np.float64) if study.n_classes > 2 else 2.0 * (codes == 1) - 1.0


def read_rows(
    study: Study, table: RowTable, encoder: SchemaEncoder | None = None, *, counted: bool = False
) -> Rows:
    """Return what a study learns from one party's table, read and encoded batch by batch.

    With ``counted``, also the sums from which facts of the schema are learned.
    """
    schema, unit = study.schema, study.promise.unit_column
    assert schema.outcome is not None
    columns = dict.fromkeys([*schema.columns, schema.outcome.column, *([unit] if unit else [])])
    encoder, seen = encoder or study.encoder(), UnitCounts(unit, study.promise.max_rows_per_unit)
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
    return Rows(encoder.coded(codes), labels, sums if counted else None)


def check_table(study: Study, table: RowTable) -> DataReport:
    """Return how a party's table fits a study; for the party alone.

    Counts are without noise: they must not leave the organisation.
    """
    promise = study.promise
    return data_report(
        study.schema,
        table.whole(),
        unit_column=promise.unit_column,
        max_rows_per_unit=promise.max_rows_per_unit,
    )


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
