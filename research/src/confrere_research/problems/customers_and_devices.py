"""Many parties: three with customers, or many devices with few rows each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from confrere.arrays import Floats
from confrere_research.loaders import (
    load_bank_marketing,
    load_credit_default,
    load_har,
    load_iscx_urls,
    load_kdd99,
)
from confrere_research.problems.shapes import Labels, ManyParties, Rows, encoded_rows
from confrere_research.projections import canonical_components

LOADERS = {"har": load_har, "kdd99": load_kdd99, "iscx_urls": load_iscx_urls}


def devices(data: Mapping[str, Any], seed: int) -> ManyParties:
    """Return ``n_parties`` with ``rows_each`` rows, and ``n_auxiliary`` public rows.

    With ``n_components`` everything is projected to the components of the auxiliary rows, and with
    ``whiten`` divided by their standard deviations there; all rows are divided by the largest norm
    among those, which is as public, and clipped to 1.
    """
    X, y, X_test, y_test = _table(data["table"], int(data["n_test"]))
    n_private = int(data["n_parties"]) * int(data["rows_each"])
    order = np.random.default_rng(seed).permutation(len(y))
    private, public, _ = np.split(order, [n_private, n_private + int(data["n_auxiliary"])])
    auxiliary = _dense(X[public])
    rows, held = _dense(X[private]), _dense(X_test)
    if "n_components" in data:
        pca = PCA(
            int(data["n_components"]),
            whiten=bool(data.get("whiten", False)),
            svd_solver="randomized",
            random_state=0,
        )
        pca.fit(auxiliary)
        pca.components_ = canonical_components(pca.components_, pca.explained_variance_)
        auxiliary, rows, held = (pca.transform(Z) for Z in (auxiliary, rows, held))
    norm = float(np.linalg.norm(auxiliary, axis=1).max())
    return ManyParties(
        Rows(_clipped(rows / norm), y[private]),
        Rows(_clipped(held / norm), y_test),
        np.repeat(np.arange(int(data["n_parties"])), int(data["rows_each"])),
        auxiliary=_clipped(auxiliary / norm),
    )


@lru_cache(maxsize=1)
def _table(name: str, n_test: int) -> tuple[Any, Labels, Any, Labels]:
    """Return training rows and a fixed sample of test rows; URLs have no official test part."""
    loaded: Any = LOADERS[name]()
    held = loaded.test
    if held is None:
        order = np.random.default_rng(0).permutation(len(loaded.train))
        test, train = np.split(order, [n_test])
        X, y = loaded.train.X, loaded.train.y
        return X[train], y[train], X[test], y[test]
    sample = np.random.default_rng(0).permutation(len(held))[:n_test]
    return loaded.train.X, loaded.train.y, held.X[sample], held.y[sample]


def _dense(X: Any) -> Floats:
    return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)


def _clipped(X: Floats) -> Floats:
    return np.asarray(X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)))


#: Shares of the three parties; the rest is for tests.
SHARES = (0.4, 0.3, 0.1)


def customers_of_parties(data: Mapping[str, Any], seed: int) -> ManyParties:
    """Return three parties with 40, 30 and 10% of the rows, and 20% to test.

    ``rate`` keeps a part of all rows, ``n_columns`` the first columns of the table.
    """
    table = _customers(data["table"])
    schema = table.schema
    schema = replace(schema, features=schema.features[: data.get("n_columns")])
    order = np.random.default_rng(seed).permutation(len(table.train))
    order = order[: round(float(data.get("rate", 1.0)) * len(order))]
    X, _ = encoded_rows(table.train.X.iloc[order], schema, data["encoding"])
    y = table.train.y[order]
    ends = np.rint(np.cumsum(SHARES) * len(y)).astype(int)
    party = np.searchsorted(ends, np.arange(ends[-1]), side="right")
    return ManyParties(
        Rows(X[: ends[-1]], y[: ends[-1]]), Rows(X[ends[-1] :], y[ends[-1] :]), party
    )


@lru_cache(maxsize=2)
def _customers(name: str) -> Any:
    return {"bank": load_bank_marketing, "credit": load_credit_default}[name]()
