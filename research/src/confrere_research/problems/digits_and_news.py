"""Pairs of digits, and science against talk: projected by components of public rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from confrere.arrays import Floats
from confrere_research.loaders import load_mnist, load_news20
from confrere_research.problems.shapes import Labels, OneParty, Rows, SourceAndTargets, Split
from confrere_research.projections import PublicPCA, canonical_components


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
    pca = PCA(n_components, svd_solver="covariance_eigh").fit(X)
    pca.components_ = canonical_components(pca.components_, pca.explained_variance_)
    return pca


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


#: Messages of the official test part that nobody protects; the others are for tests.
N_PUBLIC = 2000


def science_or_talk(data: Mapping[str, Any], seed: int) -> OneParty:
    """Return messages by date: ``n_train`` of the official training part, ``n_test`` of the test's.

    ``projection="public"`` takes the components of 2000 messages without labels that are in
    neither; ``"own"`` those of the training messages: the papers' way, and a leak.
    """
    Z_train, y_train, Z_test, y_test, deviations = _projected_messages(
        data["projection"], int(data["n_components"])
    )
    rng = np.random.default_rng(seed)
    train = rng.permutation(len(y_train))[: data["n_train"]]
    test = rng.permutation(len(y_test))[: data["n_test"]]
    return OneParty(
        Rows(Z_train[train], y_train[train]), Rows(Z_test[test], y_test[test]), deviations
    )


@lru_cache(maxsize=2)
def _projected_messages(
    projection: str, n_components: int
) -> tuple[Floats, Labels, Floats, Labels, Floats]:
    data = load_news20()
    held = data.test or data.train
    order = np.random.default_rng(0).permutation(len(held.y))
    public, test = np.split(order, [N_PUBLIC])
    seen: Any = data.train.X if projection == "own" else held.X[public]
    components = PublicPCA(seen, n_components).fit(data.train.X)

    def project(X: Any) -> Floats:
        centred = X @ components.components_.T - components.components_ @ components.centre_
        return np.asarray(centred, dtype=np.float64)

    return (
        project(data.train.X),
        data.train.y,
        project(held.X[test]),
        held.y[test],
        components.deviations_,
    )
