"""Choose settings privately, and pay for the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags

from confrere.errors import InvalidParameter
from confrere.estimators.base import PrivateClassifier
from confrere.estimators.constraints import Epsilon, Fraction, Share, renamed
from confrere.guarantee import Guarantee
from confrere.mechanisms.selection import RandomStopping
from confrere.model import Model
from confrere.noise.sources import RandomSource, SeededSource
from confrere.plans.base_plan import LabelledTable, PublicFacts
from confrere.plans.selection_plan import SelectionPlan, plan_parts, plan_stopping
from confrere.release import Release
from confrere.schema import SchemaEncoder

#: What the selection decides for its candidates.
_OURS = ("epsilon", "ledger", "account", "random_state", "classes", "schema")


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


@renamed(method="strategy", eta="stopping_shape")
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
    :Proof: docs/proofs/private_selection.md

    Examples
    --------
    >>> from confrere import PrivateLogisticRegression, PrivateSelection
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

    def _keep(self, plan: SelectionPlan, learned: tuple[int, Any]) -> None:
        super()._keep(plan, learned)
        best, model = learned
        # Fitted again by hand, the model pays on the caller's ledger like any other.
        model.set_params(
            ledger=self.ledger,
            account=self.account,
            random_state=self.random_state,
            schema=self._encoder(),
        )
        model.model_, model.classes_ = self.model_, self.classes_
        model.guarantee_, model.receipt_ = self.guarantee_, self.receipt_
        model.simulated_ = self.simulated_
        self.best_index_ = best
        self.best_params_ = dict(plan.candidates[best].settings)
        self.best_estimator_ = model

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


def _own_stream(source: RandomSource) -> RandomSource:
    """Return a stream for a candidate's noise in a simulation, and the system's otherwise."""
    return SeededSource(int(source.uniforms(1)[0] * 2**31)) if source.simulated else source
