"""Private logistic regression (PLR)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter
from confrere.estimators.base import LinearPrediction, PrivateClassifier, check_finite
from confrere.estimators.labels import plus_minus
from confrere.estimators.linear_plan import (
    Alpha,
    LinearPlan,
    Loss,
    check_linear_parameters,
    linear_frame,
    plan_linear,
)
from confrere.estimators.releasing import release_of
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.noise.sources import Seed
from confrere.release import Release
from confrere.rows.frame import Frame
from confrere.schema import PublicSchema


class PrivateLogisticRegression(LinearPrediction, PrivateClassifier):
    """Private logistic regression by objective perturbation (PLR, Algorithm 1).

    Parameters
    ----------
    epsilon : float, default=1.0
        Price of one ``fit``.
    delta : float, default=0.0
        0 is pure privacy. Above 0, and below ``1/n_samples``, the noise is Gaussian: less of it the
        more features there are, for a guarantee that may fail with that probability.
    data_norm : float, default=1.0
        Declared bound on the Euclidean norm of a row (after ``feature_scale``); longer rows are
        clipped to it.
    alpha : float or "auto", default="auto"
        Ridge on the mean loss (the papers' lambda). ``"auto"`` is a public rule of epsilon, delta,
        n_samples and n_features.
    fit_intercept : bool, default=True
        Add a public constant inside the norm bound: regularised and noised like the rest.
    intercept_scale : float, default=0.4
        That constant, between 0 and 1.
    neighbours : {"replace-one", "add-remove", "label-only"}, default="replace-one"
        Which change of the data is hidden. ``"add-remove"`` does not take the number of rows to
        be public and needs ``declared_samples``.
    loss : {"logistic", "capped"}, default="logistic"
        ``"capped"`` goes on linearly where the slope reaches one half: about half the noise.
    calibration : {"tight", "printed"}, default="tight"
        ``"printed"`` is the published formula: sound, with more noise.
    ridge_floor : float, default=2.0
        The summed ridge is at least ``ridge_floor / epsilon``; at 2 the Jacobian costs nothing
        (with delta, next to nothing).
        Not used by the printed calibration, which has a rule of its own.
    prior : array of shape (n_features,), optional
        Public coefficients to shrink towards, in the units of ``coef_``; two classes only.
    prior_intercept : float, default=0.0
        Public intercept to shrink towards: the log-odds of a declared base rate.
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
    Guarantee : ``epsilon``-DP, pure; ``(epsilon, delta)``-DP if ``delta`` is set
    Spends : ``epsilon`` and ``delta`` on ``account``, once per ``fit``, before noise is drawn
    Public : n_samples, n_features, the label set, every parameter
    Releases : coef_, intercept_
    Proof : docs/proofs/objective_perturbation.md and, for ``delta``, docs/proofs/gaussian.md

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
        delta: float = 0.0,
        data_norm: float = 1.0,
        alpha: Alpha = "auto",
        fit_intercept: bool = True,
        intercept_scale: float = 0.4,
        neighbours: str = "replace-one",
        loss: Loss = "logistic",
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
        self.delta = delta
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
        return self._plan(n_samples, n_features, n_classes).guarantee()

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:
        """Charge ``epsilon`` and ``delta``, then release a model of ``(X, y)``."""
        self._check_parameters()
        ledger = self._open_ledger()
        rows, codes, classes = self._validate(X, y)
        n_samples, n_features = rows.shape
        plan = self._plan(n_samples, n_features, max(2, len(classes)))
        labels = codes if len(classes) > 2 else plus_minus(codes)
        meaning = self._meaning(classes)
        self.model_ = self._spend(
            ledger,
            plan.guarantee(),
            lambda source: plan.model(rows, labels, source, meaning),
            purpose="fit PrivateLogisticRegression",
            detail=plan.detail(),
        )
        self.classes_ = classes
        return self

    def to_release(self, schema: PublicSchema | None = None) -> Release:
        """Return what may leave: the released numbers and the public facts about them."""
        return release_of(self, "plr", schema)

    def _check_parameters(self) -> None:
        check_linear_parameters(
            epsilon=self.epsilon,
            delta=self.delta,
            alpha=self.alpha,
            loss=self.loss,
            calibration=self.calibration,
            neighbours=self.neighbours,
            ridge_floor=self.ridge_floor,
            declared_samples=self.declared_samples,
        )
        check_finite(self.prior_intercept, "prior_intercept")

    def _plan(self, n_samples: int, n_features: int, n_classes: int) -> LinearPlan:
        self._check_parameters()
        frame = linear_frame(
            n_features,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
            intercept_scale=self.intercept_scale,
            feature_scale=self.feature_scale,
        )
        return plan_linear(
            n_samples,
            frame,
            epsilon=self.epsilon,
            delta=self.delta,
            n_classes=n_classes,
            alpha=self.alpha,
            ridge_floor=self.ridge_floor,
            neighbours=self.neighbours,
            loss=self.loss,
            calibration=self.calibration,
            declared_samples=self.declared_samples,
            prior=self._prior(frame, n_classes),
        )

    def _prior(self, frame: Frame, n_classes: int) -> NDArray[np.float64] | None:
        if self.prior is None and self.prior_intercept == 0:
            return None
        if n_classes > 2:
            raise InvalidParameter("prior is for two classes.")
        return frame.weights(self.prior, self.prior_intercept)
