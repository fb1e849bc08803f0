"""Choose settings privately, and pay for the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags

from confrere.errors import InvalidParameter
from confrere.estimators.base import PrivateClassifier, check_choice
from confrere.estimators.selection_plan import (
    PartsPlan,
    StoppingPlan,
    candidate_names,
    plan_parts,
    plan_stopping,
)
from confrere.guarantee import Guarantee, check_epsilon
from confrere.ledger import Ledger
from confrere.mechanisms.selection import RandomStopping, Rule, brier_score
from confrere.noise.sources import RandomSource, Seed
from confrere.release import Release
from confrere.schema import PublicSchema

#: What the selection decides for its candidates.
_OURS = ("epsilon", "ledger", "account", "random_state", "classes")


class PrivateSelection(PrivateClassifier):
    """Choose a private classifier's settings, in the manner of ``GridSearchCV``, and pay for it.

    The whole price is charged once, before any candidate is fitted. Candidates are fitted inside
    that price, on a ledger of their own that is thrown away.

    Parameters
    ----------
    estimator : private classifier
        Its ``epsilon``, ``ledger``, ``account``, ``classes`` and ``random_state`` are set by the
        selection.
    grid : dict of lists, or list of such dicts
        The candidates, declared before the data are seen.
    epsilon : float, default=1.0
        Price of one ``fit``, the choice and the final model together.
    method : {"parts", "random-stopping"}, default="parts"
        ``"parts"``: every candidate is fitted on a part of the rows of its own, and one is chosen
        by its score on another part. ``"random-stopping"``: candidates drawn at random are fitted
        on the same rows, a random and secret number of times, and the run with the best noisy
        score is released; each run has ``epsilon / (2 + eta)``. For many candidates.
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
    eta : float, default=0.0
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

    Privacy
    -------
    Unit : record
    Neighbours : the candidates'; replace one row of ``(X, y)``
    Guarantee : ``epsilon``-DP, pure
    Spends : ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    Public : n_samples, n_features, the label set, the grid, the split, every parameter
    Releases : best_params_, best_estimator_
    Proof : docs/proofs/private_selection.md

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

    def __init__(
        self,
        estimator: Any,
        grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        epsilon: float = 1.0,
        method: Literal["parts", "random-stopping"] = "parts",
        scoring: Literal["brier", "errors"] = "brier",
        rule: Rule = "permute-and-flip",
        held_out: float = 0.2,
        refit_share: float = 0.7,
        eta: float = 0.0,
        expected_runs: float | None = None,
        split_seed: int | None = 0,
        classes: ArrayLike | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.epsilon = epsilon
        self.method = method
        self.scoring = scoring
        self.rule = rule
        self.held_out = held_out
        self.refit_share = refit_share
        self.eta = eta
        self.expected_runs = expected_runs
        self.split_seed = split_seed
        self.classes = classes
        self.ledger = ledger
        self.account = account
        self.random_state = random_state

    def price(self, n_samples: int, n_features: int) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data."""
        return self._plan(n_samples, n_features, self._candidates()).price

    def fit(self, X: Any, y: Any) -> PrivateSelection:
        """Charge ``epsilon``, then choose and release a model of ``(X, y)``."""
        candidates = self._candidates()
        ledger = self._open_ledger()
        rows, codes, classes = self._validate(X, y, sparse=self._tags().input_tags.sparse)
        if len(classes) > 2 and not self._tags().classifier_tags.multi_class:
            raise InvalidParameter(
                "Only binary classification is supported. classes must name two labels."
            )
        n_samples, n_features = rows.shape
        plan = self._plan(n_samples, n_features, candidates)
        labels = classes[codes]
        aside = Ledger()

        def fit(k: int, epsilon: float, part: NDArray[np.intp] | None, source: RandomSource) -> Any:
            model = self._candidate(candidates[k], epsilon).set_params(
                ledger=aside, account=None, classes=classes, random_state=_seed(source)
            )
            return model.fit(rows, labels) if part is None else model.fit(rows[part], labels[part])

        def errors(model: Any, part: NDArray[np.intp]) -> int:
            if self.scoring == "errors":
                return int(np.count_nonzero(model.predict(rows[part]) != labels[part]))
            return brier_score(model.predict_proba(rows[part]), codes[part])

        best, model = self._spend(
            ledger,
            plan.price,
            lambda source: plan.run(fit, errors, source),
            purpose=f"fit PrivateSelection of {type(self.estimator).__name__}",
            detail={
                "candidates": candidate_names(candidates),
                "scoring": self.scoring,
                **plan.detail(),
            },
        )
        # Fitted again by hand, the model pays on the caller's ledger like any other.
        model.set_params(ledger=self.ledger, account=self.account, random_state=self.random_state)
        model.guarantee_, model.receipt_ = self.guarantee_, self.receipt_
        model.simulated_ = self.simulated_
        self.classes_ = classes
        self.best_index_ = best
        self.best_params_ = dict(candidates[best])
        self.best_estimator_ = model
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the released model's scores."""
        return np.asarray(self._released(X, "decision_function"))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the released model's class probabilities."""
        return np.asarray(self._released(X, "predict_proba"))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the released model's most probable classes."""
        return np.asarray(self._released(X, "predict"))

    def to_release(self, schema: PublicSchema | None = None) -> Release:
        """Return what may leave: the released model, with the selection's guarantee."""
        release: Release = self.best_estimator_.to_release(schema)
        return release

    def _released(self, X: Any, method: str) -> Any:
        rows = self._validate_rows(X)
        return getattr(self.best_estimator_, method)(rows)

    def _candidates(self) -> list[dict[str, Any]]:
        """Check every setting, and return the candidates."""
        check_epsilon(self.epsilon)
        check_choice(self.method, "method", ("parts", "random-stopping"))
        check_choice(self.scoring, "scoring", ("brier", "errors"))
        if not 0 < self.held_out < 1:
            raise InvalidParameter("held_out must lie strictly between 0 and 1.")
        if not 0 <= self.refit_share < 1:
            raise InvalidParameter("refit_share must be at least 0 and below 1.")
        if not hasattr(self.estimator, "price"):
            raise InvalidParameter("estimator must be a private classifier: it states a price.")
        candidates = [dict(each) for each in ParameterGrid(self.grid)]
        if not candidates:
            raise InvalidParameter("grid must name at least one candidate.")
        taken = sorted({name for each in candidates for name in each} & set(_OURS))
        if taken:
            raise InvalidParameter(f"grid must not name {', '.join(taken)}: the selection does.")
        return candidates

    def _candidate(self, settings: Mapping[str, Any], epsilon: float) -> Any:
        return clone(self.estimator).set_params(**settings).set_params(epsilon=epsilon)

    def _plan(
        self, n_samples: int, n_features: int, candidates: Sequence[Mapping[str, Any]]
    ) -> PartsPlan | StoppingPlan:
        def price(k: int, epsilon: float, n_rows: int) -> Guarantee:
            guarantee: Guarantee = self._candidate(candidates[k], epsilon).price(n_rows, n_features)
            return guarantee

        if self.method == "parts":
            return plan_parts(
                n_samples,
                len(candidates),
                price,
                epsilon=self.epsilon,
                held_out=self.held_out,
                refit_share=self.refit_share,
                rule=self.rule,
                split_seed=self.split_seed,
            )
        expected = max(2, len(candidates)) if self.expected_runs is None else self.expected_runs
        return plan_stopping(
            n_samples,
            len(candidates),
            price,
            epsilon=self.epsilon,
            held_out=self.held_out,
            stopping=RandomStopping(eta=self.eta, expected=expected),
            split_seed=self.split_seed,
        )

    def _tags(self) -> Any:
        return get_tags(self.estimator)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._tags().input_tags.sparse
        tags.classifier_tags.multi_class = self._tags().classifier_tags.multi_class
        return tags


def _seed(source: RandomSource) -> int | None:
    """Return a seed for a candidate's noise in a simulation, and the system's source otherwise."""
    return int(source.uniforms(1)[0] * 2**31) if source.simulated else None
