"""What is known before any data: of experts, or of models that others have released.

Proof: docs/proofs/prior_check.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.kernel.guarantee import Neighbours
from confrere.maths.prior_ridge import DECLARED, UNKNOWN, intercept_of, share_of
from confrere.mechanisms.measurements import RowCount
from confrere.mechanisms.prior_check import Belief, PriorCheck, class_parts
from confrere.methods.design import Near
from confrere.rows.body import BodyFrame
from confrere.rows.frame import Frame
from confrere.schema import SchemaEncoder

#: Rows that are scored at a time.
_BLOCK = 1 << 16

#: Made-up rows that say what to expect of a check of several classes.
_DRAWS = 4096


@dataclass(frozen=True, eq=False)
class Prior:
    """What is declared, or was released by others, before any data are touched.

    Parameters
    ----------
    coef : (n_features,) array, or (K, n_features) of several classes
        Log odds per unit of each column, for rows as given; kept with one row per score.
    intercept : float, or (K,) array
        Log odds of the declared shares; :meth:`intercept_at` is what a model starts from.
    variance : float, default=0.2
        Of the log odds around the prior, if it is right.
    data_norm : float, default=1.0
        Declared bound on the rows' norm after ``feature_scale``.
    feature_scale : (n_features,) array, optional
        Public factors that bring columns to one scale, or weigh them.
    most : float, default=1.5
        Largest factor that a check may find.
    importance : (n_features,) array, optional
        Public factors that the rows were encoded with: taken back as far as the prior is not
        believed.
    released : float, or (K,) array, optional
        The intercepts of others' models: kept as they are, however far they are believed.
    encoder : SchemaEncoder, optional
        Of rows in a body: its declared facts imply how scores spread, and around what. By default
        rows are centred, and their norm is the bound.
    """

    coef: Floats
    intercept: Any = 0.0
    variance: float = DECLARED
    data_norm: float = 1.0
    feature_scale: Floats | None = None
    most: float = 1.5
    importance: Floats | None = None
    released: Any = None
    encoder: SchemaEncoder | None = None

    def __post_init__(self) -> None:
        coef = np.atleast_2d(np.asarray(self.coef, dtype=np.float64))
        if coef.ndim != 2 or not np.all(np.isfinite(coef)):
            raise InvalidParameter("prior must hold one finite number per column, and class.")
        object.__setattr__(self, "coef", coef)
        for name in ("intercept", "released"):
            if (given := getattr(self, name)) is not None:
                each = np.broadcast_to(np.asarray(given, dtype=np.float64), (len(coef),))
                object.__setattr__(self, name, each)

    @property
    def several(self) -> bool:
        """Whether there are more than two classes, with a score each."""
        return len(self.coef) > 1

    @property
    def base_rate(self) -> float:
        """Declared share of positive rows; of a class, if all of several were alike."""
        if self.several:
            return 1 / len(self.coef)
        return float(1 / (1 + np.exp(-np.clip(self.intercept[0], -30, 30))))

    @property
    def rates(self) -> tuple[float, ...] | None:
        """Shares of several classes, by the intercepts; of two the base rate tells them."""
        if not self.several:
            return None
        centred = self.intercept - np.mean(self.intercept)
        return tuple(special.softmax(np.clip(centred, -4, 4)).tolist())

    def with_shares(self) -> Prior:
        """Return the same with the shares that its own intercepts, and their spread, speak of."""
        if self.several:
            return replace(self, intercept=self.released)
        middle = float(self.released[0] + self._moments[0][0])
        return replace(self, intercept=float(np.clip(share_of(middle, self.deviation), -4, 4)))

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Means of the scores, and what they are of independent columns of deviation one."""
        if self.encoder is not None:
            return self.encoder.score_moments(self.coef)
        loads = np.array([self.frame.weights(each) for each in self.coef])
        return np.zeros(len(loads)), loads / math.sqrt(loads.shape[1])

    @property
    def deviation(self) -> float:
        """Standard deviation of the prior's log odds; of a class's above the mean of all."""
        shares, loads = np.ones(1), self._moments[1]
        if self.rates is not None:
            shares = np.array(self.rates)
            loads = loads - shares @ loads
        return math.sqrt(float(shares @ np.square(loads).sum(axis=1)))

    @cached_property
    def strength(self) -> float | None:
        """Of several classes the mean of a record's part in the check, if the prior holds.

        Steep scores have labels that are nearly sure, whose parts stop growing: by draws from a
        fixed stream, of public numbers alone. Of two it follows from rate and deviation.
        """
        if self.rates is None:
            return None
        loads = self._moments[1]
        scores = np.random.default_rng(0).normal(size=(_DRAWS, loads.shape[1])) @ loads.T
        shares = special.softmax(scores + np.log(self.rates), axis=1)
        parts = class_parts(scores, self.rates, self.deviation)
        return float((shares * parts).sum(axis=1).mean())

    @property
    def frame(self) -> Frame:
        """The bounded rows that the check scores: in a body they are no longer than one."""
        size = self.coef.shape[1]
        if self.encoder is not None:
            return Frame(size, constant=0.0)
        scale = self.feature_scale
        return Frame(size, data_norm=self.data_norm, constant=0.0, feature_scale=scale)

    def scores(self, X: Any) -> Floats:
        """Return log odds of bounded rows around their public mean; ``(n, K)`` of classes."""
        weights = np.array([self.frame.weights(each) for each in self.coef])
        scores = row_scores(self.frame, weights, X) - self._moments[0]
        return scores if self.several else np.asarray(scores[:, 0])

    def check(
        self, epsilon: float, count: RowCount, neighbours: Neighbours, answers: int = 1
    ) -> PriorCheck:
        """Return the paid check of it, on so many records as far as that is public."""
        return PriorCheck(
            epsilon=epsilon,
            n_samples=count,
            base_rate=self.base_rate,
            deviation=self.deviation,
            rates=self.rates,
            strength=self.strength or 0.0,
            neighbours=neighbours,
            answers=answers,
        )

    def variance_at(self, belief: Belief) -> float:
        """Return the variance around the prior: all is open where it is not to be trusted."""
        trust = 0.0 if self.several and belief.factor <= 0 else belief.trust
        return self.variance + (UNKNOWN - DECLARED) * (1 - trust)

    def near(self, belief: Belief) -> Near:
        """Return what a ridge should know of it."""
        return Near(
            variance=self.variance_at(belief),
            base_rate=self.base_rate,
            precise=self.released is not None and not self.several,
        )

    def scale_at(self, belief: Belief) -> Floats | None:
        """Return the columns' factors: importances count as far as experts are believed."""
        if self.released is not None:
            return self.feature_scale
        weighted = self.importance
        if weighted is None:
            return weights_at(self.feature_scale, belief.trust)
        trusted = weights_at(weighted, belief.trust)
        if trusted is None or trusted is weighted:
            return self.feature_scale
        factors = np.ones_like(weighted)
        np.divide(trusted, weighted, out=factors, where=weighted > 0)
        return factors if self.feature_scale is None else factors * self.feature_scale

    def factor_at(self, belief: Belief) -> float:
        """Return what the prior is multiplied by: turned round, several classes mean nothing."""
        return max(0.0 if self.several else -self.most, min(self.most, belief.factor))

    def intercept_at(self, belief: Belief) -> Floats:
        """Return the intercepts to start from: the believed prior then has the base rate."""
        if self.released is not None:
            return np.asarray(self.released)
        factor = self.factor_at(belief)
        spread = 0.0 if self.several else factor * self.deviation
        return np.asarray(intercept_of(1.0, spread) * self.intercept - factor * self._moments[0])

    def point(self, frame: Frame | BodyFrame, belief: Belief) -> Floats:
        """Return the believed prior as weights in a frame's coordinates: what a fit starts from."""
        pairs = zip(self.factor_at(belief) * self.coef, self.intercept_at(belief), strict=True)
        points = [frame.weights(coef, float(one)) for coef, one in pairs]
        return np.array(points) if self.several else points[0]


def weights_at(scale: Floats | None, trust: float) -> Floats | None:
    """Return column weights as far as they are trusted: all alike where nothing is.

    Their root mean square stays one, so that rows keep their length on average.
    """
    if scale is None or trust == 1:
        return scale
    largest = float(np.max(scale))
    if not largest > 0:
        return np.asarray(scale)
    powers = (scale / largest) ** trust
    return np.asarray(powers * float(np.sqrt(np.mean(scale**2) / np.mean(powers**2))))


def row_scores(frame: Frame, weights: Floats, X: Any) -> Floats:
    """Return ``(n, k)`` scores of bounded rows by ``(k, d)`` weights.

    Column after column: a row's score does not depend on other rows, to the last bit. Rows are
    read in blocks, so there may be as many as a source holds.
    """
    scores = np.zeros((X.shape[0], len(weights)))
    for begin in range(0, len(scores), _BLOCK):
        part = slice(begin, min(begin + _BLOCK, len(scores)))
        rows = frame.rows(X[part])
        if rows.sparse:
            scores[part] = rows @ weights.T
            continue
        for column, weight in zip(rows.written().T, weights.T, strict=True):
            scores[part] += column[:, None] * weight
    return scores
