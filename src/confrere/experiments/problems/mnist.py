"""MNIST: pairs of digits, projected by principal components of other writers' digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from confrere.experiments.problems.shapes import (
    Floats,
    Labels,
    OneParty,
    Rows,
    SourceAndTargets,
    Split,
)
from confrere.schema import load_mnist


def digits_apart(data: Mapping[str, Any], seed: int) -> OneParty:
    """Return two digits, 3000 rows to learn from and 2000 to test.

    ``projection="public"`` takes the components of the official test part: ten digits without
    labels, by other writers, whom nobody protects here. ``"own"`` takes those of the data
    themselves: the papers' way, and a leak.
    """
    n_train, n_test = data["n_train"], data["n_test"]
    X, y = _drawn(tuple(data["digits"]), n_train + n_test, seed)
    Z, deviations = _projected(X, data)
    return OneParty(Rows(Z[:n_train], y[:n_train]), Rows(Z[n_train:], y[n_train:]), deviations)


def digits_transferred(data: Mapping[str, Any], seed: int) -> SourceAndTargets:
    """Return one pair of digits as source, another as target; four fifths of each are learned."""
    X_source, y_source = _drawn(tuple(data["source"]), data["n_source"], seed)
    X_target, y_target = _drawn(tuple(data["target"]), data["n_target"], seed + 1)
    Z, deviations = _projected(np.vstack([X_source, X_target]), data)
    Z_source, Z_target = np.split(Z, [len(y_source)])
    n_source, n_target = round(0.8 * len(y_source)), round(0.8 * len(y_target))
    target = Split(
        Rows(Z_target[:n_target], y_target[:n_target]),
        Rows(Z_target[n_target:], y_target[n_target:]),
    )
    return SourceAndTargets(
        source=Rows(Z_source[:n_source], y_source[:n_source]),
        targets=(target,),
        importance=deviations**2,
        norm=float(np.linalg.norm(deviations)),
    )


def _projected(X: Floats, data: Mapping[str, Any]) -> tuple[Floats, Floats]:
    n_components = int(data["n_components"])
    if data["projection"] == "own":
        pca = _components(X, n_components)
    else:
        pca = _public_components(n_components)
    return pca.transform(X), np.sqrt(pca.explained_variance_)


def _components(X: Floats, n_components: int) -> PCA:
    return PCA(n_components, svd_solver="covariance_eigh").fit(X)


@lru_cache(maxsize=4)
def _public_components(n_components: int) -> PCA:
    return _components(_images()[2].astype(np.float64), n_components)


def _drawn(digits: Sequence[int], n_rows: int, seed: int) -> tuple[Floats, Labels]:
    """Return rows of some digits, drawn without replacement; the label is the digit's place."""
    X, y, _ = _images()
    chosen = np.flatnonzero(np.isin(y, digits))
    chosen = np.random.default_rng(seed).permutation(chosen)[:n_rows]
    place = np.argmax(y[chosen][:, None] == np.asarray(digits), axis=1)
    return X[chosen].astype(np.float64), place


@lru_cache(maxsize=1)
def _images() -> tuple[Any, Labels, Any]:
    data = load_mnist()
    return data.train.X, data.train.y, data.test.X if data.test else data.train.X[:0]
