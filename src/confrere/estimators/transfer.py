"""From a main hospital to a branch: one private model near another's release (SimComb)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidParameter
from confrere.estimators.base import LinearPrediction, PrivateClassifier
from confrere.estimators.linear_plan import (
    Alpha,
    LinearPlan,
    Loss,
    check_linear_parameters,
    linear_frame,
    plan_linear,
)
from confrere.estimators.releasing import LINEAR_KINDS, release_of
from confrere.estimators.sources import (
    SourceLike,
    check_same_meaning,
    known,
    open_sources,
    precision_weights,
)
from confrere.guarantee import Guarantee
from confrere.ledger import Ledger
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.model import Linear
from confrere.noise.sources import Seed
from confrere.release import Release
from confrere.rows.frame import Frame
from confrere.schema import PublicSchema


class TransferClassifier(LinearPrediction, PrivateClassifier):
    """One private model that shrinks towards a released one (SimComb; PPHTL is the same idea).

    The source's release is public once it is released: starting from it costs the target nothing
    and the source nothing more.

    Parameters
    ----------
    source : Release, path, or a sequence of them
        What the main organisation (or several) released; required by ``fit``.
    eta : float, default=0.0
        Shrink towards ``(1 - eta)`` times the source's weights.
    epsilon, data_norm, alpha, fit_intercept, intercept_scale, loss, calibration, feature_scale
        As in :class:`PrivateLogisticRegression`, for the target's own fit. The automatic ridge is
        multiplied by ``1 + n_source / n_target``.
    schema : PublicSchema, optional
        What the target means by its columns; a source with another meaning is refused.
    source_keys : mapping of party to public key, optional
        Signatures that a source read from disk must carry.
    classes : list, optional
        The public label set, two labels.
    ledger, account, random_state
        As in :class:`PrivateLogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, classes_, guarantee_, receipt_, simulated_
        As in :class:`PrivateLogisticRegression`; the guarantee is the target's.
    sources_ : tuple of Release
        What was started from, each with its own guarantee.

    Privacy
    -------
    Unit : record
    Neighbours : replace one row of the target's ``(X, y)``
    Guarantee : ``epsilon``-DP, pure, for the target's records; the sources' hold as released
    Spends : ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    Public : n_samples, n_features, the label set, the sources, every parameter
    Releases : coef_, intercept_
    Proof : docs/proofs/transfer.md
    """

    def __init__(
        self,
        *,
        source: SourceLike | Sequence[SourceLike] | None = None,
        eta: float = 0.0,
        epsilon: float = 1.0,
        data_norm: float = 1.0,
        alpha: Alpha = "auto",
        fit_intercept: bool = True,
        intercept_scale: float = 0.4,
        loss: Loss = "logistic",
        calibration: Calibration = "tight",
        feature_scale: ArrayLike | None = None,
        schema: PublicSchema | None = None,
        source_keys: Mapping[str, Any] | None = None,
        classes: ArrayLike | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.source = source
        self.eta = eta
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
        self.loss = loss
        self.calibration = calibration
        self.feature_scale = feature_scale
        self.schema = schema
        self.source_keys = source_keys
        self.classes = classes
        self.ledger = ledger
        self.account = account
        self.random_state = random_state

    def price(self, n_samples: int, n_features: int) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data."""
        return self._plan(n_samples, n_features, self._open_sources()).guarantee()

    def fit(self, X: Any, y: Any) -> TransferClassifier:
        """Charge ``epsilon``, then release a model of ``(X, y)`` near the source's."""
        self._check_parameters()
        ledger = self._open_ledger()
        sources = self._open_sources()
        rows, labels, classes = self._validate_binary(X, y)
        n_samples, n_features = rows.shape
        meaning = self._meaning(classes)
        check_same_meaning(
            sources, features=meaning["features"], classes=classes, schema=self.schema
        )
        plan = self._plan(n_samples, n_features, sources)
        self.model_ = self._spend(
            ledger,
            plan.guarantee(),
            lambda randomness: plan.model(rows, labels, randomness, meaning),
            purpose="fit TransferClassifier",
            detail={**plan.detail(), "sources": [release.release_id for release in sources]},
        )
        self.classes_ = classes
        self.sources_ = tuple(sources)
        return self

    def to_release(self, schema: PublicSchema | None = None) -> Release:
        """Return what may leave; its card says what a person in both domains pays."""
        return release_of(self, "simcomb", schema or self.schema, sources=self.sources_)

    def _check_parameters(self) -> None:
        check_linear_parameters(
            epsilon=self.epsilon, alpha=self.alpha, loss=self.loss, calibration=self.calibration
        )
        if isinstance(self.eta, bool) or not 0 <= float(self.eta) <= 1:
            raise InvalidParameter("eta must lie between 0 and 1.")

    def _open_sources(self) -> list[Release]:
        if self.source is None:
            raise InvalidParameter("source must be given: the release to start from, or its path.")
        return open_sources(
            self.source,
            kinds=LINEAR_KINDS,
            keys=self.source_keys,
            simulation=self.random_state is not None,
        )

    def _plan(self, n_samples: int, n_features: int, sources: list[Release]) -> LinearPlan:
        frame = linear_frame(
            n_features,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
            intercept_scale=self.intercept_scale,
            feature_scale=self.feature_scale,
        )
        n_source = sum(known(source.model.facts.n_samples, "n_samples") for source in sources)
        return plan_linear(
            n_samples,
            frame,
            epsilon=self.epsilon,
            alpha=self.alpha,
            ridge_factor=1 + n_source / max(n_samples, 1),
            loss=self.loss,
            calibration=self.calibration,
            prior=self._prior(frame, sources),
        )

    def _prior(self, frame: Frame, sources: list[Release]) -> NDArray[np.float64]:
        """Return ``(1 - eta)`` times the sources' combined model, on the target's scale."""
        models = [source.model for source in sources if isinstance(source.model, Linear)]
        points = [
            weight * frame.weights(model.coef[0], float(model.intercept[0]))
            for weight, model in zip(precision_weights(sources), models, strict=True)
        ]
        return np.asarray((1 - self.eta) * np.sum(points, axis=0))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.classifier_tags.multi_class = False
        return tags
