"""Estimators whose releases can be drawn by the thousand from one pass over the data.

Every sampler calls its estimator's own scaling, clipping, split and calibration, so that a fault
in them is heard; only the draws and the solver are batched. What is returned are the numbers that
leave the mechanism, of which the fitted attributes are post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from confrere.audit.bulk_stacks import sample_feature_stack, sample_sample_stack
from confrere.audit.function import Sample
from confrere.errors import InvalidParameter
from confrere.estimators import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    MultipartyClassifier,
    PrivateLogisticRegression,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.estimators.labels import declared_classes, encode_labels, plus_minus
from confrere.estimators.multiparty_local import Blocks, tally_linear, total_uploads
from confrere.federation import Expansion
from confrere.federation.operation import Facts
from confrere.federation.sizes import Sizes
from confrere.guarantee import Neighbours
from confrere.mechanisms.terms import Term
from confrere.noise.sources import RandomSource, SeededSource

Floats = NDArray[np.float64]


def bulk_sampler(estimator: Any) -> Sample | None:
    """Return a sampler of the estimator's own mechanism on its own rows, if there is one."""
    drawn = _DRAWS.get(type(estimator))
    many = getattr(estimator, "classes", None) is not None and np.size(estimator.classes) > 2
    if drawn is None or many or getattr(estimator, "rounds", 1) > 1:
        return None
    if isinstance(estimator, MultipartyClassifier) and estimator.local is not None:
        return None
    return BulkSampler(estimator)


@dataclass(frozen=True)
class BulkSampler:
    """What ``fit`` computes, with everything but the noise shared."""

    estimator: Any

    def __call__(
        self, data: Mapping[str, Any], count: int, generator: np.random.Generator
    ) -> Floats:
        """Return the released numbers of ``count`` runs, one run per row."""
        draw = _DRAWS[type(self.estimator)]
        # Seeded, so that simulated sources may be opened; the copy is never fitted.
        model = clone(self.estimator).set_params(random_state=0)
        return np.asarray(draw(model, data, count, SeededSource(generator)))


def binary_rows(model: Any, data: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Return rows and labels -1 and +1 of the arguments of ``fit``."""
    classes = declared_classes(model.classes, data["y"], simulated=True)
    labels = plus_minus(encode_labels(np.asarray(data["y"]), classes))
    return np.asarray(data["X"], dtype=np.float64), labels


def _logistic(model: Any, data: Mapping[str, Any], count: int, source: RandomSource) -> Floats:
    X, labels = binary_rows(model, data)
    transfer = isinstance(model, TransferClassifier)
    plan = model._plan(*X.shape, model._open_sources() if transfer else 2)
    act = Act(plan.mechanism, (plan.rows(X), labels), {"centre": plan.centre})
    return act.run_many(count, source)


def _feature_stack(model: Any, data: Mapping[str, Any], count: int, source: RandomSource) -> Floats:
    X, labels = binary_rows(model, data)
    if isinstance(model, TransferStackingClassifier):
        sources = model._open_sources()
        plan = model._plan(len(X), sources)
        centres = model._centres(plan.rows, sources)
    else:
        plan, centres = model._plan(*X.shape), None
    return sample_feature_stack(plan, X, labels, centres, count, source)


def _sample_stack(model: Any, data: Mapping[str, Any], count: int, source: RandomSource) -> Floats:
    return sample_sample_stack(model, *binary_rows(model, data), count, source)


def _collaborative(model: Any, data: Mapping[str, Any], count: int, source: RandomSource) -> Floats:
    """Return every party's release: the average is post-processing."""
    return np.hstack([act.run_many(count, source) for act in party_acts(model, data)])


def _multiparty(model: Any, data: Mapping[str, Any], count: int, source: RandomSource) -> Floats:
    return upload_act(model, data).run_many(count, source)


@dataclass(frozen=True)
class Act:
    """A mechanism and what it is run on."""

    mechanism: Any
    data: tuple[Any, ...]
    public: Mapping[str, Any]

    def run_many(self, count: int, source: RandomSource) -> Floats:
        """Return ``count`` releases, one per row."""
        released = self.mechanism.run_many(*self.data, **self.public, source=source, count=count)
        return np.asarray(released).reshape(count, -1)

    def terms(self) -> list[Term]:
        """Return the densities of what is released."""
        return list(self.mechanism.terms(*self.data, **self.public))


def party_acts(model: CollaborativeClassifier, data: Mapping[str, Any]) -> Iterator[Act]:
    """Yield what every party does."""
    X, labels = binary_rows(model, data)
    party = np.asarray(data.get("party", np.zeros(len(X))))
    names, sizes = np.unique(party, return_counts=True)
    counts = dict(zip(map(str, names), sizes.tolist(), strict=True))
    told = Sizes(counts, Neighbours.REPLACE_ONE, {})
    plan = model._plan(X.shape[1])
    for name, size in zip(names, sizes.tolist(), strict=True):
        rows, y = plan.frame.rows(X[party == name]), labels[party == name]
        facts = Facts(size, X.shape[1])
        if isinstance(plan, Expansion):
            yield Act(plan.request.mechanism(facts), (rows, y), {})
            continue
        request = plan.request(plan.round_epsilons[0], told, plan.prior)
        if plan.perturb == "objective":
            yield Act(request.objective(facts), (rows, y), {"centre": request.centre})
        else:
            yield Act(request.output(facts), (rows, y), {})


def upload_act(model: MultipartyClassifier, data: Mapping[str, Any]) -> Act:
    """Return what is done with the parties' votes, weights or moments."""
    if model.local is not None:
        raise InvalidParameter("local: only built-in classifiers of parties are audited this way.")
    auxiliary = data.get("auxiliary")
    parties, classes = model._parties(data["X"], data["y"], data.get("party"), auxiliary)
    n_classes = max(2, len(classes))
    plan = model._plan(parties.X.shape[1], n_classes, model._auxiliary(auxiliary))
    blocks = Blocks(float(model.memory), plan.frame.size, n_classes)
    if not plan.votes:
        mean = plan.mean(len(parties))
        return Act(mean, (total_uploads(parties, plan.frame, blocks, mean),), {})
    tally = tally_linear(parties, plan.frame, plan.rows, blocks, alpha=plan.local_alpha)
    if model.method == "statistic":
        return Act(plan.statistic(tally.n_parties), (tally,), {})
    return Act(plan.output(tally.n_parties), (tally, plan.rows), {})


_DRAWS = {
    PrivateLogisticRegression: _logistic,
    TransferClassifier: _logistic,
    FeatureStackingClassifier: _feature_stack,
    TransferStackingClassifier: _feature_stack,
    SampleStackingClassifier: _sample_stack,
    CollaborativeClassifier: _collaborative,
    MultipartyClassifier: _multiparty,
}
