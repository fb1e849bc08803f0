"""Stacks: private models of parts of the data, and a private model that combines them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Apart, Guarantee, Split, in_parallel
from confrere.kernel.norms import L2
from confrere.kernel.streams import RandomSource, SeededSource
from confrere.maths.partition import split_rows
from confrere.mechanisms.measurements import (
    Act,
    HiddenSize,
    Objective,
    RowCount,
    declared_count,
    sample_parties,
)
from confrere.methods.design import Allowance, Alpha, Near, ridge_for
from confrere.methods.plan import LabelledTable, ModelPlan, Names, Term
from confrere.model import Clip, LowLevelModel, Stack
from confrere.model.models import meta_features
from confrere.rows.frame import into_ball

Combiner = Literal["stack", "vote", "weighted_vote"]

#: The public constant of the high level, inside its norm bound.
HIGH_LEVEL_CONSTANT = 0.5


@dataclass(frozen=True, eq=False)
class HighStart:
    """A released high level as a starting point.

    Attributes
    ----------
    weights : array
        Of the high level's rows, the constant last.
    sharpness : float
        Factor on the low level's scores that it was learned with.
    variance : float
        Of the log odds around it.
    """

    weights: Floats
    sharpness: float
    variance: float


@dataclass(frozen=True, eq=False)
class Division:
    """Disjoint parts of the rows, made without looking at them."""

    #: Of all rows. Where it is not public every row draws its part: a place among the others would
    #: move when one of them goes.
    count: RowCount
    fractions: tuple[float, ...]  #: Of the parts; the high level's last
    seed: int | None  #: Public, of the permutation; None keeps the rows in their order

    @property
    def split(self) -> Split:
        """How the parts are made."""
        if isinstance(self.count, HiddenSize):
            return Split.BY_OWN_DRAW
        return Split.BY_INDEX if self.seed is None else Split.SEEDED_PERMUTATION

    @cached_property
    def counts(self) -> tuple[RowCount, ...]:
        """How many rows the parts have, or what stands for it."""
        if not isinstance(self.count, HiddenSize):
            return tuple(map(len, self.parts(self.count, None)))
        declared, whole = self.count.declared, math.fsum(self.fractions)
        return tuple(HiddenSize(max(1, round(declared * f / whole))) for f in self.fractions)

    def parts(self, n_rows: int, source: RandomSource | None) -> list[NDArray[np.intp]]:
        """Return the rows of every part."""
        if isinstance(self.count, HiddenSize):
            assert source is not None
            return source.deal(n_rows, self.fractions)
        return split_rows(self.count, self.fractions, seed=self.seed)

    @property
    def records(self) -> tuple[int, ...]:
        """How many rows the parts have, as far as that is public."""
        return tuple(map(declared_count, self.counts))


@dataclass(frozen=True, kw_only=True, eq=False)
class StackPlan(ModelPlan):
    """Low-level models on parts of the data, then a high level on rows that they did not see.

    Attributes
    ----------
    high : Objective or None
        None where votes or a single model need no second part.
    division : Division
        Into parts of the low level, and the high level's last.
    baseline : float
        Public score of the base rate: what every intercept shrinks towards.
    combiner : {"stack", "vote", "weighted_vote"}
        How several models are combined.
    theorem : str
        The page that proves the whole.
    high_start : HighStart or None
        The high level of another organisation's stack, to start from.
    n_classes : int
        Of more than two the high level weighs groups, the same for all classes: it learns from
        margins, see :func:`margin_rows`.
    """

    combiner: Combiner
    high: Objective | None
    division: Division
    baseline: float
    theorem: str
    high_start: HighStart | None = None
    n_classes: int = 2

    @property
    @abstractmethod
    def low_guarantees(self) -> list[Guarantee]:
        """Prices of the low level, one for each of its disjoint parts of the rows."""

    @property
    @abstractmethod
    def baselines(self) -> list[Floats]:
        """Weights of every low-level model that score every row the baseline."""

    @property
    @abstractmethod
    def high_weights(self) -> Sequence[float]:
        """Weights of the low-level models' logits that the high level shrinks towards."""

    @abstractmethod
    def low_terms(self, data: LabelledTable, parts: Sequence[NDArray[np.intp]]) -> list[Term]:
        """Return the mechanisms of the low level with their rows, of each part."""

    @abstractmethod
    def model(self, k: int, weights: Floats, sharpness: float) -> LowLevelModel:
        """Return released weights as a model of rows as given."""

    @abstractmethod
    def scores(self, models: Sequence[LowLevelModel], X: Floats) -> Floats:
        """Return the models' scores, one column each."""

    def guarantee(self) -> Guarantee:
        """Return the price of the whole stack: disjoint parts, so the largest of them."""
        parts = self.low_guarantees + ([] if self.high is None else [self.high.guarantee()])
        return in_parallel(parts, split=self.division.split, theorem=self.theorem)

    def apart(self, low: Iterable[Objective]) -> Apart:
        """Return what the ledger keeps of mechanisms on disjoint parts."""
        parts = (*low, *([] if self.high is None else [self.high]))
        return Apart(tuple(one.event() for one in parts), self.division.split)

    @abstractmethod
    def low_minimisers(self) -> Sequence[Act]:
        """Return the act behind every low-level model."""

    @property
    def clips(self) -> tuple[Clip | None, Clip | None]:
        """What happens to a whole row, and to every group's columns, before they are scored."""
        return None, None

    def release(self, data: LabelledTable, source: RandomSource) -> dict[str, Floats]:
        """Return every low-level model's noised weights, and the high level's if there is one."""
        own, rows_of = source.apart(self.division.split), self._parts(data, source)
        weights: list[Floats] = []
        for term in self.low_terms(data, rows_of):
            released = term.mechanism.sample(*term.data, source=next(own), **term.settings)
            weights += [each[0] for each in released]
        found = {_low(k): w for k, w in enumerate(weights)}
        if self.high is not None:
            last = rows_of[-1]
            scores = self.scores(self._models(weights), data.X[last])
            labels = data.signs[last]
            if self.n_classes > 2:
                rows, labels = margin_rows(scores, data.codes[last]), np.ones(len(last))
            else:
                rows = high_level_rows(scores)
            ((found["high"],),) = self.high.sample(
                [rows], labels, source=next(own), centres=[self.high_prior]
            )
        return found

    def terms(self, data: LabelledTable) -> list[Term]:
        """Return the low level; see :meth:`later_mechanisms` for the high one."""
        return self.low_terms(data, self._parts(data, SeededSource(0)))

    def _parts(self, data: LabelledTable, source: RandomSource) -> list[NDArray[np.intp]]:
        return self.division.parts(len(data.codes), source)

    @property
    def batched(self) -> bool:
        """Whether many runs share their passes over the rows."""
        return self.n_classes == 2 and isinstance(self.division.count, int)

    def assemble(self, released: Mapping[str, Floats], names: Names) -> Stack:
        """Return the stack of rows as given."""
        low = self._models([released[_low(k)] for k in range(len(self.baselines))])
        whole, each = self.clips
        return Stack(
            groups=tuple(replace(model, clip=each) for model in low),
            clip=whole,
            facts=self.facts(),
            classes=names.classes,
            features=names.features,
            **self._combined(low, released.get("high")),
        )

    def minimisers(self) -> dict[str, Act]:
        """Return the act behind every low-level model and the high level."""
        acts = {_low(k): act for k, act in enumerate(self.low_minimisers())}
        return acts if self.high is None else acts | {"high": self.high.act}

    def _models(self, weights: Sequence[Floats]) -> list[LowLevelModel]:
        """Return released weights as models, sharpened for the high level."""
        factor = 1.0 if self.high is None else self._sharpness(self._learned(weights))
        return [self.model(k, w, factor) for k, w in enumerate(weights)]

    def _learned(self, weights: Sequence[Floats]) -> list[Floats]:
        return [w - base for w, base in zip(weights, self.baselines, strict=True)]

    def _combined(self, low: Sequence[LowLevelModel], high: Floats | None) -> dict[str, Any]:
        """Return the high level: released weights of meta features, or the votes' own."""
        if high is not None and self.n_classes > 2:
            return {"coef": high / 2, "intercept": 0.0}
        if high is not None:
            coef, intercept = high_level_coefficients(high)
            return {"coef": coef, "intercept": intercept}
        if len(low) == 1:
            return {"coef": np.ones(1), "intercept": low[0].baseline, "combine": "alone"}
        weighted = self.combiner == "weighted_vote"
        votes = [model.importance if weighted else 1 / len(low) for model in low]
        return {"coef": np.asarray(votes), "combine": "vote"}

    def run_many(self, data: LabelledTable, source: RandomSource, count: int) -> Floats:
        """Return all low-level weights and then the high level's, one run per row."""
        low = super().run_many(data, source, count)
        if self.high is None:
            return low
        ends = np.cumsum([len(base) for base in self.baselines])[:-1]
        high = self._run_high(np.split(low, ends, axis=1), data, self.high, source)
        return np.hstack([low, high])

    def later_mechanisms(self) -> tuple[Any, ...]:
        """Return the high level, whose rows are made of what the low level released."""
        return () if self.high is None else (self.high,)

    @property
    def high_prior(self) -> Floats:
        """The public point that the high level shrinks towards."""
        if self.high_start is not None:
            return self.high_start.weights
        return high_level_prior(self.high_weights, self.baseline, self.n_classes)

    def _sharpness(self, learned: Sequence[Floats]) -> float:
        """Return the factor on scores: a source's own, for its high level was learned with it."""
        return common_sharpness(learned) if self.high_start is None else self.high_start.sharpness

    def _run_high(
        self,
        weights: Sequence[Floats],
        data: LabelledTable,
        high: Objective,
        source: RandomSource,
    ) -> Floats:
        """Return the high level's release for every run of the low level.

        A score is an affine function of its model's weights, and zero at the baseline's: it is
        read off at every unit vector, and the runs are multiplied through.
        """
        last = self._parts(data, source)[-1]
        learned = self._learned(weights)
        count = len(learned[0])
        runs = np.empty((count, len(last), len(learned)))
        for k, steps in enumerate(learned):
            columns = []
            for unit in np.eye(steps.shape[1]):
                moved = [b + unit if j == k else b for j, b in enumerate(self.baselines)]
                models = [self.model(j, w, 1.0) for j, w in enumerate(moved)]
                columns.append(self.scores(models, data.X[last])[:, k])
            runs[:, :, k] = steps @ np.array(columns)
        factors = [self._sharpness([steps[i] for steps in learned]) for i in range(count)]
        runs *= np.array(factors)[:, None, None]
        # Every run has rows of its own with the same labels, as if it were another party.
        rows, labels = high_level_rows(runs.reshape(-1, len(learned))), data.signs[last]
        return sample_parties(
            {len(last): high},
            [(rows, np.tile(labels, count), len(last) * np.arange(count + 1))],
            source=source,
            centre=self.high_prior,
        )


def check_stack_classes(n_classes: int, baseline: float) -> None:
    """Refuse a declared base rate of several classes: it says nothing about which."""
    if n_classes > 2 and baseline != 0:
        raise InvalidParameter("prior_intercept is for two classes.")


def class_coefficients(
    coefficients: Callable[[Floats], tuple[Floats, float]], weights: Floats
) -> tuple[Floats, float | Floats]:
    """Return coefficients and intercept of released weights, of several classes one row each.

    What all classes share says nothing about any of them, and is taken off.
    """
    if weights.ndim == 1:
        return coefficients(weights)
    pairs = [coefficients(each) for each in weights - weights.mean(axis=0)]
    return np.array([coef for coef, _ in pairs]), np.array([one for _, one in pairs])


def _low(k: int) -> str:
    return f"low_{k}"


def common_sharpness(released: Sequence[Floats]) -> float:
    """Return the factor that brings the longest of the weights on unit rows to ``sqrt(d)``.

    A strong ridge makes small weights, small scores and meta features that drown in the high
    level's noise, although their ranking is good. The weights are released already, so sharpening
    costs nothing. One factor for all models keeps what their lengths say about how much they
    learned; weights that are longer, as learned from much data, are left alone.
    """
    longest = max(released, key=_length)
    length = _length(longest)
    return max(1.0, math.sqrt(longest.shape[-1]) / length) if length else 1.0


def _length(weights: Floats) -> float:
    """Return the norm, of several classes the root of their mean square norm."""
    n_scores = len(weights) if weights.ndim == 2 else 1
    return float(np.linalg.norm(weights)) / math.sqrt(n_scores)


def high_level_mechanism(
    allowed: Allowance, alpha: Alpha, prior: Floats, near: Near | None = None
) -> Objective:
    """Return the high level's mechanism: PLR on meta features and a constant, or on margins."""
    own = allowed.two_classes
    return own.objective(L2(len(prior)), ridge_for(own, len(prior), alpha, near=near), prior)


def high_level_rows(scores: Floats) -> Floats:
    """Return the high level's rows, constant included, inside the ball whatever the scores."""
    return np.asarray(into_ball(meta_features(scores), constant=HIGH_LEVEL_CONSTANT))


def margin_rows(scores: Floats, codes: NDArray[np.intp]) -> Floats:
    """Return rows of several classes for the high level, inside the ball whatever the scores.

    For every record and group half of what the meta feature of its own class is above the mean of
    the others'. Whoever is right more often than by chance has a positive mean, so that weights
    keep their sign; margins to the strongest rival are negative wherever a model is weak, and
    turned weak stacks round. A row is a function of one record and of what was released, as in any
    private regression, and has no label but +1.

    Parameters
    ----------
    scores : (n, K, groups) array
        Of the low level.
    codes : (n,) array
        Own classes.
    """
    meta = meta_features(scores)
    at = np.arange(len(codes))
    own = meta[at, codes]
    others = (meta.sum(axis=1) - own) / (meta.shape[1] - 1)
    return np.asarray(into_ball((own - others) / 2))


def high_level_prior(weights: ArrayLike, baseline: float = 0.0, n_classes: int = 2) -> Floats:
    """Return the public point to shrink towards: the weighted sum of the low level's logits.

    ``2 tanh(s/2)`` is ``s`` for small scores, so ``sum_k w_k s_k`` is this multiple of the meta
    features; weights of one are the naive Bayes rule for groups of features, weights that sum to
    one the average for groups of samples. The intercept starts from the baseline. Margins of
    several classes are half a difference of meta features, and have no intercept.
    """
    shrink = math.sqrt(1 - HIGH_LEVEL_CONSTANT**2)
    factors = np.asarray(weights, dtype=np.float64)
    if n_classes > 2:
        return 4 * math.sqrt(len(factors)) * factors
    return np.append(2 * math.sqrt(len(factors)) / shrink * factors, baseline / HIGH_LEVEL_CONSTANT)


def high_level_weights(coef: Floats, intercept: float) -> Floats:
    """Invert :func:`high_level_coefficients`."""
    shrink = math.sqrt(1 - HIGH_LEVEL_CONSTANT**2)
    return np.append(coef / shrink, intercept / HIGH_LEVEL_CONSTANT)


def high_level_coefficients(weights: Floats) -> tuple[Floats, float]:
    """Return the released weights of :func:`high_level_rows` as those of meta features."""
    shrink = math.sqrt(1 - HIGH_LEVEL_CONSTANT**2)
    return np.asarray(weights[:-1] * shrink), float(weights[-1] * HIGH_LEVEL_CONSTANT)
