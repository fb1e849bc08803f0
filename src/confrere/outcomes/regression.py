"""Estimators of amounts and counts, by scikit-learn's conventions for regressors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score, r2_score
from sklearn.utils import Tags
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.cells import Container
from confrere.data.encoding import SchemaEncoder
from confrere.data.features import Outcome
from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.base import (
    Auto,
    Bound,
    LinearClassifier,
    PrivateEstimator,
    Relation,
    Ridges,
    RowEngine,
    estimator,
    numbers,
)
from confrere.methods.design import Settings
from confrere.methods.geometry import GeometryName
from confrere.methods.plan import PublicFacts
from confrere.outcomes.kinds import Count, Quantity
from confrere.outcomes.times import TimeToEvent

#: A width, or a cap, of a loss.
Width = Annotated[
    Auto, numbers("'auto' or a finite number above 0", 5e-324, np.finfo(float).max, auto=True)
]


@estimator
class Regressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """A private linear model of a number, or of times.

    Parameters
    ----------
    alpha : float, "auto" or array of shape (n_features,)
        Ridge on the mean loss. ``"auto"`` is a public rule of epsilon, delta, n_samples and what is
        declared.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Released weights, for rows as given to ``fit``.
    intercept_ : array of no dimension
        Released intercept.

    Notes
    -----
    :Releases: ``coef_``, ``intercept_``
    """

    alpha: Ridges = "auto"
    neighbours: Relation = "replace-one"
    geometry: GeometryName = "auto"
    engine: RowEngine = None
    data_norm: Bound = 1.0

    _outcomes: ClassVar[tuple[type[Outcome], ...]]

    @property
    def _undeclared(self) -> Quantity | Count:
        """The outcome where no schema says it."""
        raise InvalidParameter("schema must say the outcome: a quantity, a count or a time.")

    @property
    def _outcome(self) -> Quantity | Count | TimeToEvent:
        """What is learned, as the schema or else parameters declare it."""
        schema = self.schema.schema if isinstance(self.schema, SchemaEncoder) else self.schema
        outcome: Outcome | None = None if schema is None else schema.outcome
        if outcome is None:
            return self._undeclared
        if not isinstance(outcome, self._outcomes):
            kinds = " or ".join(kind.__name__ for kind in self._outcomes)
            raise InvalidParameter(f"schema: its outcome must be {kinds}(column, ...) here.")
        return outcome  # type: ignore[return-value]

    @override
    def _asked(self, *, opened: bool = True) -> Settings:
        asked = super()._asked(opened=opened)
        told = {
            name: getattr(self, name) for name in ("width", "cap", "loss") if hasattr(self, name)
        }
        outcome, geometry = self._outcome, asked.geometry
        if geometry == "auto" and isinstance(outcome, TimeToEvent):
            geometry = "l2"  # lines are read
        target = outcome.target(share=asked.intercept_scale**2, **told)
        return replace(asked, target=target, geometry=geometry)

    @override
    def _sizes(self, n_samples: object, *columns: int | None) -> PublicFacts:
        return replace(super()._sizes(n_samples, *columns), n_classes=0)

    def _learned(self, labels: Container, _: object) -> tuple[Floats, Floats]:
        outcome, encoder = self._outcome, self._encoder()
        if encoder is None or encoder.schema.outcome is None:
            labels = outcome.encode(outcome.column_of(labels))
        return labels, np.empty(0)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Released weights, for rows as given to ``fit``."""
        return np.asarray(self.model_.coef[0] * self.model_.link.slope)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Released intercept."""
        link = self.model_.link
        return np.asarray(self.model_.intercept[0] * link.slope + link.shift)

    summary = LinearClassifier.summary

    def predict(self, X: object) -> NDArray[np.float64]:
        """Return the mean that is expected of every row, inside the declared bounds."""
        rows = self._rows(X)
        return np.asarray(self.model_.predict_proba(rows))

    def _true(self, X: object, y: object) -> Floats:
        """Return outcomes as they are learned; without ``y``, those in the table."""
        if y is None and self.schema is None:
            raise InvalidData("y must be given: no schema says where the outcomes are.")
        outcome = self._outcome
        return outcome.encode(outcome.column_of(X if y is None else y))


@estimator
class PrivateLinearRegression(Regressor):
    """Private linear regression by objective perturbation.

    The loss is a square near the outcome and a magnitude far from it, so that no record pulls at
    the line by more than ``width``.

    Parameters
    ----------
    bounds : pair of float
        Between which outcomes lie, where no schema says it; others are moved to the nearest.
    width : float or "auto"
        Up to which residual the loss is a square, in the outcome's unit. ``"auto"`` is half of the
        standard deviation that the schema declares, or a twelfth of the bounds' distance.
    loss : {"log-cosh", "huber"}
        ``"log-cosh"`` bends less and less towards its width, so that its curvature costs no noise.

    Notes
    -----
    :Proof: docs/proofs/linear_regression.md

    Examples
    --------
    >>> from confrere.outcomes import PrivateLinearRegression
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(n_samples=2000, n_features=5, noise=10, random_state=0)
    >>> model = PrivateLinearRegression(bounds=(-300, 300), data_norm=4.0, random_state=0)
    >>> print(model.fit(X, y).guarantee_)
    1-DP per record (replace-one)
    """

    bounds: Annotated[
        Sequence[float], numbers("two numbers", -np.finfo(float).max, several=True)
    ] = (-1.0, 1.0)
    width: Width = "auto"
    loss: Literal["log-cosh", "huber"] = "log-cosh"

    _kind = "linear"
    _outcomes = (Quantity,)

    @property
    def _undeclared(self) -> Quantity | Count:
        low, high = self.bounds
        return Quantity("y", bounds=(float(low), float(high)))

    def score(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of variance that is explained (R2); looks at the outcomes, unpaid."""
        link, predicted = self.model_.link, self.predict(X)
        if y is None or self.schema is not None:
            y = self._true(X, y) * link.slope + link.shift
        return float(r2_score(y, predicted, sample_weight=sample_weight))


@estimator
class PrivatePoissonRegression(Regressor):
    """Private Poisson regression by objective perturbation: rates of bounded counts.

    Parameters
    ----------
    most : float
        Largest count, where no schema says it; larger ones are taken for it.
    cap : float or "auto"
        From which mean on the loss is linear. ``"auto"`` is half of the largest count: up to there
        the curvature costs no noise.

    Notes
    -----
    :Proof: docs/proofs/counts.md
    """

    most: Bound = 10.0
    cap: Width = "auto"

    _kind = "poisson"
    _outcomes = (Count,)

    @property
    def _undeclared(self) -> Quantity | Count:
        return Count("y", most=float(self.most))

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        assert tags.regressor_tags is not None
        tags.regressor_tags.poor_score = True  # which is of deviance
        return tags

    def score(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of deviance that is explained; looks at the outcomes, unpaid.

        Of counts with an exposure, the deviance is of their expected counts.
        """
        counts, offsets = self._true(X, y).T
        means = np.maximum(self.predict(X) * np.exp(offsets), 1e-12)
        return float(d2_tweedie_score(counts, means, sample_weight=sample_weight, power=1))
