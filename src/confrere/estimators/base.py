"""What every private classifier does in the same order: check, plan, charge, act, keep."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.constraints import Labels, Payer, check_parameters
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger, Receipt, default_ledger, payer, paying
from confrere.model import Encoder, Linear, Model
from confrere.noise.sources import RandomSource, Seed, source_for
from confrere.plans.base_plan import (
    LabelledTable,
    Plan,
    PublicFacts,
    declared_classes,
    encode_labels,
)
from confrere.release import Release
from confrere.schema import PublicSchema


class Fitted:
    """What every fitted private classifier has."""

    guarantee_: Guarantee
    receipt_: Receipt
    simulated_: bool
    classes_: NDArray[Any]
    n_features_in_: int
    model_: Model
    sources_: tuple[Release, ...] = ()


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(Fitted, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The way of the data, once: nothing is drawn before the ledger has the price on disk.

    A subclass declares its parameters, whose annotations are what they are checked against, and
    says which :meth:`plan` they make of public facts.
    """

    classes: Labels = None
    ledger: Payer = None
    account: str | None = None
    random_state: Seed | None = None

    #: The kind of its releases, and what it takes: not annotated, so that they are no parameters.
    _kind = ""
    _sparse = True
    _dtype: Any = np.float64
    _many_classes = True

    @abstractmethod
    def plan(self, facts: PublicFacts) -> Plan[Any]:
        """Return everything that is decided before the data are touched."""

    def price(self, n_samples: int, n_features: int, n_classes: int = 2) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data."""
        check_parameters(self)
        facts = PublicFacts(n_samples=n_samples, n_features=n_features, n_classes=n_classes)
        return self.plan(facts).guarantee()

    def prepare(self, X: Any, y: Any) -> tuple[Plan[Any], Any]:
        """Return what ``fit`` would run, and the records as it would see them; spends nothing."""
        check_parameters(self)
        table = self._table(X, y)
        facts = PublicFacts(
            n_samples=table.X.shape[0],
            n_features=table.X.shape[1],
            n_classes=max(2, len(table.classes)),
            classes=table.classes,
            features=table.features,
        )
        return self.plan(facts), table

    def fit(self, X: Any, y: Any) -> Self:
        """Charge the price, then release a model of ``(X, y)``."""
        return self._fit(X, y)

    def _fit(self, X: Any, y: Any, **public: Any) -> Self:
        check_parameters(self)
        ledger = self._open_ledger()
        plan, data = self.prepare(X, y, **public)
        guarantee = plan.guarantee()
        source = source_for(self.random_state)
        account = self.account
        if self.ledger is None:
            account = payer(None, account, guarantee)[1]
        with paying(
            ledger,
            account,
            guarantee,
            purpose=self._purpose(),
            detail=plan.detail(),
            simulated=source.simulated,
        ) as receipt:
            learned = plan.run(data, source)
            ledger.mark_released(receipt, digest=self._model_in(learned).digest())
        self.guarantee_, self.receipt_, self.simulated_ = guarantee, receipt, source.simulated
        self._keep(plan, learned)
        return self

    def learn(self, plan: Plan[Any], data: Any, source: RandomSource) -> Self:
        """Run what :meth:`prepare` returned, for a caller who has paid, and keep what it gives."""
        self._keep(plan, plan.run(data, source))
        return self

    def _model_in(self, learned: Any) -> Model:
        """Return the model in what a plan's run gave."""
        model: Model = learned
        return model

    def _keep(self, plan: Any, learned: Any) -> None:
        """Set fitted attributes, from what was released and from public facts alone."""
        self.model_ = self._model_in(learned)
        self.classes_ = np.asarray(self.model_.classes)
        sources = getattr(plan, "sources", ())
        if sources:
            self.sources_ = sources

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of every row, ``(n,)`` for two classes and ``(n, K)`` for more."""
        rows = self._validate_rows(X)
        return self.model_.decision_function(rows)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the model's class probabilities; of votes, the share of the votes."""
        rows = self._validate_rows(X)
        return self.model_.predict_proba(rows)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[self.model_.codes(scores)])

    def to_release(self, schema: PublicSchema | None = None) -> Release:
        """Return what may leave: the released numbers and the public facts about them.

        The card of a model that started from sources says what a person in several domains pays.
        """
        declared = schema or getattr(self, "schema", None)
        return _release_of(self, self._kind, declared, sources=self.sources_)

    def _purpose(self) -> str:
        """Return what the ledger says that was paid for."""
        return f"fit {type(self).__name__}"

    def _open_ledger(self) -> Ledger:
        """Return the ledger to charge, or say that the account does not exist."""
        ledger = default_ledger() if self.ledger is None else self.ledger
        if self.ledger is not None or self.account is not None or not ledger.ephemeral:
            ledger.account_for(self.account)
        return ledger

    def _checked(self, *arrays: Any, **rules: Any) -> Any:
        """Check arrays as scikit-learn does, without ever quoting a value from them."""
        try:
            # Whether all are finite is asked of their sum first, which may overflow.
            with np.errstate(over="ignore", invalid="ignore"):
                return validate_data(self, *arrays, **rules)
        except ValueError as error:
            raise _without_values(error) from None

    def _table(self, X: Any, y: Any) -> LabelledTable:
        """Return rows and class codes, checked."""
        tags = self.__sklearn_tags__()
        sparse = "csr" if tags.input_tags.sparse else False
        rows, labels = self._checked(X, y, accept_sparse=sparse, dtype=self._dtype)
        if labels.dtype.kind not in "biu":  # whole numbers are classes
            check_classification_targets(labels)
        classes = declared_classes(self.classes, y, simulated=self.random_state is not None)
        if len(classes) > 2 and not tags.classifier_tags.multi_class:
            raise InvalidParameter(
                "Only binary classification is supported. classes must name two labels."
            )
        return LabelledTable(rows, encode_labels(labels, classes), classes, self._features())

    def _features(self) -> list[str]:
        """Return the columns' names as releases write them."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"x{j}" for j in range(self.n_features_in_)]
        return [str(name) for name in names]

    def _validate_rows(self, X: Any) -> Any:
        """Check rows to predict."""
        check_is_fitted(self)
        sparse = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        return self._checked(X, accept_sparse=sparse, dtype=np.float64, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        tags.classifier_tags.multi_class = self._many_classes
        return tags


class FittedLinear(Fitted):
    """What every fitted linear classifier has."""

    model_: Linear

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Released weights, for rows as given to ``fit``."""
        return self.model_.coef

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Released intercepts."""
        return self.model_.intercept


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(FittedLinear, PrivateClassifier):
    """A private classifier that learns a linear model."""


def _without_values(error: ValueError) -> ValueError:
    """Return an error of the same meaning that quotes nothing from the data."""
    if "could not convert" in str(error):
        return InvalidData("X must be numeric; encode text columns with a PublicSchema first.")
    return error


def _release_of(
    fitted: Fitted,
    kind: str,
    schema: PublicSchema | None,
    sources: Sequence[Release] = (),
) -> Release:
    """Return the release of a fitted classifier; ``sources`` are other organisations' data in it.

    Parameters
    ----------
    fitted : private classifier
        Holds one model, its guarantee and its receipt.
    kind : str
        The method's name in the catalogue.
    schema : PublicSchema or None
        What its columns mean.
    sources : sequence of Release
        What it was started from.
    """
    check_is_fitted(fitted)
    encoder = None if schema is None else Encoder(schema)
    return Release(
        kind=kind,
        model=replace(fitted.model_, encoder=encoder),
        guarantee=fitted.guarantee_,
        receipt=fitted.receipt_,
        simulated=fitted.simulated_,
        parties=_parties(fitted, sources),
    )


def _parties(fitted: Fitted, sources: Sequence[Release]) -> dict[str, Receipt | Guarantee]:
    """Return who paid what, so that a card can say what a person in several domains pays."""
    if not sources:
        return {}
    paid: dict[str, Receipt | Guarantee] = {"target": fitted.receipt_}
    for k, release in enumerate(sources):
        name = "source" if len(sources) == 1 else f"source {k + 1}"
        paid[name] = release.receipt or release.guarantee
    return paid
