"""Bank Marketing and Credit Default, divided among three parties."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from confrere.experiments.problems.encoding import encoded_rows
from confrere.experiments.problems.shapes import ManyParties, Rows
from confrere.schema import load_bank_marketing, load_credit_default

#: Shares of the three parties; the rest is for tests.
SHARES = (0.4, 0.3, 0.1)


def customers_of_parties(data: Mapping[str, Any], seed: int) -> ManyParties:
    """Return three parties with 40, 30 and 10% of the rows, and 20% to test.

    ``rate`` keeps a part of all rows, ``n_columns`` the first columns of the table.
    """
    table = _table(data["table"])
    schema = table.schema
    columns = schema.columns[: int(data["n_columns"])] if "n_columns" in data else schema.columns
    order = np.random.default_rng(seed).permutation(len(table.train))
    order = order[: round(float(data.get("rate", 1.0)) * len(order))]
    X, _ = encoded_rows(table.train.X.iloc[order], schema.subset(columns), data["encoding"])
    y = table.train.y[order]
    ends = np.rint(np.cumsum(SHARES) * len(y)).astype(int)
    party = np.searchsorted(ends, np.arange(ends[-1]), side="right")
    return ManyParties(
        Rows(X[: ends[-1]], y[: ends[-1]]), Rows(X[ends[-1] :], y[ends[-1] :]), party
    )


@lru_cache(maxsize=2)
def _table(name: str) -> Any:
    return {"bank": load_bank_marketing, "credit": load_credit_default}[name]()
