"""Choose settings privately, and pay for the choice: parts or random stopping.

Proof: research/proofs/private_selection.md. What it brings, and why the library's defaults are
better: docs/algorithms/papers.md.

Errors are whole numbers, of misclassified records or of squared errors added up
(:func:`brier_score`), on a part that no candidate was fitted on: replacing one record moves every
candidate's number by at most one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from typing_extensions import override

from confrere.errors import CompositionError, InvalidData, InvalidParameter
from confrere.estimators.base import Epsilon, Fraction, PrivateClassifier, Share
from confrere.kernel.guarantee import (
    ASSUMPTIONS,
    Apart,
    Guarantee,
    Neighbours,
    Split,
    Together,
    check_epsilon,
    check_relation,
    one_of,
)
from confrere.kernel.streams import Measurement, RandomSource
from confrere.mechanisms.measurements import Point
from confrere.mechanisms.measurements import counts as noised_counts
from confrere.methods.allowance import shares
from confrere.methods.plan import LabelledTable, Plan, PublicFacts, Term
from confrere.methods.stacks import split_rows
from confrere.model import Model
from confrere.release import Release
from confrere.schema import SchemaEncoder

THEOREM = "research/proofs/private_selection.md"
Rule = Literal["permute-and-flip", "exponential"]

#: Squared errors are counted in whole parts of one.
_UNITS = 1000


@dataclass(frozen=True, kw_only=True)
class ErrorSelection(Measurement[ArrayLike, list[int]]):
    """Choose one of several candidates by their numbers of errors, all on the same records.

    Parameters
    ----------
    epsilon : float
        The price.
    rule : {"permute-and-flip", "exponential"}
        Permute-and-flip never expects more errors than the exponential mechanism does.
    neighbours : Neighbours
        Either relation: both move an error count by at most one.
    """

    epsilon: float
    rule: Rule = "permute-and-flip"
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_relation(self.neighbours)
        if self.rule not in ("permute-and-flip", "exponential"):
            raise InvalidParameter("rule must be 'permute-and-flip' or 'exponential'.")

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        one = Guarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            theorem=THEOREM,
            public=("number of records", "candidates"),
            assumptions=ASSUMPTIONS,
        )
        return one.guarantee(units)

    def acceptance(self, errors: ArrayLike) -> NDArray[np.float64]:
        """Return ``exp(-epsilon/2 (errors - fewest))`` of every candidate."""
        counts = np.asarray(errors, dtype=np.float64)
        return np.asarray(np.exp(-self.epsilon / 2 * (counts - counts.min())))

    def law(self, errors: ArrayLike) -> NDArray[np.float64]:
        """Return the exact probability of choosing every candidate.

        For permute-and-flip, candidate ``r`` arriving at a uniform time ``t`` wins if it is
        accepted and nobody before it was: ``p_r`` times the integral of
        ``prod_{s != r} (1 - t p_s)``, a polynomial that Gauss's rule integrates exactly.
        """
        p = self.acceptance(errors)
        if self.rule == "exponential":
            return np.asarray(p / p.sum())
        nodes, weights = np.polynomial.legendre.leggauss(len(p) // 2 + 1)
        times, weights = (nodes + 1) / 2, weights / 2
        factors = 1 - times[:, None] * p
        return np.array(
            [p[r] * (weights @ np.delete(factors, r, axis=1).prod(axis=1)) for r in range(len(p))]
        )

    @override
    def sample(self, rows: ArrayLike, stream: RandomSource, count: int = 1) -> list[int]:
        """Return the position of the chosen candidate, of errors of each."""
        p = self.acceptance(rows)
        return [self._chosen(p, stream) for _ in range(count)]

    def _chosen(self, p: NDArray[np.float64], stream: RandomSource) -> int:
        if self.rule == "exponential":
            ends = np.cumsum(p)
            reached = np.searchsorted(ends, stream.uniforms(1)[0] * ends[-1])
            return min(int(reached), len(p) - 1)
        order = np.argsort(stream.uniforms(len(p)))
        flips = stream.uniforms(len(p))
        accepted = order[flips <= p[order]]
        # The best candidate is always accepted.
        return int(accepted[0])


@dataclass(frozen=True, kw_only=True)
class RandomStopping:
    """How often to run a private candidate before the best run is released.

    The number of runs has the truncated negative binomial law with ``shape > -1`` and rate
    ``gamma`` in (0, 1): 1 is geometric, 0 logarithmic. Best-of-that-many runs of an
    ``epsilon``-private mechanism is ``(2 + shape) epsilon``-private, however many are expected.

    Parameters
    ----------
    shape : float
        Shape; smaller is cheaper, with heavier weight on a single run.
    expected : float
        Expected number of runs, above 1.
    """

    shape: float
    expected: float

    def __post_init__(self) -> None:
        if not self.shape > -1 or not math.isfinite(self.shape):
            raise InvalidParameter("shape must be a finite number above -1.")
        if not 1 < self.expected <= 1e6:
            raise InvalidParameter("the expected number of runs must lie above 1, at most 1e6.")

    @property
    def factor(self) -> float:
        """How many times the price of one run all of them cost together."""
        return 2 + self.shape

    @property
    def gamma(self) -> float:
        """The rate with the asked expectation, by bisection: fewer runs at a larger rate."""
        low, high = 0.0, 1.0
        while True:
            middle = (low + high) / 2
            if middle in (low, high):
                return middle
            if _expectation(self.shape, middle) > self.expected:
                low = middle
            else:
                high = middle

    def law(self, largest: int) -> NDArray[np.float64]:
        """Return the probabilities of 1, 2, ..., ``largest`` runs."""
        gamma = self.gamma
        k = np.arange(1, largest + 1, dtype=np.float64)
        if self.shape == 0:
            first = (1 - gamma) / math.log(1 / gamma)
        else:
            first = self.shape * (1 - gamma) / (gamma**-self.shape - 1)
        ratios = (1 - gamma) * (k[:-1] + self.shape) / (k[:-1] + 1)
        return np.asarray(first * np.cumprod(np.concatenate([[1.0], ratios])))

    def draw(self, source: RandomSource) -> int:
        """Return a number of runs."""
        u, largest = float(source.uniforms(1)[0]), 1024
        while True:
            ends = np.cumsum(self.law(largest))
            if u <= ends[-1] or 1 - ends[-1] < 1e-14:
                return min(int(np.searchsorted(ends, u)) + 1, largest)
            largest *= 4


@dataclass(frozen=True)
class _Runs(Measurement[Callable[[list[int], RandomSource], tuple[int, Any]], tuple[int, Any]]):
    """Which candidates are run, one after the other, and what comes of all runs together."""

    price: Guarantee  # Of all runs
    stopping: RandomStopping
    n_candidates: int

    @override
    def guarantee(self, units: int = 1) -> Guarantee:
        return self.price.guarantee(units)

    @override
    def sample(
        self,
        rows: Callable[[list[int], RandomSource], tuple[int, Any]],
        stream: RandomSource,
        count: int = 1,
    ) -> tuple[int, Any]:
        most = self.n_candidates - 1
        places = stream.uniforms(self.stopping.draw(stream))
        return rows([min(int(place * (most + 1)), most) for place in places], _Within(stream))


class _Within(RandomSource):
    """The stream of one draw, for what is run inside of it, at the price of that draw."""

    simulated = True  # the ticket says what is not

    def __init__(self, stream: RandomSource) -> None:
        self._words = stream._words  # type: ignore[method-assign]

    def _words(self, count: int) -> NDArray[np.uint64]:
        raise NotImplementedError


def _expectation(shape: float, gamma: float) -> float:
    if shape == 0:
        return (1 / gamma - 1) / math.log(1 / gamma)
    return float(shape * (1 - gamma) / (gamma * (1 - gamma**shape)))


def brier_score(probabilities: NDArray[np.float64], codes: NDArray[np.intp]) -> int:
    """Return the rows' squared errors added up, rounded down; one row moves it by one at most.

    A row's error is half the squared distance of its probabilities from its class, in whole
    thousandths. It is bounded once it is an integer, from 0 to 1000, whatever the probabilities
    are; what is no number counts as the worst. Sums of integers are exact, and rounding down keeps
    a move of at most one at most one.

    Parameters
    ----------
    probabilities : (n, K) array
        Of every class.
    codes : (n,) array
        The classes, ``0 .. K-1``.
    """
    errors = np.clip(probabilities, 0.0, 1.0)
    errors[np.arange(len(codes)), codes] -= 1
    parts = np.rint(_UNITS / 2 * (errors**2).sum(axis=1))
    thousandths = np.where(np.isnan(parts), _UNITS, parts).astype(np.int64)
    return int(np.clip(thousandths, 0, _UNITS).sum()) // _UNITS


Scoring = Literal["brier", "errors"]


@dataclass(frozen=True, eq=False)
class Setting:
    """A private classifier with one of the declared settings."""

    estimator: Any
    settings: Mapping[str, Any]
    n_features: int

    @property
    def name(self) -> str:
        """The settings as text, for the ledger."""
        return ", ".join(f"{k}={v!r}" for k, v in sorted(self.settings.items()))

    def price(self, epsilon: float, n_rows: int) -> Guarantee:
        """Return what fitting it on so many rows costs; touches no data."""
        guarantee: Guarantee = self._model(epsilon).price(n_rows, self.n_features)
        return guarantee

    def fit(self, epsilon: float, data: LabelledTable, source: RandomSource) -> Any:
        """Return the fitted classifier; the selection has paid for it."""
        model = self._model(epsilon).set_params(classes=data.classes)
        plan, records = model.prepare(data.X, data.classes[data.codes])
        return model.learn(plan, records, source)

    def _model(self, epsilon: float) -> Any:
        return clone(self.estimator).set_params(**self.settings).set_params(epsilon=epsilon)


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectionPlan(Plan[tuple[int, Any]]):
    """Fit candidates, score them on rows that they did not see, and choose one privately.

    Attributes
    ----------
    candidates : sequence of Setting
        Declared before the data are seen.
    scoring : {"brier", "errors"}
        What is added up over held-out rows.
    parts : list of int arrays
        Disjoint rows; the held-out ones last.
    split : Split
        How they were made.
    total : Guarantee
        Price of all of it.
    """

    candidates: Sequence[Setting]
    scoring: Scoring
    parts: list[NDArray[np.intp]]
    split: Split
    total: Guarantee

    def guarantee(self) -> Guarantee:
        """Return the price of the choice and of the final model together."""
        return self.total

    def terms(self, data: LabelledTable) -> list[Term]:  # noqa: ARG002
        """Refuse: which model is released is part of what is released."""
        raise InvalidParameter("a selection has no simple density; audit whole fits.")

    @property
    def batched(self) -> bool:
        """Candidates are fitted anew for every run."""
        return False

    def errors(self, model: Any, held_out: LabelledTable) -> int:
        """Return a model's score on held-out rows, the less the better."""
        if self.scoring == "errors":
            wrong = model.predict(held_out.X) != held_out.classes[held_out.codes]
            return int(np.count_nonzero(wrong))
        return brier_score(model.predict_proba(held_out.X), held_out.codes)


@dataclass(frozen=True, kw_only=True, eq=False)
class PartsPlan(SelectionPlan):
    """Every candidate on a part of its own, the choice on another, then perhaps a refit on all.

    Attributes
    ----------
    selection : ErrorSelection
        The choice among the candidates' errors.
    refit_epsilon : float or None
        What is kept for fitting the chosen candidate on all rows.
    """

    selection: ErrorSelection
    refit_epsilon: float | None

    def run(self, data: LabelledTable, source: RandomSource) -> tuple[int, Any]:
        """Return the chosen candidate's position and its released model."""
        *own, held_out = self.parts
        epsilon = self.selection.epsilon
        apart = source.apart(self.split)
        models = [
            candidate.fit(epsilon, _some(data, rows), next(apart))
            for candidate, rows in zip(self.candidates, own, strict=True)
        ]
        unseen = _some(data, held_out)
        errors = [self.errors(m, unseen) for m in models]
        (best,) = next(apart).draw(self.selection, errors)
        if self.refit_epsilon is None:
            return best, models[best]
        return best, self.candidates[best].fit(self.refit_epsilon, data, source)


@dataclass(frozen=True, kw_only=True, eq=False)
class StoppingPlan(SelectionPlan):
    """Candidates at random, a random number of times; the run with the fewest noisy errors wins.

    Attributes
    ----------
    counts : Point
        Noise on a run's errors.
    stopping : RandomStopping
        Law of the number of runs, which is never released.
    one : Guarantee
        What a single run promises.
    """

    counts: Point
    stopping: RandomStopping
    one: Guarantee

    def run(self, data: LabelledTable, source: RandomSource) -> tuple[int, Any]:
        """Return the winner's candidate and its released model; ties go to the earlier run."""
        fitted_on, held_out = (_some(data, rows) for rows in self.parts)

        def best_of(chosen: list[int], run: RandomSource) -> tuple[int, Any]:
            best: tuple[int, int, Any] | None = None
            for k in chosen:
                model = self.candidates[k].fit(self.counts.promise.epsilon, fitted_on, run)
                wrong = np.array([self.errors(model, held_out)])
                score = int(run.draw(self.counts, wrong)[0][0, 0])
                if best is None or score < best[0]:
                    best = score, k, model
            assert best is not None
            return best[1], best[2]

        return source.draw(_Runs(self.total, self.stopping, len(self.candidates)), best_of)


def plan_parts(
    n_samples: int,
    candidates: Sequence[Setting],
    *,
    scoring: Scoring,
    epsilon: float,
    held_out: float,
    refit_share: float,
    rule: Rule,
    split_seed: int | None,
) -> PartsPlan:
    """Return the plan of a choice on disjoint parts."""
    n_candidates = len(candidates)
    fractions = [(1 - held_out) / n_candidates] * n_candidates + [held_out]
    parts = _split(n_samples, fractions, split_seed)
    choice, refit = (
        shares(epsilon, [1 - refit_share, refit_share]) if refit_share else (epsilon, None)
    )
    prices = [
        candidate.price(choice, len(rows))
        for candidate, rows in zip(candidates, parts[:-1], strict=True)
    ]
    selection = ErrorSelection(epsilon=choice, rule=rule, neighbours=prices[0].neighbours)
    total = Apart([*prices, selection], _kind(split_seed), THEOREM).guarantee()
    if refit is not None:
        refits = [candidate.price(refit, n_samples) for candidate in candidates]
        both = Together([total, one_of(refits)], THEOREM).guarantee()
        total = replace(both, epsilon=epsilon)  # shares may be a rounding short of it
    return PartsPlan(
        candidates=candidates,
        scoring=scoring,
        parts=parts,
        split=_kind(split_seed),
        total=total,
        selection=selection,
        refit_epsilon=refit,
    )


def plan_stopping(
    n_samples: int,
    candidates: Sequence[Setting],
    *,
    scoring: Scoring,
    epsilon: float,
    held_out: float,
    stopping: RandomStopping,
    split_seed: int | None,
) -> StoppingPlan:
    """Return the plan of a choice by random stopping."""
    parts = _split(n_samples, [1 - held_out, held_out], split_seed)
    share = epsilon / stopping.factor
    while share * stopping.factor > epsilon:
        share = math.nextafter(share, 0.0)
    prices = [candidate.price(share, len(parts[0])) for candidate in candidates]
    counts = noised_counts(share, 1, prices[0].neighbours)
    one = Apart([*prices, counts], _kind(split_seed), THEOREM).guarantee()
    if not one.pure or one.epsilon > share:
        raise CompositionError("random stopping needs candidates that are epsilon-DP, pure.")
    unseen = "nobody observes how many candidates were tried, nor how long that took"
    total = replace(one, epsilon=epsilon, assumptions=(*one.assumptions, unseen))
    return StoppingPlan(
        candidates=candidates,
        scoring=scoring,
        parts=parts,
        split=_kind(split_seed),
        total=total,
        counts=counts,
        stopping=stopping,
        one=one,
    )


def _split(n_samples: int, fractions: Sequence[float], seed: int | None) -> list[NDArray[np.intp]]:
    parts = split_rows(n_samples, fractions, seed=seed)
    if any(len(part) == 0 for part in parts):
        raise InvalidData(
            f"n_samples is too small: {len(fractions)} disjoint parts need one sample each."
        )
    return parts


def _kind(seed: int | None) -> Split:
    return Split.BY_INDEX if seed is None else Split.SEEDED_PERMUTATION


def _some(data: LabelledTable, rows: NDArray[np.intp]) -> LabelledTable:
    party = None if data.party is None else data.party[rows]
    return replace(data, X=data.X[rows], codes=data.codes[rows], party=party)


#: What the selection decides for its candidates.
_OURS = ("epsilon", "ledger", "account", "random_state", "classes", "schema")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSelection(PrivateClassifier):
    """Choose a private classifier's settings, in the manner of ``GridSearchCV``, and pay for it.

    The whole price is charged once, before any candidate is fitted; candidates are fitted inside
    that price.

    Parameters
    ----------
    estimator : private classifier
        Its ``epsilon``, ``ledger``, ``account``, ``classes`` and ``random_state`` are set by the
        selection. Its ``schema``, if it has one, is the selection's.
    grid : dict of lists, or list of such dicts
        The candidates, declared before the data are seen.
    epsilon : float, default=1.0
        Price of one ``fit``, the choice and the final model together.
    strategy : {"parts", "random-stopping"}, default="parts"
        ``"parts"``: every candidate is fitted on a part of the rows of its own, and one is chosen
        by its score on another part. ``"random-stopping"``: candidates drawn at random are fitted
        on the same rows, a random and secret number of times, and the run with the best noisy
        score is released; each run has ``epsilon / (2 + stopping_shape)``. For many candidates.
    scoring : {"brier", "errors"}, default="brier"
        What is added up over held-out rows, from 0 to 1 each, the less the better: squared errors
        of the probabilities (in thousandths, the sum rounded down), or wrong predictions. Where one
        class is rare, hardly any model predicts it and errors tell candidates apart badly.
    rule : {"permute-and-flip", "exponential"}, default="permute-and-flip"
        How ``"parts"`` chooses.
    held_out : float, default=0.2
        Share of the rows that candidates are scored on.
    refit_share : float, default=0.7
        ``"parts"``: share of epsilon kept for fitting the chosen candidate on all rows; with 0 the
        model of its part is kept.
    stopping_shape : float, default=0.0
        Shape of the number of runs, above -1.
    expected_runs : float, optional
        How many runs to expect; by default the number of candidates (at least 2).
    split_seed : int or None, default=0
        Public seed of the split of rows; None splits rows by their index.
    classes : list, optional
        The public label set.
    ledger, account, random_state
        As in :class:`PrivateLogisticRegression`.

    Attributes
    ----------
    best_params_ : dict
        The chosen settings.
    best_index_ : int
        Their position in the grid.
    best_estimator_ : classifier
        The released model. Its guarantee and receipt are those of the selection.
    classes_, guarantee_, receipt_, simulated_
        As in :class:`PrivateLogisticRegression`.

    Notes
    -----
    **Privacy**

    :Unit: record
    :Neighbours: the candidates'; replace one row of ``(X, y)``
    :Guarantee: ``epsilon``-DP, pure
    :Spends: ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, the grid, the split, every parameter
    :Releases: ``best_params_``, ``best_estimator_``
    :Proof: research/proofs/private_selection.md

    Examples
    --------
    >>> from confrere import PrivateLogisticRegression
    >>> from confrere_research.private_selection import PrivateSelection
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=3000, random_state=0)
    >>> model = PrivateLogisticRegression(data_norm=5.0)
    >>> search = PrivateSelection(model, {"alpha": [1e-3, 1e-1]}, epsilon=2.0, random_state=0)
    >>> print(search.fit(X, y).guarantee_)
    2-DP per record (replace-one)
    """

    estimator: Any = field(kw_only=False)
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] = field(kw_only=False)
    epsilon: Epsilon = 1.0
    strategy: Literal["parts", "random-stopping"] = "parts"
    scoring: Literal["brier", "errors"] = "brier"
    rule: Literal["permute-and-flip", "exponential"] = "permute-and-flip"
    held_out: Fraction = 0.2
    refit_share: Share = 0.7
    stopping_shape: float = 0.0
    expected_runs: float | None = None
    split_seed: int | None = 0

    def plan(self, facts: PublicFacts) -> SelectionPlan:
        """Return everything that is decided before the data are touched."""
        # A candidate is a simulation if the selection is one.
        # Rows are encoded once, before they are divided.
        estimator = clone(self.estimator).set_params(random_state=self.random_state, schema=None)
        candidates = [
            Setting(estimator, settings, facts.n_features) for settings in self._settings()
        ]
        common: dict[str, Any] = {
            "scoring": self.scoring,
            "epsilon": self.epsilon,
            "held_out": self.held_out,
            "split_seed": self.split_seed,
        }
        if self.strategy == "parts":
            return plan_parts(
                facts.n_samples,
                candidates,
                refit_share=self.refit_share,
                rule=self.rule,
                **common,
            )
        expected = max(2, len(candidates)) if self.expected_runs is None else self.expected_runs
        stopping = RandomStopping(shape=self.stopping_shape, expected=expected)
        return plan_stopping(facts.n_samples, candidates, stopping=stopping, **common)

    def _model_in(self, learned: tuple[int, Any]) -> Model:
        model: Model = learned[1].model_
        encoder = self._encoder()
        return model if encoder is None else replace(model, features=encoder.schema.feature_names)

    def _keep(self, plan: SelectionPlan, learned: tuple[int, Any], model: Model) -> None:
        super()._keep(plan, learned, model)
        best, chosen = learned
        # Fitted again by hand, the model pays on the caller's ledger like any other.
        chosen.set_params(
            ledger=self.ledger,
            account=self.account,
            random_state=self.random_state,
            schema=self._encoder(),
        )
        chosen.model_, chosen.classes_ = self.model_, self.classes_
        chosen.guarantee_, chosen.receipt_ = self.guarantee_, self.receipt_
        chosen.simulated_ = self.simulated_
        self.best_index_ = best
        self.best_params_ = dict(plan.candidates[best].settings)
        self.best_estimator_ = chosen

    def to_release(self, encoder: SchemaEncoder | None = None) -> Release:
        """Return what may leave: the released model, with the selection's guarantee."""
        release: Release = self.best_estimator_.to_release(encoder)
        return release

    def _encoder(self, n_samples: int | None = None) -> SchemaEncoder | None:  # noqa: ARG002
        """Return what encodes raw tables: the estimator's own way, or this schema in its way."""
        if self.schema is None:
            return _encoder_of(self.estimator)
        return _encoder_of(clone(self.estimator).set_params(schema=self.schema))

    def _settings(self) -> list[dict[str, Any]]:
        """Return the candidates' settings, checked."""
        if not hasattr(self.estimator, "price"):
            raise InvalidParameter("estimator must be a private classifier: it states a price.")
        candidates = [dict(each) for each in ParameterGrid(self.grid)]
        if not candidates:
            raise InvalidParameter("grid must name at least one candidate.")
        taken = sorted({name for each in candidates for name in each} & set(_OURS))
        if taken:
            raise InvalidParameter(f"grid must not name {', '.join(taken)}: the selection does.")
        return candidates

    def _purpose(self) -> str:
        return f"fit PrivateSelection of {type(self.estimator).__name__}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        theirs = get_tags(self.estimator)
        tags.input_tags.sparse = theirs.input_tags.sparse
        tags.classifier_tags.multi_class = theirs.classifier_tags.multi_class
        return tags


def _encoder_of(estimator: Any) -> SchemaEncoder | None:
    if not isinstance(estimator, PrivateClassifier):
        raise InvalidParameter("estimator must be a private classifier: it states a price.")
    return estimator._encoder()
