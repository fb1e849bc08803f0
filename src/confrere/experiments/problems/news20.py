"""20 Newsgroups: science against talk, projected by components of public messages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from confrere.experiments.problems.shapes import Floats, Labels, OneParty, Rows
from confrere.schema import PublicPCA, load_news20

#: Messages of the official test part that nobody protects; the others are for tests.
N_PUBLIC = 2000


def science_or_talk(data: Mapping[str, Any], seed: int) -> OneParty:
    """Return messages by date: ``n_train`` of the official training part, ``n_test`` of the test's.

    ``projection="public"`` takes the components of 2000 messages without labels that are in
    neither; ``"own"`` those of the training messages: the papers' way, and a leak.
    """
    Z_train, y_train, Z_test, y_test, deviations = _projected(
        data["projection"], int(data["n_components"])
    )
    rng = np.random.default_rng(seed)
    train = rng.permutation(len(y_train))[: data["n_train"]]
    test = rng.permutation(len(y_test))[: data["n_test"]]
    return OneParty(
        Rows(Z_train[train], y_train[train]), Rows(Z_test[test], y_test[test]), deviations
    )


@lru_cache(maxsize=2)
def _projected(projection: str, n_components: int) -> tuple[Floats, Labels, Floats, Labels, Floats]:
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
