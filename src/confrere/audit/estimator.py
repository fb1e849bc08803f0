"""Audit a classifier: fit it thousands of times on two neighbouring data sets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from confrere.audit.bulk import bulk_sampler
from confrere.audit.events import Reduce
from confrere.audit.function import audit_function
from confrere.audit.pairs import Pair, as_pairs, worst_pairs
from confrere.audit.released import released_numbers
from confrere.audit.result import AuditResult
from confrere.ledger import Ledger

#: Runs per data set: where many releases share the passes over the data, and where they do not.
BULK_RUNS, FIT_RUNS = 100_000, 1_000


def audit(
    estimator: Any,
    pair: Pair | Sequence[Pair] | None = None,
    statistic: Reduce | None = None,
    *,
    runs: int | None = None,
    confidence: float = 0.999,
    random_state: int = 0,
    n_jobs: int | None = None,
    records: str | os.PathLike[str] | None = None,
    progress: bool = True,
    whole_fits: bool = False,
) -> AuditResult:
    """Bound the epsilon of a classifier's ``fit`` from below, by sampling.

    The bound is compared with ``guarantee_``. A sound classifier is refuted with probability
    ``1 - confidence`` at most; one that is not refuted need not be sound.

    Parameters
    ----------
    estimator : classifier
        Not fitted; its ``ledger`` is not charged, since the data are made up and the noise seeded.
    pair : Pair or sequence of Pair, optional
        Neighbouring data sets, as arguments of ``fit``; by default :func:`worst_pairs`.
    statistic : callable, optional
        From the released numbers, one row per run, to one number per run; by default several are
        tried.
    runs : int, optional
        Per data set; by default 100,000 for this library's classifiers of two classes, whose
        releases share their passes over the data, and 1,000 for others.
    confidence, random_state, n_jobs, records, progress
        As in :func:`audit_function`.
    whole_fits : bool, default=False
        Call ``fit`` for every run and read everything that it leaves behind, instead of drawing
        from its mechanism on the rows that it prepares. Slow; it is done unasked if a fitted
        number that no noise moves differs between the neighbours.

    Returns
    -------
    AuditResult
    """
    pairs = worst_pairs(estimator) if pair is None else as_pairs(pair)
    bulk = None if whole_fits else bulk_sampler(estimator, pairs[0].first)
    if bulk is not None and any(_tells_without_noise(estimator, each) for each in pairs):
        bulk = None
    promised = _fit(estimator, pairs[0].first, Ledger(), 0).guarantee_
    return audit_function(
        FitSampler(estimator) if bulk is None else bulk,
        pairs,
        claimed=promised.epsilon,
        delta=promised.delta,
        statistic=statistic,
        runs=runs or (FIT_RUNS if bulk is None else BULK_RUNS),
        confidence=confidence,
        random_state=random_state,
        n_jobs=n_jobs,
        records=records,
        progress=progress,
        label=_description(estimator),
        batch=100 if bulk is None else 2_500,
    )


@dataclass(frozen=True)
class FitSampler:
    """Fit a fresh clone for every run, each with its own seed, on a ledger that nobody keeps."""

    estimator: Any

    def __call__(
        self, data: Mapping[str, Any], count: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the released numbers of ``count`` fits."""
        ledger = Ledger()
        seeds = generator.integers(2**31, size=count)
        return np.vstack(
            [released_numbers(_fit(self.estimator, data, ledger, int(seed))) for seed in seeds]
        )


def _tells_without_noise(estimator: Any, pair: Pair) -> bool:
    """Whether a fitted number is the same for any noise, and another on the neighbour."""
    sides = [
        [released_numbers(_fit(estimator, data, Ledger(), seed)) for seed in (0, 1)]
        for data in (pair.first, pair.second)
    ]
    if len({numbers.shape for side in sides for numbers in side}) > 1:
        return True
    (a, a_again), (b, b_again) = sides
    return bool(np.any((a == a_again) & (b == b_again) & (a != b)))


def _fit(estimator: Any, data: Mapping[str, Any], ledger: Ledger, seed: int) -> Any:
    model = clone(estimator).set_params(ledger=ledger, account=None, random_state=seed)
    return model.fit(**data)


def _description(estimator: Any) -> str:
    """Return the class and its parameters; the ledger's path is nobody's business."""
    shown = {
        name: value
        for name, value in sorted(estimator.get_params().items())
        if name not in ("ledger", "account", "random_state")
    }
    return f"{type(estimator).__name__} {shown!r}"
