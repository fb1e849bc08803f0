"""What is known before any data: of experts, or of models that others have released.

Proof: docs/proofs/prior_check.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse, special

from confrere.arrays import Floats
from confrere.errors import InvalidParameter
from confrere.maths.prior_ridge import DECLARED, UNKNOWN, intercept_of
from confrere.mechanisms.prior_check import Belief, class_parts
from confrere.rows.frame import Frame, as_source

#: Rows that are scored at a time.
_BLOCK = 1 << 16

#: Made-up rows that say what to expect of a check of several classes.
_DRAWS = 4096


@dataclass(frozen=True, eq=False)
class Prior:
    """What is declared, or was released by others, before any data are touched.

    Parameters
    ----------
    coef : (n_features,) array
        Log odds per unit of each column, for rows as given.
    intercept : float, default=0.0
        Log odds of the declared base rate; :meth:`intercept_at` is what a model starts from.
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
    released : float, optional
        The intercept of others' models: kept as it is, however far they are believed.
    moments : pair of float, optional
        Mean and deviation of its log odds without the intercept, where a schema implies them; by
        default rows are centred, and their norm is the bound.
    """

    coef: Floats
    intercept: float = 0.0
    variance: float = DECLARED
    data_norm: float = 1.0
    feature_scale: Floats | None = None
    most: float = 1.5
    importance: Floats | None = None
    released: float | None = None
    moments: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        coef = np.asarray(self.coef, dtype=np.float64)
        if coef.ndim != 1 or not np.all(np.isfinite(coef)):
            raise InvalidParameter("prior must hold one finite number per column.")
        object.__setattr__(self, "coef", coef)

    @property
    def base_rate(self) -> float:
        """Declared share of positive rows."""
        return float(1 / (1 + np.exp(-np.clip(self.intercept, -30, 30))))

    @property
    def rates(self) -> None:
        """None: one base rate tells the shares of two classes."""
        return

    @property
    def strength(self) -> None:
        """None: what a check of two classes expects follows from rate and deviation."""
        return

    @property
    def deviation(self) -> float:
        """Standard deviation of the prior's log odds, on rows whose norm is the bound."""
        if self.moments is not None:
            return self.moments[1]
        weights = self.frame.weights(self.coef)
        return float(np.linalg.norm(weights)) / math.sqrt(len(self.coef))

    @property
    def frame(self) -> Frame:
        """The bounded rows that the check scores."""
        scale = self.feature_scale
        return Frame(len(self.coef), data_norm=self.data_norm, constant=0.0, feature_scale=scale)

    def scores(self, X: Any) -> Floats:
        """Return the prior's log odds of bounded rows around their public mean."""
        scores = row_scores(self.frame, self.frame.weights(self.coef)[None], X)[:, 0]
        return scores if self.moments is None else np.asarray(scores - self.moments[0])

    def variance_at(self, belief: Belief) -> float:
        """Return the variance around the prior: all is open where it is not to be trusted."""
        return self.variance + (UNKNOWN - DECLARED) * (1 - belief.trust)

    def scale_at(self, belief: Belief) -> Floats | None:
        """Return the columns' factors: importances count as far as the prior is believed."""
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
        """Return what the prior is multiplied by."""
        return max(-self.most, min(self.most, belief.factor))

    def intercept_at(self, belief: Belief) -> float:
        """Return the intercept to start from: the believed prior then has the base rate."""
        if self.released is not None:
            return self.released
        return intercept_of(self.intercept, self.factor_at(belief) * self.deviation)


def declared_prior(
    coef: ArrayLike | None,
    intercept: float,
    data_norm: float,
    n_features: int,
    feature_scale: ArrayLike | None = None,
    importance: Floats | None = None,
) -> Prior | None:
    """Return what parameters declare about the columns; None if that is nothing."""
    if coef is None or not np.any(coef):
        return None
    given = np.asarray(coef, dtype=np.float64)
    if given.shape != (n_features,):
        raise InvalidParameter("prior must hold one finite number per column.")
    scale = None if feature_scale is None else np.asarray(feature_scale, dtype=np.float64)
    return Prior(
        given,
        float(intercept),
        data_norm=float(data_norm),
        feature_scale=scale,
        importance=importance,
    )


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


@dataclass(frozen=True, eq=False)
class ClassPrior:
    """Released models of several classes, combined.

    Attributes
    ----------
    coef, intercept : arrays of shape (K, d) and (K,)
        What they say, for rows as given.
    variance : float
        Of the log odds around it, if it holds.
    data_norm : float
        Declared bound on the rows' norm after ``feature_scale``.
    feature_scale : (d,) array or None
        As for :class:`Prior`.
    """

    coef: Floats
    intercept: Floats
    variance: float
    data_norm: float = 1.0
    feature_scale: Floats | None = None

    @property
    def base_rate(self) -> float:
        """Share of a class, if all were alike."""
        return 1 / len(self.coef)

    @property
    def rates(self) -> tuple[float, ...]:
        """Shares of the classes that the models' own intercepts speak of."""
        centred = np.clip(self.intercept - np.mean(self.intercept), -4, 4)
        return tuple(special.softmax(centred).tolist())

    @property
    def frame(self) -> Frame:
        """The bounded rows that the check scores."""
        size, scale = self.coef.shape[1], self.feature_scale
        return Frame(size, data_norm=self.data_norm, constant=0.0, feature_scale=scale)

    @property
    def deviation(self) -> float:
        """Of a class's score above the mean of all, on rows whose norm is the bound."""
        shares = np.array(self.rates)
        weights = self._weights - shares @ self._weights
        return math.sqrt(float(shares @ (weights**2).sum(axis=1)) / self.coef.shape[1])

    @cached_property
    def strength(self) -> float:
        """Mean of a record's part in the check if the models hold, for normal rows.

        Steep scores have labels that are nearly sure, whose parts stop growing: by draws from a
        fixed stream, of public numbers alone.
        """
        rows = np.random.default_rng(0).normal(size=(_DRAWS, self.coef.shape[1]))
        scores = rows @ self._weights.T / math.sqrt(self.coef.shape[1])
        shares = special.softmax(scores + np.log(self.rates), axis=1)
        parts = class_parts(scores, self.rates, self.deviation)
        return float((shares * parts).sum(axis=1).mean())

    @property
    def _weights(self) -> Floats:
        return np.array([self.frame.weights(each) for each in self.coef])

    def scores(self, X: Any) -> Floats:
        """Return every class's score of bounded rows, ``(n, K)``, without intercepts."""
        return row_scores(self.frame, self._weights, X)

    def factor_at(self, belief: Belief) -> float:
        """Return what it is multiplied by: turned round, several classes mean nothing."""
        return max(0.0, min(1.0, belief.factor))

    def variance_at(self, belief: Belief) -> float:
        """Return the variance around it: all is open where it does not hold."""
        trust = belief.trust if belief.factor > 0 else 0.0
        return self.variance + (UNKNOWN - DECLARED) * (1 - trust)


def row_scores(frame: Frame, weights: Floats, X: Any) -> Floats:
    """Return ``(n, k)`` scores of bounded rows by ``(k, d)`` weights.

    Column after column: a row's score does not depend on other rows, to the last bit. Rows are
    read in blocks, so there may be as many as a source holds.
    """
    source = as_source(X)
    scores = np.zeros((source.shape[0], len(weights)))
    for begin in range(0, len(scores), _BLOCK):
        part = slice(begin, min(begin + _BLOCK, len(scores)))
        rows = frame.rows(source.read(part))
        for k, each in enumerate(weights):
            if sparse.issparse(rows):
                scores[part, k] = rows @ each
                continue
            for j, weight in enumerate(each):
                scores[part, k] += weight * rows[:, j]
    return scores
