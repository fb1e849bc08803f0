"""From a main hospital to a branch: one private model near another's release (SimComb)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from confrere.errors import InvalidParameter
from confrere.estimators.base import LinearClassifier
from confrere.estimators.constraints import Bound, Delta, Epsilon, Ridge, Weight
from confrere.estimators.starting_points import (
    SourceLike,
    check_classes,
    check_same_meaning,
    form_of,
    open_sources,
    precisions,
)
from confrere.maths.prior_ridge import MISSED, share_of, variance_near
from confrere.mechanisms.prior_check import UNCHECKED, Belief
from confrere.model import Encoder, Linear
from confrere.notebook import progress_bar
from confrere.plans.base_plan import PublicFacts
from confrere.plans.body_plan import Noise, schema_frame, spent_delta
from confrere.plans.checked_plan import CheckedPlan, plan_near
from confrere.plans.declared_priors import ClassPrior, Prior
from confrere.plans.linear_plan import (
    Coordinates,
    LinearPlan,
    linear_frame,
    plan_linear,
)
from confrere.release import Release
from confrere.schema import SchemaEncoder
from confrere.schema.encoder import Form

#: Kinds of releases that hold a linear model.
LINEAR_KINDS = ("plr", "simcomb", "collaborative", "multiparty")


@dataclass(kw_only=True, eq=False, repr=False)
class TransferClassifier(LinearClassifier):
    """One private model that shrinks towards a released one (SimComb; PPHTL is the same idea).

    The source's release is public once it is released: starting from it costs the target nothing
    and the source nothing more.

    Parameters
    ----------
    source : Release, path, or a sequence of them
        What the main organisation (or several) released; required by ``fit``.
    eta : float, default=0.0
        Shrink towards ``(1 - eta)`` times the source's weights.
    epsilon, delta, data_norm, alpha, fit_intercept, intercept_scale, loss, calibration
        As in :class:`PrivateLogisticRegression`, for the target's own fit. The automatic ridge
        follows from what the sources' records and noise leave unknown.
    feature_scale : array of shape (n_features,), optional
        Public factors (importances) that multiply the columns before clipping.
    prior_check : bool, default=True
        Pay a twentieth to three tenths of ``epsilon`` for a noised answer to how far the sources
        hold on these records; without, a wrong source is believed.
    schema : PublicSchema or SchemaEncoder, optional
        What raw columns mean: ``fit`` takes raw tables, and a source with another meaning is
        refused.
    source_keys : mapping of party to public key, optional
        Signatures that a source read from disk must carry.
    classes : list, optional
        The public label set, that of the sources.
    ledger, account, random_state
        As in :class:`PrivateLogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, classes_, guarantee_, receipt_, simulated_
        As in :class:`PrivateLogisticRegression`; the guarantee is the target's.
    sources_ : tuple of Release
        What was started from, each with its own guarantee.

    Notes
    -----
    **Privacy**

    :Unit: record
    :Neighbours: replace one row of the target's ``(X, y)``
    :Guarantee: ``epsilon``-DP, pure, for the target's records (with a ``delta``
        ``(epsilon, delta)``-DP); the sources' hold as released
    :Spends: ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples, n_features, the label set, the sources, every parameter
    :Releases: ``coef_``, ``intercept_``
    :Proof: docs/proofs/transfer.md
    """

    source: SourceLike | Sequence[SourceLike] | None = None
    eta: Weight = 0.0
    epsilon: Epsilon = 1.0
    delta: Delta = 0.0
    data_norm: Bound = 1.0
    alpha: Ridge = "auto"
    fit_intercept: bool = True
    intercept_scale: float = 0.4
    loss: Literal["capped", "logistic"] = "capped"
    calibration: Literal["tight", "printed"] = "tight"
    prior_check: bool = True
    noise: Noise = "auto"
    feature_scale: ArrayLike | None = None
    source_keys: Mapping[str, Any] | None = None

    _kind = "simcomb"
    _sparse = False

    def plan(self, facts: PublicFacts) -> LinearPlan | CheckedPlan:
        """Return everything that is decided before the data are touched; reads the sources."""
        sources = self._open_sources()
        encoder = self._encoder(facts.n_samples)
        check_same_meaning(
            sources,
            features=facts.features,
            classes=facts.classes,
            encoder=None if encoder is None else Encoder.of(encoder),
        )
        check_classes(sources, facts.n_classes)
        prior = self._known(facts, sources)
        # Many beliefs lead to the same coordinates, and all of them to the same law.
        frame_at = cache(partial(self._frame, facts))
        delta_at = cache(partial(self._spent_delta, facts, prior))

        def fit(epsilon: float, belief: Belief) -> LinearPlan:
            delta = delta_at(epsilon)
            frame = frame_at(epsilon, delta, prior.variance_at(belief))
            return self._fit_plan(facts, frame, epsilon, delta, prior, belief, sources)

        if not self.prior_check or prior.deviation == 0:
            return fit(self.epsilon, UNCHECKED)
        return plan_near(
            prior,
            fit,
            epsilon=self.epsilon,
            n_samples=facts.n_samples,
            sources=sources,
        )

    def _body_encoder(self, facts: PublicFacts) -> SchemaEncoder | None:
        """Return the encoder of a body's rows, if the sources have one and noise is shaped so."""
        encoder = self._encoder(facts.n_samples)
        shaped = encoder is not None and encoder.shaped and self.noise != "ball"
        if self.noise == "schema" and not shaped:
            raise InvalidParameter(
                "noise='schema' needs schema= and sources whose noise was shaped by it."
            )
        return encoder if shaped else None

    def _spent_delta(self, facts: PublicFacts, prior: Prior | ClassPrior, epsilon: float) -> float:
        """Return the delta of the fit: as if the sources held, whatever their check will show."""
        encoder = self._body_encoder(facts)
        if encoder is None:
            return self.delta
        return spent_delta(
            encoder,
            facts.n_samples,
            epsilon=epsilon,
            delta=self.delta,
            loss=self.loss,
            constant=self.fit_intercept,
            log_odds=prior.variance,
        )

    def _frame(
        self, facts: PublicFacts, epsilon: float, delta: float, variance: float
    ) -> Coordinates:
        """Return the public coordinates: of a body if the sources have one."""
        encoder = self._body_encoder(facts)
        if encoder is not None:
            return schema_frame(
                encoder,
                facts.n_samples,
                epsilon=epsilon,
                delta=delta,
                loss=self.loss,
                constant=self.fit_intercept,
                log_odds=variance,
            )
        return linear_frame(
            facts.n_features,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
            intercept_scale=self.intercept_scale,
            feature_scale=self.feature_scale,
        )

    def _fit_plan(
        self,
        facts: PublicFacts,
        frame: Coordinates,
        epsilon: float,
        delta: float,
        prior: Prior | ClassPrior,
        belief: Belief,
        sources: tuple[Release, ...],
    ) -> LinearPlan:
        """Return the plan of the fit itself, as near to the sources as they are believed."""
        return plan_linear(
            facts.n_samples,
            frame,
            epsilon=epsilon,
            delta=delta,
            n_classes=facts.n_classes,
            alpha=self.alpha,
            loss=self.loss,
            calibration=self.calibration,
            prior=_weights(frame, prior, belief),
            variance=prior.variance_at(belief),
            base_rate=prior.base_rate,
            sources=sources,
        )

    def _open_sources(self) -> tuple[Release, ...]:
        return open_sources(
            self.source,
            kinds=LINEAR_KINDS,
            keys=self.source_keys,
            simulation=self.random_state is not None,
        )

    def _form(self, n_samples: int) -> Form:  # noqa: ARG002
        """Return how the sources encode columns."""
        return form_of(self._open_sources())

    def _known(self, facts: PublicFacts, sources: Sequence[Release]) -> Prior | ClassPrior:
        """Return ``(1 - eta)`` times the sources' combined model, and what it leaves unknown."""
        models = [source.model for source in sources if isinstance(source.model, Linear)]
        intercepts = np.array([model.intercept for model in models])
        size = facts.n_features + self.fit_intercept
        rate = 1 / facts.n_classes
        scale = self.feature_scale
        declared: dict[str, Any] = {
            "data_norm": self.data_norm,
            "feature_scale": None if scale is None else np.asarray(scale, dtype=np.float64),
        }
        coefs = np.array([model.coef for model in models])
        encoder = self._encoder(facts.n_samples)

        def around(coef: NDArray[np.float64], intercept: float, variance: float = 0.0) -> Prior:
            shaped = encoder is not None and encoder.shaped
            moments = encoder.score_moments(coef) if encoder is not None and shaped else None
            known = Prior(coef, variance=variance, most=1.0, moments=moments, **declared)
            # Intercepts, and how scores spread around them, say about how many are positive.
            middle = intercept + (0.0 if moments is None else moments[0])
            share = float(np.clip(share_of(middle, known.deviation), -4, 4))
            return replace(known, intercept=share, released=intercept)

        if facts.n_classes == 2:
            rate = around(coefs.mean(axis=0)[0], float(intercepts.mean())).base_rate
        precise = precisions(sources, size, rate)
        keep = (1 - self.eta) * precise / precise.sum()
        coef = np.tensordot(keep, coefs, 1)
        intercept = keep @ intercepts
        if facts.n_classes > 2:
            return ClassPrior(coef, intercept, variance_near(precise), **declared)
        return around(coef[0], float(intercept[0]), variance_near(precise, missed=MISSED))


def _weights(frame: Coordinates, prior: Prior | ClassPrior, belief: Belief) -> NDArray[np.float64]:
    """Return a prior in the frame's coordinates, of several classes one row each."""
    factor = prior.factor_at(belief)
    if isinstance(prior, Prior):
        return frame.weights(factor * prior.coef, prior.intercept_at(belief))
    pairs = zip(factor * prior.coef, prior.intercept, strict=True)
    return np.array([frame.weights(coef, float(one)) for coef, one in pairs])


def fit_branches(
    estimator: Any, branches: Mapping[str, tuple[Any, Any]], *, n_jobs: int | None = None
) -> dict[str, Any]:
    """Fit a clone of ``estimator`` for every branch, charged to the account of its name.

    Parameters
    ----------
    estimator : TransferClassifier, TransferStackingClassifier or any private classifier
        Its ``ledger`` must have one account per branch.
    branches : mapping of name to (X, y)
        Disjoint records of the branches.
    n_jobs : int, optional
        Branches at once; joblib's ``parallel_config`` chooses the backend.

    Returns
    -------
    dict
        Name to fitted estimator, in the order given.
    """
    jobs = (
        delayed(_fit)(clone(estimator).set_params(account=name), X, y)
        for name, (X, y) in branches.items()
    )
    fitted = {}
    with progress_bar("branches", len(branches)) as step:
        for name, model in zip(
            branches, Parallel(n_jobs=n_jobs, return_as="generator")(jobs), strict=True
        ):
            fitted[name] = model
            step(len(fitted))
    return fitted


def _fit(estimator: Any, X: Any, y: Any) -> Any:
    return estimator.fit(X, y)
