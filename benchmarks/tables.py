"""Published data sets, encoded by public facts alone; they lie where ``CONFRERE_DATA`` says."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere_research.loaders import load_bank_marketing, load_brfss2022, load_credit_default
from confrere_research.problems.digits_and_news import digits_apart
from confrere_research.problems.shapes import encoded_rows

Labels = NDArray[np.int64]

MNIST = {
    "digits": [0, 8],
    "n_train": 9000,
    "n_test": 2000,
    "n_components": 100,
    "projection": "public",
}
LOADERS = {
    "BRFSS 2022": load_brfss2022,
    "Bank Marketing": load_bank_marketing,
    "Credit Default": load_credit_default,
}


class Drawn(NamedTuple):
    """Rows to learn from, rows to test on, and the public bound of their norms."""

    X: Floats
    y: Labels
    X_test: Floats
    y_test: Labels
    norm: float


def draw(table: str, n: int, repeat: int) -> Drawn:
    """Return ``n`` rows to learn from; the split depends on the repeat alone."""
    if table == "MNIST, 0 against 8":
        digits = digits_apart(MNIST, repeat)
        train, test = digits.train, digits.test
        return Drawn(train.X[:n], train.y[:n], test.X, test.y, digits.rms_norm)
    X, y, norm = _encoded(table)
    order = np.random.default_rng(repeat).permutation(len(y))
    n_test = min(20_000, len(y) // 5)
    learned, tested = order[n_test:][:n], order[:n_test]
    return Drawn(X[learned], y[learned], X[tested], y[tested], norm)


@lru_cache(maxsize=1)
def _encoded(table: str) -> tuple[Floats, Any, float]:
    data = _loaded(table)
    X, norm = encoded_rows(data.train.X, data.schema, "public")
    return X, data.train.y, norm


@lru_cache(maxsize=1)
def _loaded(table: str) -> Any:
    return LOADERS[table]()


def importances(table: str) -> Floats:
    """Return public importances of the columns, of mean square one."""
    if table == "MNIST, 0 against 8":
        found = digits_apart(MNIST, 0).deviations
    else:
        found = _loaded(table).schema.importances()
    return np.asarray(found / np.sqrt(np.mean(np.square(found))))
