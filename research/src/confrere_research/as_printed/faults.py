"""What audits find in claims as printed: how each is run, and the neighbours that tell.

Every entry claims epsilon 1. What is found is a lower bound, at 99.9% confidence, on what is
really spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import special

from confrere.arrays import Floats
from confrere.assurance.audited import Fault
from confrere.audit import Pair, hardest_case
from confrere.estimators import PrivateLogisticRegression
from confrere.simulation import SeededSource
from confrere_research.as_printed.ofpa_ofaa import FARTHEST
from confrere_research.as_printed.regression import scaled_plr
from confrere_research.as_printed.stacking import psth_source

#: Rounds of OFPA in its paper.
ROUNDS = 40


def psth_groups(data: Any, count: int, generator: np.random.Generator) -> Floats:
    """Return runs of PST-H's source step: one group per column, each at the whole epsilon."""
    X, y = data
    groups = [[column] for column in range(X.shape[1])]
    return psth_source(X, y, groups, epsilon=1.0, alpha=10.0, count=count, generator=generator)


def scaled_rows(data: Any, count: int, generator: np.random.Generator) -> Floats:
    """Return runs of PLR on rows scaled by the largest of them."""
    return scaled_plr(*data, epsilon=1.0, alpha=0.01, count=count, generator=generator)


def ofpa_rounds(data: Any, count: int, generator: np.random.Generator) -> Floats:
    """Return forty uploads per run of OFPA, for rows that are all one, without an intercept.

    ``sum log(1 + exp(w)) - k w + v w`` is least where ``n sigma(w) = k - v``: no solver is needed.
    Rounds are independent draws, since the downloaded average never enters the minimisation.
    """
    _, y = data
    noise = generator.laplace(scale=4.0, size=(count, ROUNDS))
    share = (np.count_nonzero(y > 0) - noise) / len(y)
    # Beyond the edge there is no minimiser: weights are followed up to a box.
    return np.clip(special.logit(np.clip(share, 0.0, 1.0)), -FARTHEST, FARTHEST)


def half_noise(data: Mapping[str, Any], count: int, generator: np.random.Generator) -> Floats:
    """Return runs of this library's own regression with noise at twice its rate."""
    plan, records = _REGRESSION.estimator.prepare(**data)
    object.__setattr__(plan.mechanism, "rate", 2 * plan.mechanism.rate)
    return np.asarray(plan.run_many(records, SeededSource(generator), count))


def _flipped_label(n_groups: int = 10, n: int = 3) -> Pair:
    X, y = np.ones((n, n_groups)), np.where(np.arange(n) % 2, -1.0, 1.0)
    return Pair("all groups one, one label flipped", (X, y), (X, np.where(np.arange(n), y, -1.0)))


def _one_more_positive(n: int = 20) -> Pair:
    X, place = np.ones((n, 1)), np.arange(n)
    few, more = (np.where(place < n // 2 + extra, 1.0, -1.0) for extra in (0, 1))
    return Pair("10 against 11 positives of 20", (X, few), (X, more))


def _grown_record(n: int = 1000) -> Pair:
    small, y = np.ones((n, 1)), np.ones(n)
    large = small.copy()
    large[0] = 1000.0
    return Pair("one record of a thousand grows from 1 to 1000", (small, y), (large, y))


_REGRESSION = hardest_case(PrivateLogisticRegression())

#: Every fault by its name.
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "printed-pst-h": Fault(
            "PST-H's source step: ten groups, each at the whole epsilon",
            psth_groups,
            _flipped_label(),
            20_000,
            2.0,
        ),
        "printed-ofpa": Fault(
            "OFPA: forty rounds at the price of one",
            ofpa_rounds,
            _one_more_positive(),
            400_000,
            3.5,
        ),
        "scaled-norm": Fault(
            "rows scaled by the data's own largest norm", scaled_rows, _grown_record(), 20_000, 5.0
        ),
        "half-noise": Fault(
            "private logistic regression with half the noise",
            half_noise,
            _REGRESSION.pairs[0],
            100_000,
            1.0,
        ),
    }
)
