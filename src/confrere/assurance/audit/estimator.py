"""Audit a classifier: run its own plan thousands of times on two neighbouring data sets.

Scaling, clipping, split, calibration and mechanisms are those of the plan that ``fit`` runs, so
that a fault in them is heard; only the passes over the data are shared. Whole fits share nothing,
and everything that they leave behind is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from confrere.assurance.audit.events import Reduce
from confrere.assurance.audit.function import audit_function
from confrere.assurance.audit.pairs import Pair, as_pairs, worst_pairs
from confrere.assurance.audit.result import AuditResult
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import Ledger, Receipt
from confrere.methods import Plan
from confrere.simulation import SeededSource

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
    confidence, random_state, n_jobs, progress
        As in :func:`audit_function`.
    whole_fits : bool, default=False
        Call ``fit`` for every run and read everything that it leaves behind, instead of drawing
        from its mechanism on the rows that it prepares. Slow; it is done unasked if a fitted
        number that no noise moves differs between the neighbours.
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
        progress=progress,
        batch=100 if bulk is None else 2_500,
    )


@dataclass(frozen=True)
class FitSampler:
    """Fit a fresh clone for every run, each with its own seed, on a ledger that nobody keeps."""

    estimator: Any

    def __call__(
        self, data: Mapping[str, object], count: int, generator: np.random.Generator
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


def _fit(estimator: Any, data: Mapping[str, object], ledger: Ledger, seed: int) -> Any:
    model = clone(estimator).set_params(budget=ledger, random_state=seed)
    return model.fit(**data)


def bulk_sampler(estimator: Any, data: Mapping[str, object]) -> BulkSampler | None:
    """Return a sampler of the estimator's own plan, if it draws many runs at once."""
    if not hasattr(estimator, "prepare") or not prepared(estimator, data)[0].batched:
        return None
    return BulkSampler(estimator)


@dataclass(frozen=True)
class BulkSampler:
    """What ``fit`` computes, with everything but the noise shared."""

    estimator: Any

    def __call__(
        self, data: Mapping[str, object], count: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the released numbers of ``count`` runs, one run per row."""
        plan, records = prepared(self.estimator, data)
        return plan.run_many(records, SeededSource(generator), count)


def prepared(estimator: Any, data: Mapping[str, object]) -> tuple[Plan[Any], Any]:
    """Return what a simulated ``fit(**data)`` would run, and the records as it would see them."""
    plan, records = clone(estimator).set_params(random_state=0).prepare(**data)
    return plan, records


def released_numbers(model: Any) -> NDArray[np.float64]:
    """Return all numbers among a fitted model's attributes, parameters aside."""
    parameters = model.get_params(deep=False)
    attributes = {name: value for name, value in vars(model).items() if name not in parameters}
    return np.fromiter(_numbers(attributes), dtype=np.float64)


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, Guarantee | Receipt | str | bytes) or value is None:
        return
    if isinstance(value, Mapping):
        for name in sorted(value):
            yield from _numbers(value[name])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _numbers(getattr(value, field.name))
    elif hasattr(value, "get_params"):
        yield from released_numbers(value)
    else:
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            yield from array.ravel().astype(np.float64)
