"""Raw tables and a release: predictions of their rows, and rows to measure it on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confrere.data.cells import (
    Container,
    UnitCounts,
    as_cells,
    column_names,
    plain_labels,
    read_numbers,
)
from confrere.data.schema import parse_bounded
from confrere.data.tables import Batch, RowTable, open_table
from confrere.errors import ConfrereError, InvalidData, InvalidRelease
from confrere.model import Model
from confrere.release import Release, read_folder


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
    shares = model.probabilities(scores)
    labels = pa.array([str(one) if isinstance(one, bool) else one for one in model.labels])
    predicted = labels.take(pa.array(model.codes(scores))) if model.labels else pa.array(shares)
    found = {"predicted": predicted}
    for name, probability in zip(model.labels, shares.T, strict=False):
        found[f"probability of {name}"] = pa.array(probability)
    if ids is None:
        return pa.table(found)
    if column_names(table).count(ids) != 1:
        raise InvalidData(f"data: there is no one column {ids!r} that says whose row it is.")
    return pa.table({ids: as_cells(table[ids], ids), **found})


def predictions(
    folder: Path,
    release: Release,
    table: RowTable,
    *,
    encoded: bool = False,
    ids: str | None = None,
) -> Iterator[Batch]:
    """Return :func:`predict` of some rows after the other."""
    columns = {*release.model.features}
    if release.model.encoder is not None and not encoded:
        columns = {*release.model.encoder.schema.columns}
    unit = ids
    with suppress(ConfrereError):  # whatever the study is: the model can be read all the same
        unit = ids if ids is not None else _units(folder)[0]
    columns |= set() if unit is None else {unit}
    for batch in table.read([*columns], all_of_them=False):
        named = unit if ids is not None or unit in batch.column_names else None
        yield predict(release, batch, encoded=encoded, ids=named)


def _units(folder: Path) -> tuple[str | None, int]:
    """Return what the study in a release says of units: their column, and how many rows of one."""
    content = read_folder(folder).files.get("study.toml", b"")
    try:
        told = parse_bounded(content.decode()).get("privacy", {})
        column, most = told.get("unit_column"), told.get("max_rows_per_unit", 1)
        if isinstance(column, str | None) and type(most) is int and most > 0:
            return column, most
    except (ValueError, AttributeError):  # neither TOML nor a study
        pass
    raise InvalidRelease("study.toml: [privacy] cannot be read.")


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
    if stack is not None and stack.clipping == "joint":
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


def evaluation_rows(
    folder: Path,  # The release's
    release: Release,
    path: Path,  # The table
    label: str | None = None,  # The label's column, where the release carries no schema
    # Whose row it is, where there is no study in the folder; one row per unit then.
    unit_column: str | None = None,
) -> Iterator[tuple[Container, NDArray[np.generic] | None]]:
    """Return some rows after the other, with labels, on which a release is to be measured.

    Surplus rows of a unit are dropped, as the study in the release's folder says.
    """
    encoder, most = release.model.encoder, 1
    if unit_column is None:
        unit_column, most = _units(folder)
    outcome = None if encoder is None else encoder.schema.outcome
    column = label if label is not None or outcome is None else outcome.column
    names = release.model.features if encoder is None else encoder.schema.columns
    seen = UnitCounts(unit_column, most)
    wanted = [one for one in dict.fromkeys([*names, column, unit_column]) if one is not None]
    for batch in open_table(path).read(wanted, all_of_them=False):
        table = seen.bounded(batch)
        if column is None or column not in table.column_names:
            raise InvalidData(
                "label: the release does not say in which column the labels are; name it: --label."
            )
        rows = table if encoder is not None else encoded_rows(release, table, encoded=True)
        own = None if label is None else plain_labels(label, table[label])
        if len(table):
            yield rows, own
