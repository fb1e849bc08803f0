"""One shape for every data set: the rows, what they mean and where they come from."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from confrere.data.schema import PublicSchema

DenseRows = NDArray[np.float32]
if TYPE_CHECKING:
    SparseRows = sparse.csr_array[Any, tuple[int, int]]
else:
    SparseRows = sparse.csr_array
Table = pd.DataFrame

Matrix = TypeVar("Matrix", DenseRows, SparseRows, Table)


@dataclass(frozen=True, slots=True, repr=False)
class LabelledRows(Generic[Matrix]):
    """Some rows of a data set.

    Parameters
    ----------
    X : ndarray, csr_array or DataFrame of shape (n_rows, n_features)
        An array holds float32 values in [-1, 1]; a table holds the published values.
    y : ndarray of int64 of shape (n_rows,)
        Positions in the data set's ``classes``.
    groups : ndarray of shape (n_rows,), optional
        What a row belongs to beside its label (a person, a host, a newsgroup, an attack), where
        that is no column of ``X``: for splits that keep a group in one piece.
    """

    X: Matrix
    y: NDArray[np.int64]
    groups: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"LabelledRows({len(self):,} x {self.X.shape[1]:,})"


@dataclass(frozen=True, slots=True, repr=False)
class DataSet(Generic[Matrix]):
    """A published data set, its content verified.

    Parameters
    ----------
    name : str
        The loader's name, ``load_<name>``.
    train : LabelledRows
        The official training part; every row where no official split exists.
    test : LabelledRows or None
        The official test part.
    feature_names : tuple of str
        Names of the columns of ``X``.
    classes : tuple of str
        What the labels 0, 1, ... mean; of two classes the second is the positive one.
    licence, source, description : str
        Terms of use, where it is published, and what was done to it here.
    schema : PublicSchema, optional
        A table's declared facts; None for arrays, which are already scaled by declared ones.
    """

    name: str
    train: LabelledRows[Matrix]
    test: LabelledRows[Matrix] | None
    feature_names: tuple[str, ...]
    classes: tuple[str, ...]
    licence: str
    source: str
    description: str
    schema: PublicSchema | None = None

    def __repr__(self) -> str:
        rows = f"{len(self.train):,}" + (f" + {len(self.test):,}" if self.test else "")
        kinds = f"{len(self.classes)} classes"
        return f"DataSet({self.name}: {rows} rows x {len(self.feature_names):,}, {kinds})"


def labelled_rows(
    content: bytes, schema: PublicSchema, *, separator: str = ","
) -> LabelledRows[Table]:
    """Read a CSV file: texts as categories, numbers as they are; 1 is the positive label."""
    # The files have no missing values: an answer that reads "None" or "NA" is an answer.
    frame = pd.read_csv(io.BytesIO(content), sep=separator, keep_default_na=False)
    y = (schema.label(frame) > 0).astype(np.int64)
    if schema.outcome is not None:
        frame = frame.drop(columns=schema.outcome.column)
    texts = frame.select_dtypes(exclude="number").columns
    return LabelledRows(frame.astype(dict.fromkeys(texts, "category")), y)
