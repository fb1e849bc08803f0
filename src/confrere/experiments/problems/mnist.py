"""MNIST: pairs of digits, projected by principal components of other digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from confrere.data import load_mnist
from confrere.experiments.problems.shapes import Floats, Labels, OneParty, Rows, SourceAndTarget

#: Digits that nobody protects, for the public projection.
PUBLIC_ROWS = 5000


def digits_apart(data: Mapping[str, Any], seed: int) -> OneParty:
    """Return two digits, 3000 rows to learn from and 2000 to test.

    ``projection="public"`` takes the components of other digits, ``"own"`` those of the data
    themselves: the papers' way, and a leak.
    """
    n_train, n_test = data["n_train"], data["n_test"]
    X, y = _drawn(tuple(data["digits"]), n_train + n_test, seed)
    Z, deviations = _projected(X, data)
    return OneParty(Rows(Z[:n_train], y[:n_train]), Rows(Z[n_train:], y[n_train:]), deviations)


def digits_transferred(data: Mapping[str, Any], seed: int) -> SourceAndTarget:
    """Return one pair of digits as source, another as target; a fifth of the target is tested."""
    X_source, y_source = _drawn(tuple(data["source"]), data["n_source"], seed)
    X_target, y_target = _drawn(tuple(data["target"]), data["n_target"], seed + 1)
    Z, deviations = _projected(np.vstack([X_source, X_target]), data)
    n_source = len(y_source)
    n_train = n_source + round(0.8 * len(y_target))
    train = Rows(Z[n_source:n_train], y_target[: n_train - n_source])
    test = Rows(Z[n_train:], y_target[n_train - n_source :])
    # Four fifths of the source are learned from, as in the paper.
    kept = round(0.8 * n_source)
    return SourceAndTarget(Rows(Z[:kept], y_source[:kept]), OneParty(train, test, deviations))


def _projected(X: Floats, data: Mapping[str, Any]) -> tuple[Floats, Floats]:
    n_components = int(data["n_components"])
    if data["projection"] == "own":
        pca = _components(X, n_components)
    else:
        pca = _public_components(tuple(data["public_digits"]), n_components)
    return pca.transform(X), np.sqrt(pca.explained_variance_)


def _components(X: Floats, n_components: int) -> PCA:
    return PCA(n_components, svd_solver="covariance_eigh").fit(X)


@lru_cache(maxsize=4)
def _public_components(digits: tuple[int, ...], n_components: int) -> PCA:
    X, _ = _drawn(digits, PUBLIC_ROWS, 0)
    return _components(X, n_components)


def _drawn(digits: Sequence[int], n_rows: int, seed: int) -> tuple[Floats, Labels]:
    """Return rows of some digits, drawn without replacement; the label is the digit's place."""
    X, y = _images()
    chosen = np.flatnonzero(np.isin(y, digits))
    chosen = np.random.default_rng(seed).permutation(chosen)[:n_rows]
    place = np.argmax(y[chosen][:, None] == np.asarray(digits), axis=1)
    return X[chosen].astype(np.float64), place


@lru_cache(maxsize=1)
def _images() -> tuple[Any, Labels]:
    train = load_mnist().train
    return train.X, train.y
