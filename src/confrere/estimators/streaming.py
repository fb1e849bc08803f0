"""Fits on tables and sources of any size, by whatever engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from confrere.errors import InvalidData, InvalidParameter, NoRows
from confrere.estimators.base import LinearClassifier
from confrere.estimators.constraints import RowEngine
from confrere.ledger import Ledger
from confrere.plans.base_plan import LabelledTable, Plan, encode_labels
from confrere.rows.decoding import decoded, gathered
from confrere.rows.engines import opened_engine
from confrere.rows.row_source import RowSource
from confrere.rows.row_tables import RowTable, declared_batches
from confrere.rows.spill import WatchedMap, mapped_file
from confrere.schema import SchemaEncoder


@dataclass(kw_only=True, eq=False, repr=False)
class StreamedClassifier(LinearClassifier):
    """A linear classifier whose rows stay where they are.

    ``X`` may also be a :class:`~confrere.rows.row_tables.RowTable`, with ``y`` the name of its
    label column, or a :class:`~confrere.rows.row_source.RowSource`. A table is decoded once, before
    anything is spent; arrays and memory maps keep their precision.
    """

    engine: RowEngine = None

    _dtype: ClassVar[Any] = [np.float64, np.float32]

    def _pay_and_learn(self, ledger: Ledger, plan: Plan[Any], data: Any) -> Self:
        with opened_engine(self.engine) as engine:
            return super()._pay_and_learn(ledger, plan, replace(data, engine=engine))

    def _table(self, X: Any, y: Any) -> LabelledTable:
        """Return rows and class codes, checked."""
        if isinstance(X, RowTable | RowSource):
            return self._streamed(X, y)
        table = super()._table(X, y)
        file = mapped_file(table.X)
        return table if file is None else replace(table, X=WatchedMap(table.X, file))

    def _streamed(self, X: RowTable | RowSource, y: Any) -> LabelledTable:
        """Return the rows of a table that is read in batches, or of a source, checked."""
        names = None
        encoder = self._encoder()
        if encoder is not None:
            X, y = self._encoded_batches(encoder, X, y)
        elif isinstance(X, RowTable):
            if not isinstance(y, str):
                raise InvalidParameter("y must be the name of the table's label column.")
            table = decoded(X, label=y)
            X, y, names = table.X, table.y, table.columns
        labels = np.asarray(y)
        if labels.shape != X.shape[:1]:
            raise InvalidData("y must hold one label per row of X.")
        if encoder is None:
            self.n_features_in_ = X.shape[1]
        classes = self._classes(labels)
        features = self._features(encoder) if names is None else list(names)
        return LabelledTable(X, encode_labels(labels, classes), classes, features)

    def _encoded_batches(
        self, encoder: SchemaEncoder, X: RowTable | RowSource, y: Any
    ) -> tuple[RowSource, NDArray[Any] | None]:
        """Return the bounded rows and labels of a raw table, encoded batch by batch."""
        if not isinstance(X, RowTable):
            raise InvalidParameter("schema: a source holds rows that are encoded; leave it out.")
        outcome = encoder.schema.outcome
        label = y if outcome is None else outcome.column
        if not isinstance(label, str):
            raise InvalidParameter("y must be the name of the table's label column.")
        columns = [*encoder.schema.columns, label]
        batches = declared_batches(X, columns, encoder.schema)
        if not self._least_rows:
            batches = _or_none(batches, columns)
        blocks = (
            (
                self._encoded(encoder, batch),
                self._labels(encoder, batch, batch[label] if outcome is None else None),
            )
            for batch in batches
        )
        return gathered(blocks, len(encoder.schema.feature_names), X.rows)


def _or_none(batches: Iterator[pd.DataFrame], columns: list[str]) -> Iterator[pd.DataFrame]:
    """Return the batches of a table; of one without rows, one that is empty."""
    try:
        yield from batches
    except NoRows:
        yield pd.DataFrame({name: pd.Series(dtype=object) for name in columns})
