"""What every private classifier does in the same order: check, price, charge, act, mark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.labels import declared_classes, encode_labels, plus_minus
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger, Receipt, default_ledger, payer, paying
from confrere.model import Linear, Model
from confrere.noise.sources import RandomSource, Seed, source_for

Result = TypeVar("Result")


class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The way of the data, once: nothing is drawn before the ledger has the price on disk."""

    ledger: Ledger | None
    account: str | None
    classes: Any
    random_state: Seed | None
    guarantee_: Guarantee
    receipt_: Receipt
    simulated_: bool
    classes_: NDArray[Any]
    n_features_in_: int

    def _open_ledger(self) -> Ledger:
        """Return the ledger to charge, or say that the account does not exist."""
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise InvalidParameter("ledger must be a confrere.Ledger or None.")
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

    def _validate(
        self, X: Any, y: Any, *, sparse: bool = True
    ) -> tuple[Any, NDArray[np.intp], NDArray[Any]]:
        """Return rows, class codes and the declared classes."""
        labels = y
        X, y = self._checked(X, y, accept_sparse="csr" if sparse else False, dtype=np.float64)
        check_classification_targets(y)
        classes = declared_classes(self.classes, labels, simulated=self.random_state is not None)
        return X, encode_labels(y, classes), classes

    def _validate_binary(
        self, X: Any, y: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]:
        """Return dense rows, labels -1 and +1, and the declared pair of classes."""
        rows, codes, classes = self._validate(X, y, sparse=False)
        if len(classes) > 2:
            raise InvalidParameter(
                "Only binary classification is supported. classes must name two labels."
            )
        return rows, plus_minus(codes), classes

    def _validate_rows(self, X: Any) -> Any:
        """Check rows to predict."""
        check_is_fitted(self)
        return self._checked(
            X,
            accept_sparse="csr" if self.__sklearn_tags__().input_tags.sparse else False,
            dtype=np.float64,
            reset=False,
        )

    def _spend(
        self,
        ledger: Ledger,
        guarantee: Guarantee,
        act: Callable[[RandomSource], Result],
        *,
        purpose: str,
        detail: Mapping[str, Any],
    ) -> Result:
        """Charge, then act; a failure after the charge stays charged."""
        source = source_for(self.random_state)
        account = payer(self.ledger, self.account, guarantee)[1]
        with paying(
            ledger, account, guarantee, purpose=purpose, detail=detail, simulated=source.simulated
        ) as receipt:
            result = act(source)
            if isinstance(result, Model):
                ledger.mark_released(receipt, digest=result.digest())
        self.guarantee_ = guarantee
        self.receipt_ = receipt
        self.simulated_ = source.simulated
        return result

    def _meaning(self, classes: NDArray[Any]) -> dict[str, Any]:
        """Return labels and columns as a released model names them."""
        names = feature_names(getattr(self, "feature_names_in_", None), self.n_features_in_)
        return {"classes": tuple(classes.tolist()), "features": tuple(names)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ModelPrediction:
    """Predictions of what was released: ``model_`` and nothing else."""

    model_: Model
    classes_: NDArray[Any]
    _validate_rows: Callable[[Any], Any]

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


class LinearPrediction(ModelPrediction):
    """A released linear model."""

    model_: Linear

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Released weights, for rows as given to ``fit``."""
        return self.model_.coef

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Released intercepts."""
        return self.model_.intercept


def feature_names(names: NDArray[Any] | None, n_features: int) -> list[str]:
    """Return the columns' names as releases write them."""
    return [f"x{j}" for j in range(n_features)] if names is None else [str(n) for n in names]


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    """Refuse a setting that is not one of the named ones."""
    if value not in choices:
        raise InvalidParameter(f"{name} must be one of {', '.join(map(repr, choices))}.")


def check_finite(value: object, name: str) -> None:
    """Refuse a setting that is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidParameter(f"{name} must be a number, got a {type(value).__name__}.")
    if not np.isfinite(value):
        raise InvalidParameter(f"{name} must be finite.")


def _without_values(error: ValueError) -> ValueError:
    """Return an error of the same meaning that quotes nothing from the data."""
    if "could not convert" in str(error):
        return InvalidData("X must be numeric; encode text columns with a PublicSchema first.")
    return error
