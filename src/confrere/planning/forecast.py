"""A plan: noise, margins, excess risk and expected quality, as functions of public sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from confrere.errors import CalibrationError, InvalidParameter
from confrere.estimators import FeatureStackingClassifier
from confrere.guarantee import check_epsilon, check_positive
from confrere.planning.working_model import (
    NoiseTerm,
    PlannedObjective,
    Population,
    expected_area,
    expected_margin,
    noise_in_scores,
)
from confrere.plans.base_plan import PublicFacts
from confrere.plans.collaborative_plan import Averaging
from confrere.plans.feature_stack_plan import FeatureStackPlan
from confrere.plans.linear_plan import Loss, plan_linear, slope_of
from confrere.plans.party_rows import Sizes
from confrere.rows.frame import Frame

#: Most records that :meth:`Forecast.samples_for_excess` looks for.
_MOST_SAMPLES = 10**12

#: How fast principal variances fall where nothing is said: between questionnaires and images.
DECAY = 0.75


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What to expect of a private fit. Nothing in it comes from data.

    Attributes
    ----------
    n, d : int
        Records per party, and features.
    epsilon, delta : float
        What every party spends.
    parties : int
        Models that are averaged, each of ``n`` records.
    groups : int
        Groups of features of the low level; 1 is plain private logistic regression.
    importance : tuple of float or None
        Share of the signal in every feature; None is the same for all.
    area : float
        What a model without privacy and with unlimited data would reach.
    base_rate : float
        Share of positive rows.
    decay : float
        How fast the variances of the table's principal directions fall.
    row_norm : float
        Root mean square norm of rows, as a share of the declared bound.
    loss : {"logistic", "capped"}
        The loss.
    terms : tuple of NoiseTerm
        The noise of every objective.
    samples_used : int
        Records behind the objectives; a stack keeps some for its high level.
    """

    n: int
    d: int
    epsilon: float
    parties: int
    groups: int
    importance: tuple[float, ...] | None
    area: float
    base_rate: float
    decay: float
    row_norm: float
    loss: Literal["logistic", "capped"]
    terms: tuple[NoiseTerm, ...]
    samples_used: int
    delta: float
    _signals: tuple[float, ...]
    _features: tuple[int, ...]
    _constant: float

    @property
    def margin_spread(self) -> float:
        """Standard deviation that noise adds to the score of a row at the declared bound."""
        return math.sqrt(
            noise_in_scores(
                self._objectives([term.rate for term in self.terms]),
                self._population,
                n_samples=self.samples_used,
                n_parties=self.parties,
            )
            * (1 - self._constant**2)
        )

    @property
    def margin(self) -> float:
        """Score of a class's mean row without noise, to be compared with the spread."""
        return expected_margin(
            self._objectives([term.rate for term in self.terms]),
            self._population,
            n_samples=self.samples_used,
        )

    def excess(self, delta: float = 0.01) -> float:
        """Bound the mean objective above its minimum, on one party's records.

        ``||b||^2 / (2 L n)`` at the noise's quantile; true with probability ``1 - delta``.
        """
        share = delta / len(self.terms)
        squares = [term.quantile(1 - share) ** 2 / term.ridge for term in self.terms]
        return math.fsum(squares) / (2 * self.samples_used)

    def samples_for_excess(self, excess: float, delta: float = 0.01) -> int:
        """Return the fewest records per party at which :meth:`excess` is at most ``excess``."""
        check_positive(excess, "excess")
        low, high = 0, self.n
        while self.resized(high).excess(delta) > excess:
            low, high = high, 4 * high
            if high > _MOST_SAMPLES:
                raise CalibrationError("no number of records brings the excess that low.")
        while high - low > 1:
            middle = (low + high) // 2
            try:
                enough = self.resized(middle).excess(delta) <= excess
            except ValueError:
                enough = False  # too few rows for every part of a stack
            low, high = (low, middle) if enough else (middle, high)
        return high

    def expected_auc(self) -> float:
        """Return the expected area under the curve, under the working model."""
        return self._expected([term.rate for term in self.terms])

    def auc_without_noise(self) -> float:
        """Return the same without the noise: what sampling and the ridge alone leave."""
        return self._expected([math.inf] * len(self.terms))

    def resized(self, n: int, epsilon: float | None = None) -> Forecast:
        """Return the plan for another number of records, and perhaps another price."""
        return plan(
            n=n,
            d=self.d,
            epsilon=self.epsilon if epsilon is None else epsilon,
            delta=self.delta,
            parties=self.parties,
            groups=self.groups,
            importance=self.importance,
            auc=self.area,
            base_rate=self.base_rate,
            decay=self.decay,
            row_norm=self.row_norm,
            loss=self.loss,
        )

    def __str__(self) -> str:
        lines = [
            f"{self._sizes} each",
            *(
                f"{term.name}: ||b|| about {term.mean:.4g}, below {term.quantile(0.99):.4g} in 99% "
                f"of runs (ridge {term.ridge:.4g})"
                for term in self.terms
            ),
            f"noise in a score: {self.margin_spread:.3g} (standard deviation), where a typical "
            f"margin is {self.margin:.3g}",
            f"excess objective below {self.excess():.3g} in 99% of runs",
            f"expected AUC {self.expected_auc():.3f}; {self.auc_without_noise():.3f} without "
            f"noise; {self.area:.3f} at best",
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from confrere.notebook import facts, grid, interval, panel

        noise = [
            (one.name, f"{one.mean:.4g}", f"{one.quantile(0.99):.4g}", f"{one.ridge:.4g}")
            for one in self.terms
        ]
        names = ("noise of", "about", "below, in 99% of runs", "ridge")
        expected, without = self.expected_auc(), self.auc_without_noise()
        told = {
            "expected AUC": f"{expected:.3f}; {without:.3f} without noise; {self.area:.3f} at best",
            "": interval(expected, expected, self.area),
            "noise in a score": f"{self.margin_spread:.3g}, where a typical margin is "
            f"{self.margin:.3g}",
        }
        note = "From public sizes alone; nothing was spent."
        table = grid(names, noise, right=names[1:])
        return panel(f"Forecast: {self._sizes} each", facts(told), table, note=note)

    @property
    def _sizes(self) -> str:
        price = f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "")
        return f"{self.parties} x {self.n} records, {self.d} features, {price}"

    def pure(self) -> Forecast:
        """Return the plan without a delta, to see what it buys."""
        return replace(self, delta=0.0).resized(self.n)

    def plot(self, ax: Any = None) -> Any:
        """Draw expected quality against epsilon, for several numbers of records."""
        from confrere.planning.forecast_plot import plot_plan

        return plot_plan(self, ax)

    def _objectives(self, rates: Sequence[float]) -> list[PlannedObjective]:
        return [
            PlannedObjective(
                features,
                term.size,
                rate,
                term.ridge,
                signal,
                slope_of(self.loss),
                "own normal" if term.gaussian else "norm",
            )
            for features, term, rate, signal in zip(
                self._features, self.terms, rates, self._signals, strict=True
            )
        ]

    @property
    def _population(self) -> Population:
        return Population(
            area=self.area,
            base_rate=self.base_rate,
            decay=self.decay,
            row_norm=self.row_norm * math.sqrt(1 - self._constant**2),
            constant=self._constant,
        )

    def _expected(self, rates: Sequence[float]) -> float:
        return expected_area(
            self._objectives(rates),
            self._population,
            n_samples=self.samples_used,
            n_parties=self.parties,
        )


def plan(
    *,
    n: int,
    d: int,
    epsilon: float = 1.0,
    delta: float = 0.0,
    parties: int = 1,
    groups: int = 1,
    importance: Sequence[float] | None = None,
    auc: float = 0.85,
    base_rate: float = 0.5,
    decay: float = DECAY,
    row_norm: float = 1.0,
    loss: Literal["logistic", "capped"] = "capped",
) -> Forecast:
    """Plan a private fit without touching data.

    Parameters
    ----------
    n, d : int
        Records of every party, and features.
    epsilon : float, default=1.0
        What every party spends.
    delta : float, default=0.0
        Spent besides; with one the noise is Gaussian. Below one over the records of a party.
    parties : int, default=1
        Each releases one model and the average is used.
    groups : int, default=1
        More than one plans the low level of a :class:`confrere.FeatureStackingClassifier`.
    importance : sequence of float, optional
        Public importances of the features, taken to be their shares of the signal.
    auc : float, default=0.85
        What the best linear model reaches without privacy: a guess, from the literature.
    base_rate : float, default=0.5
        Share of positive rows: a guess, as declared in a schema.
    decay : float, default=0.75
        Variances of the table's principal directions fall like ``j ** -decay``. Columns that have
        nothing to do with one another have 0, questionnaires about 0.5, images 1.
    row_norm : float, default=1.0
        Root mean square norm of the rows as a share of ``data_norm``.
    loss : {"capped", "logistic"}, default="capped"
        The loss.

    Returns
    -------
    Forecast
    """
    check_epsilon(epsilon)
    check_positive(row_norm, "row_norm")
    if not 0.5 < auc < 1:
        raise InvalidParameter("auc must lie strictly between 0.5 and 1.")
    if not 0 < base_rate < 1:
        raise InvalidParameter("base_rate must lie strictly between 0 and 1.")
    if not 0 <= decay <= 3:
        raise InvalidParameter("decay must lie between 0 and 3.")
    if min(n, d, parties, groups) < 1:
        raise InvalidParameter("n, d, parties and groups must be at least 1.")
    if groups > 1 and parties > 1:
        raise InvalidParameter("groups of features are planned for one party at a time.")
    if importance is not None and len(importance) != d:
        raise InvalidParameter(f"importance must have one entry per feature ({d}).")
    if groups > 1:
        made = _stack(n, d, (epsilon, delta), groups, importance, loss)
    else:
        made = _linear(n, d, (epsilon, delta), parties, loss)
    return Forecast(
        n=n,
        d=d,
        epsilon=float(epsilon),
        delta=float(delta),
        parties=parties,
        groups=groups,
        importance=None if importance is None else tuple(float(a) for a in importance),
        area=auc,
        base_rate=base_rate,
        decay=decay,
        row_norm=row_norm,
        loss=loss,
        **made,
    )


def _linear(n: int, d: int, price: tuple[float, float], parties: int, loss: Loss) -> dict[str, Any]:
    """Return the noise of plain private regression at every party, ridges for their average."""
    frame = Frame(d)
    epsilon, delta = price
    mechanism: Any
    if parties > 1:
        averaging = Averaging(frame=frame, epsilon=epsilon, delta=delta, cap=slope_of(loss))
        sizes = Sizes({f"party {k}": n for k in range(parties)})
        mechanism = averaging.mechanism(averaging.request(epsilon, sizes, None), n)
    else:
        mechanism = plan_linear(n, frame, epsilon=epsilon, delta=delta, loss=loss).mechanism
    rate = 1 / mechanism.sigma if delta else mechanism.rho
    name = "one model" if parties == 1 else "every party's model"
    return {
        "terms": (NoiseTerm(name, mechanism.n_features, rate, mechanism.ridge, delta > 0),),
        "samples_used": n,
        "_signals": (1.0,),
        "_features": (d,),
        "_constant": frame.constant,
    }


def _stack(
    n: int,
    d: int,
    price: tuple[float, float],
    groups: int,
    importance: Sequence[float] | None,
    loss: Loss,
) -> dict[str, Any]:
    """Return the noise of a stack's low level."""
    epsilon, delta = price
    model = FeatureStackingClassifier(
        epsilon=epsilon, delta=delta, n_groups=groups, importance=importance, loss=loss
    )
    made = model.plan(PublicFacts(n_samples=n, n_features=d))
    assert isinstance(made, FeatureStackPlan)  # no prior was declared
    low = made.low
    return {
        "terms": tuple(
            NoiseTerm(f"group {k}", size, rate, ridge, delta > 0)
            for k, (size, rate, ridge) in enumerate(
                zip(low.sizes, low.rates, low.ridges, strict=True)
            )
        ),
        "samples_used": low.n_samples,
        "_signals": tuple(float(share) for share in made.importances),
        "_features": tuple(len(group) for group in made.rows.groups),
        "_constant": made.rows.constant,
    }
