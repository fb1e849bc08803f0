"""UCI 350, Default of Credit Card Clients: whether next month's payment is missed."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from confrere.data.features import Category, Label, Number
from confrere.data.schema import PublicSchema
from confrere_research.loaders.dataset import DataSet, LabelledRows, Table, labelled_rows
from confrere_research.loaders.published_files import DataDir, PublishedFile, read_content

PAGE = "https://archive.ics.uci.edu/dataset/350/default+of+credit+card+clients"
LABEL = "default.payment.next.month"

REPAYMENT = ("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6")
BILLS = tuple(f"BILL_AMT{month}" for month in range(1, 7))
PAYMENTS = tuple(f"PAY_AMT{month}" for month in range(1, 7))
# Codes 0, 5 and 6 of education and 0 of marriage occur but are not documented. Amounts are in
# New Taiwan dollars.
SCHEMA = PublicSchema(
    (
        Number("LIMIT_BAL", bounds=(10_000, 500_000)),
        Category("SEX", values=(1, 2)),
        Category("EDUCATION", values=(0, 1, 2, 3, 4, 5, 6)),
        Category("MARRIAGE", values=(0, 1, 2, 3)),
        Number("AGE", bounds=(21, 79)),
        *(Number(name, bounds=(-2, 8)) for name in REPAYMENT),
        *(Number(name, bounds=(0, 500_000), log=True) for name in BILLS),
        *(Number(name, bounds=(0, 100_000), log=True) for name in PAYMENTS),
    ),
    Label(LABEL, positive=(1,), negative=(0,)),
    note="Credit default by hand: codes from its documentation, round numbers for bounds.",
)
COLUMNS = ("ID", *SCHEMA.columns, LABEL)


def _renamed(content: bytes) -> bytes:
    """Give the official table, whose columns are ID, X1 to X23 and Y, its documented names.

    The copy with names was written by R, which abbreviates round numbers: 1e+05.
    """
    frame = pd.read_csv(io.BytesIO(content), usecols=["ID", *(f"X{n}" for n in range(1, 24)), "Y"])
    header = ",".join(f'"{name}"' for name in COLUMNS)
    rows = frame.astype(np.int64).map(_shortest).to_csv(index=False, header=False)
    return f"{header}\n{rows}".encode()


def _shortest(value: int) -> str:
    """Write a whole number in full, or with an exponent if that is shorter."""
    full = str(value)
    sign, figures = ("-", full[1:]) if value < 0 else ("", full)
    leading = figures.rstrip("0") or "0"
    mantissa = leading if len(leading) == 1 else f"{leading[0]}.{leading[1:]}"
    return min(full, f"{sign}{mantissa}e+{len(figures) - 1:02d}", key=len)


FILE = PublishedFile(
    "credit_default",
    "UCI_Credit_Card.csv",
    "a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1",
    page=PAGE,
    url="https://archive.ics.uci.edu/static/public/350/data.csv",
    convert=_renamed,
)


def load_credit_default(data_dir: DataDir = None) -> DataSet[Table]:
    """Load Default of Credit Card Clients.

    Parameters
    ----------
    data_dir : path, optional
        Directory of the data sets; default: ``CONFRERE_DATA``, else the user's cache.

    Returns
    -------
    DataSet
        A table of 30,000 clients and 23 features; there is no official split.
    """
    rows = labelled_rows(read_content(FILE, data_dir), SCHEMA)
    X = rows.X.drop(columns="ID")
    return DataSet(
        name="credit_default",
        train=LabelledRows(X, rows.y),
        test=None,
        feature_names=tuple(X.columns),
        classes=("paid", "default"),
        licence="CC BY 4.0",
        source=PAGE,
        description="Credit-card holders in Taiwan, 2005: is the next payment missed?",
        schema=SCHEMA,
    )
