"""Private logistic regression (PLR), on tables and sources of any size, by whatever engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from confrere.estimators.base import LinearClassifier, opinion_of
from confrere.estimators.constraints import (
    Bound,
    Delta,
    Epsilon,
    Experts,
    Levels,
    Positive,
    Ridges,
    RowEngine,
)
from confrere.ledger import Ledger
from confrere.methods.body import Noise, choose_form, declared_number
from confrere.methods.checked import CheckedPlan
from confrere.methods.design import Allowance, allowance, row_count
from confrere.methods.linear import LinearPlan, design_linear
from confrere.methods.plan import Plan, PublicFacts
from confrere.methods.priors import Prior
from confrere.rows.engines import opened_engine
from confrere.schema import PublicSchema
from confrere.schema.encoding import Form


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(LinearClassifier):
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
    alpha : float, "auto" or array of shape (n_features,), default="auto"
        Ridge on the mean loss (the papers' lambda). ``"auto"`` is a public rule of epsilon, delta,
        n_samples and n_features. One number per column, as it is learned from: what is shrunk more
        has less noise. The intercept has the smallest of them; where that is raised to the floor,
        all are.
    fit_intercept : bool, default=True
        Add a public constant inside the norm bound: regularised and noised like the rest.
    intercept_scale : float, default=0.4
        That constant, between 0 and 1.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Which change of the data is hidden. ``"add-remove"`` does not take the number of rows to
        be public and needs ``declared_samples``.
    loss : {"capped", "logistic"}, default="capped"
        ``"capped"`` goes on linearly where the slope reaches one half: about half the noise. More
        than two classes have the softmax loss.
    ridge_floor : float, default=2.0
        The summed ridge is at least ``ridge_floor / epsilon``; at 2 the Jacobian costs nothing
        (with delta, next to nothing). The automatic ridge of more than two classes is at least ten
        times that.
    prior : array of shape (n_features,) or (n_classes, n_features), or "experts", optional
        Public coefficients to shrink towards, in the units of ``coef_``: log odds as experts see
        them, of more than two classes with a row for each. ``"experts"``, for two classes, are the
        signs, importances and the base rate that the schema declares. Noise is pulled towards them
        by a ridge that says how well they are known, and ``feature_scale`` and importances are
        used as far as they hold.
    prior_check : bool, default=True
        Pay a twentieth to three tenths of ``epsilon`` for a noised answer to how far ``prior``
        holds on these records, and use it so far. Without, a wrong prior is believed.
    prior_intercept : float, or array of shape (n_classes,), default=0.0
        Log-odds of a declared base rate, public: the intercept to shrink towards, set further out
        where a ``prior`` spreads the scores around it. Of more than two classes one for each.
    noise : {"auto", "ball", "schema"}, default="auto"
        Which body noise is made for. ``"schema"`` is the one that the schema declares, in which a
        number lies in an interval or on a curve and one of a category's columns is one; with a
        delta rows are the same, and noise is Gaussian where that pays. ``"auto"`` takes it wherever
        a schema without importances is given, unless ``prior``, ``feature_scale`` or ``alpha``
        speak of columns one by one. ``data_norm``, ``intercept_scale`` and ``ridge_floor`` are the
        ball's.
    feature_scale : array of shape (n_features,), optional
        Public factors (importances) that multiply the columns before clipping: weighted PLR.
    engine : {"loop", "joblib", "dask"}, str or engine, optional
        Who reads the rows: one partition after the other (the default), threads, a Dask cluster on
        this machine, or the address of a scheduler such as ``"tcp://host:8786"``. The bits of the
        result do not depend on it.
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

    Notes
    -----
    **Privacy**

    :Unit: record
    :Neighbours: ``neighbours``; by default replace one row of ``(X, y)``
    :Guarantee: ``epsilon``-DP, pure; ``(epsilon, delta)``-DP if ``delta`` is set
    :Spends: ``epsilon`` and ``delta`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, every parameter
    :Releases: ``coef_``, ``intercept_``
    :Proof: docs/proofs/objective_perturbation.md and, for ``delta``, docs/proofs/gaussian.md; for
        noise that is shaped by a schema docs/proofs/geometry.md

    Examples
    --------
    >>> from confrere import PrivateLogisticRegression
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=2000, random_state=0)
    >>> model = PrivateLogisticRegression(epsilon=1.0, data_norm=5.0, random_state=0).fit(X, y)
    >>> print(model.guarantee_)
    1-DP per record (replace-one)
    """

    epsilon: Epsilon = 1.0
    delta: Delta = 0.0
    data_norm: Bound = 1.0
    alpha: Ridges = "auto"
    fit_intercept: bool = True
    intercept_scale: float = 0.4
    neighbours: Literal["replace-one", "add-remove"] = "replace-one"
    loss: Literal["capped", "logistic"] = "capped"
    ridge_floor: Positive = 2.0
    prior: Experts = None
    prior_check: bool = True
    prior_intercept: Levels = 0.0
    noise: Noise = "auto"
    feature_scale: ArrayLike | None = None
    declared_samples: int | None = None
    engine: RowEngine = None

    _dtype: ClassVar[Any] = [np.float64, np.float32]
    _kind = "plr"

    def _pay_and_learn(self, ledger: Ledger, plan: Plan[Any], data: Any) -> Self:
        if self.engine is None:
            return super()._pay_and_learn(ledger, plan, data)
        with opened_engine(self.engine) as engine:
            return super()._pay_and_learn(ledger, plan, replace(data, engine=engine))

    def plan(self, facts: PublicFacts) -> LinearPlan | CheckedPlan:
        """Return everything that is decided before the data are touched."""
        return design_linear(
            self._allowed(facts.n_samples, facts.n_classes),
            self._geometry(facts),
            self._known(facts),
            alpha=self.alpha,
            feature_scale=self.feature_scale,
            intercept=self.prior_intercept,
            ridge_floor=self.ridge_floor,
            check=self.prior_check,
        )

    def _allowed(self, n_samples: int, n_classes: int) -> Allowance:
        """Return what a fit may spend, on so many rows as far as their number is public."""
        count = row_count(n_samples, self._relation, self.declared_samples)
        return allowance(self.epsilon, count, delta=self.delta, loss=self.loss, n_classes=n_classes)

    def _form(self, n_samples: int) -> Form:
        """Return how a schema's columns are encoded: a rule of public facts."""
        assert isinstance(self.schema, PublicSchema)
        allowed = self._allowed(n_samples, declared_number(self.schema, self.classes))
        # What is given column by column speaks of columns that no other setting may change.
        each = self.prior is not None or self.feature_scale is not None or np.ndim(self.alpha) > 0
        return choose_form(self.schema, self.noise, allowed, each=each)

    def _known(self, facts: PublicFacts) -> Prior | None:
        """Return what is declared about the columns; None if that is nothing."""
        encoder = self._encoder(facts.n_samples)
        opinion = opinion_of(self.prior, self.prior_intercept, encoder, facts.n_classes)
        return opinion.prior(
            self.data_norm,
            facts.n_features,
            self.feature_scale,
            n_classes=facts.n_classes,
            encoder=self._body_encoder(facts),
        )
