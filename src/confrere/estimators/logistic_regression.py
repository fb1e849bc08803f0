"""Private logistic regression (PLR)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.base import LinearPrediction, PrivateClassifier
from confrere.estimators.labels import declared_classes, encode_labels, plus_minus
from confrere.ledger import Ledger
from confrere.maths.calibration import automatic_ridge, free_ridge
from confrere.maths.clipping import Rows, clip_rows, scale_columns, with_constant
from confrere.maths.randomness import Seed
from confrere.mechanisms.objective_perturbation import (
    SOLVER_SHARE,
    Calibration,
    ObjectivePerturbation,
)
from confrere.privacy import Guarantee, Neighbours, check_epsilon, check_positive

#: Under add-remove neighbours more rows than this multiple of the declared number are refused.
LARGEST_SURPLUS = 10


class PrivateLogisticRegression(LinearPrediction, PrivateClassifier):
    """Private logistic regression by objective perturbation (PLR, Algorithm 1).

    Parameters
    ----------
    epsilon : float, default=1.0
        Price of one ``fit``.
    data_norm : float, default=1.0
        Declared bound on the Euclidean norm of a row (after ``feature_scale``); longer rows are
        clipped to it.
    alpha : float or "auto", default="auto"
        Ridge on the mean loss (the papers' lambda). ``"auto"`` is a public rule of epsilon,
        n_samples and n_features.
    fit_intercept : bool, default=True
        Add a public constant inside the norm bound: regularised and noised like the rest.
    intercept_scale : float, default=0.5
        That constant, between 0 and 1.
    neighbours : {"replace-one", "add-remove", "label-only"}, default="replace-one"
        Which change of the data is hidden. ``"add-remove"`` does not take the number of rows to
        be public and needs ``declared_samples``.
    loss : {"logistic", "capped"}, default="logistic"
        ``"capped"`` goes on linearly where the slope reaches one half: about half the noise.
    calibration : {"tight", "printed"}, default="tight"
        ``"printed"`` is the published formula: sound, with more noise.
    ridge_floor : float, default=2.0
        The summed ridge is at least ``ridge_floor / epsilon``; at 2 the Jacobian costs nothing.
        Not used by the printed calibration, which has a rule of its own.
    prior : array of shape (n_features,), optional
        Public coefficients to shrink towards, in the units of ``coef_``; two classes only.
    prior_intercept : float, default=0.0
        Public intercept to shrink towards.
    feature_scale : array of shape (n_features,), optional
        Public factors (importances) that multiply the columns before clipping: weighted PLR.
    classes : list, optional
        The public label set. Without it labels must be 0 and 1, booleans or a pandas categorical.
    declared_samples : int, optional
        Public stand-in for the number of rows under add-remove neighbours.
    ledger : Ledger, optional
        Where the price is charged; by default the process's own.
    account : str, optional
        The account in it; may be left out if there is only one.
    random_state : int or generator, optional
        Simulation only: the result is marked simulated and cannot be released.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Released weights, for rows as given to ``fit``.
    intercept_ : array of shape (1,) or (n_classes,)
        Released intercepts.
    classes_ : array
        The declared label set, sorted.
    guarantee_ : Guarantee
        What was promised.
    receipt_ : Receipt
        The ledger entry that paid for it.
    simulated_ : bool
        Whether the noise came from a seed.

    Privacy
    -------
    Unit : record
    Neighbours : ``neighbours``; by default replace one row of ``(X, y)``
    Guarantee : ``epsilon``-DP, pure
    Spends : ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    Public : n_samples, n_features, the label set, every parameter
    Releases : coef_, intercept_
    Proof : docs/proofs/objective_perturbation.md

    Examples
    --------
    >>> from confrere import PrivateLogisticRegression
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=2000, random_state=0)
    >>> model = PrivateLogisticRegression(epsilon=1.0, data_norm=5.0, random_state=0).fit(X, y)
    >>> print(model.guarantee_)
    1-DP per record (replace-one)
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        data_norm: float = 1.0,
        alpha: float | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        intercept_scale: float = 0.5,
        neighbours: str = "replace-one",
        loss: Literal["logistic", "capped"] = "logistic",
        calibration: Calibration = "tight",
        ridge_floor: float = 2.0,
        prior: ArrayLike | None = None,
        prior_intercept: float = 0.0,
        feature_scale: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        declared_samples: int | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
        self.neighbours = neighbours
        self.loss = loss
        self.calibration = calibration
        self.ridge_floor = ridge_floor
        self.prior = prior
        self.prior_intercept = prior_intercept
        self.feature_scale = feature_scale
        self.classes = classes
        self.declared_samples = declared_samples
        self.ledger = ledger
        self.account = account
        self.random_state = random_state

    def price(self, n_samples: int, n_features: int, n_classes: int = 2) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data."""
        return self._mechanism(n_samples, n_features, n_classes).guarantee()

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:
        """Charge ``epsilon``, then release a model of ``(X, y)``."""
        self._check_parameters()
        ledger = self._open_ledger()
        classes_source = y
        X, y = self._validate(X, y)
        classes = declared_classes(
            self.classes, classes_source, simulated=self.random_state is not None
        )
        codes = encode_labels(y, classes)
        n_samples, n_features = X.shape
        mechanism = self._mechanism(n_samples, n_features, max(2, len(classes)))
        centre = self._centre(n_features, len(classes))
        rows = self._rows(X)
        labels = codes if len(classes) > 2 else plus_minus(codes)
        weights = self._spend(
            ledger,
            mechanism.guarantee(),
            lambda source: mechanism.run(rows, labels, source=source, centre=centre),
            purpose="fit PrivateLogisticRegression",
            detail={"rho": mechanism.rho, "ridge": mechanism.ridge, "n_features": n_features},
        )
        self.classes_ = classes
        self._set_coefficients(np.atleast_2d(weights))
        return self

    def _check_parameters(self) -> None:
        check_epsilon(self.epsilon)
        check_epsilon(self.data_norm, "data_norm")
        check_positive(self.ridge_floor, "ridge_floor")
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            check_epsilon(self.alpha, "alpha")
        if self.loss not in ("logistic", "capped"):
            raise InvalidParameter("loss must be 'logistic' or 'capped'.")
        if self.calibration not in ("tight", "printed"):
            raise InvalidParameter("calibration must be 'tight' or 'printed'.")
        if self.fit_intercept and not 0 < self.intercept_scale < 1:
            raise InvalidParameter("intercept_scale must lie strictly between 0 and 1.")
        if self.neighbours not in tuple(Neighbours):
            raise InvalidParameter(f"neighbours must be one of {[str(n) for n in Neighbours]}.")
        if self.neighbours == Neighbours.ADD_REMOVE and self.declared_samples is None:
            raise InvalidParameter(
                "declared_samples must be given with neighbours='add-remove': there the number of "
                "rows is not public, so the ridge needs a public stand-in."
            )

    def _mechanism(self, n_samples: int, n_features: int, n_classes: int) -> ObjectivePerturbation:
        self._check_parameters()
        dimension = n_features + bool(self.fit_intercept)
        public_samples = n_samples
        if self.neighbours == Neighbours.ADD_REMOVE:
            public_samples = int(self.declared_samples or 0)
            if n_samples > LARGEST_SURPLUS * public_samples:
                raise InvalidData(
                    f"X has more than {LARGEST_SURPLUS} times declared_samples rows; declare a "
                    "number nearer to the truth."
                )
        budget = self.epsilon * (1 - SOLVER_SHARE)
        capped = self.loss == "capped"
        if self.alpha == "auto":
            ridge = automatic_ridge(
                budget, public_samples, dimension, capped=capped, floor=self.ridge_floor
            )
        else:
            ridge = public_samples * float(self.alpha)
            if self.calibration == "tight":
                ridge = max(ridge, free_ridge(budget, factor=self.ridge_floor))
        return ObjectivePerturbation(
            epsilon=self.epsilon,
            n_samples=n_samples,
            n_features=dimension,
            ridge=ridge,
            n_classes=n_classes,
            cap=0.5 if capped else 1.0,
            neighbours=Neighbours(self.neighbours),
            calibration=self.calibration,
            prior_norm=float(np.linalg.norm(self._prior(n_features))),
        )

    def _scale(self, n_features: int) -> NDArray[np.float64]:
        """Public factor from a column as given to a coordinate of the unit ball."""
        shrink = np.sqrt(1 - self.intercept_scale**2) if self.fit_intercept else 1.0
        if self.feature_scale is None:
            return np.full(n_features, shrink / self.data_norm)
        scale = np.asarray(self.feature_scale, dtype=np.float64)
        if scale.shape != (n_features,) or not np.all(np.isfinite(scale) & (scale >= 0)):
            raise InvalidParameter("feature_scale must hold one finite number >= 0 per column.")
        return np.asarray(scale * shrink / self.data_norm)

    def _prior(self, n_features: int) -> NDArray[np.float64]:
        """Public point to shrink towards, in the coordinates of the unit ball."""
        if self.prior is None:
            prior = np.zeros(n_features)
        else:
            prior = np.asarray(self.prior, dtype=np.float64)
            if prior.shape != (n_features,) or not np.all(np.isfinite(prior)):
                raise InvalidParameter("prior must hold one finite number per column.")
        scale = self._scale(n_features)
        point = np.divide(prior, scale, out=np.zeros(n_features), where=scale > 0)
        if self.fit_intercept:
            point = np.append(point, self.prior_intercept / self.intercept_scale)
        return point

    def _centre(self, n_features: int, n_classes: int) -> NDArray[np.float64] | None:
        if self.prior is None and self.prior_intercept == 0:
            return None
        if n_classes > 2:
            raise InvalidParameter("prior is for two classes.")
        return self._prior(n_features)

    def _rows(self, X: Any) -> Rows:
        """Scale, clip and add the constant: the rows that the theorem speaks of."""
        if self.feature_scale is not None:
            X = scale_columns(X, np.asarray(self.feature_scale, dtype=np.float64))
        rows = clip_rows(X, self.data_norm)
        return with_constant(rows, self.intercept_scale) if self.fit_intercept else rows

    def _set_coefficients(self, weights: NDArray[np.float64]) -> None:
        n_features = weights.shape[1] - bool(self.fit_intercept)
        self.coef_ = weights[:, :n_features] * self._scale(n_features)
        self.intercept_ = (
            weights[:, -1] * self.intercept_scale if self.fit_intercept else np.zeros(len(weights))
        )
