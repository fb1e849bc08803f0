r"""What to expect of a fit, by public sizes or a schema: noise, margins, excess risk, quality.

How much ranking the noise costs is said under a model of the data that everybody can check. Rows
are normal around their class's mean. Along principal directions of the table the variance falls
like :math:`\lambda_j \propto j^{-a}`, with the public guess ``a`` (``decay``), and classes differ
where rows vary: direction ``j`` has the share :math:`s_j \propto \lambda_j` of the squared distance
of the classes, in units of the deviation within a class. A share ``pi`` of the rows is positive
(``base_rate``). The best linear score is then binormal with area :math:`\Phi(D/\sqrt 2)`, which the
user guesses, and rows have a public root mean square norm.

For such rows the mean gradient of a loss is known by Stein's identity: with the mean residuals
:math:`r_1, r_0` of the classes and the mean curvature :math:`\kappa`, all at the scores' own spread
and offset, the expected weights and their answer to sampling error and noise are

.. math:: \bar w = (L + n\kappa v)^{-1} n\pi(1-\pi)(r_1 + r_0)\mu, \qquad
          w - \bar w = H^{-1}(\text{sampling error} + b), \qquad
          H = L + n\kappa(\operatorname{diag}(v) + \pi(1-\pi)\mu\mu')

A released :math:`w` ranks with area :math:`\Phi(w\cdot\mu/\sqrt{2\sum v_j w_j^2})`; its mean over
sampling error and noise is what is expected. Models of ``M`` parties are averaged; scores of
groups of features are added.

Of a schema, the share of the signal that survives is the number that the estimators' public rule
goes by (:mod:`confrere.methods.geometry`). A best area :math:`a` becomes
:math:`\Phi(\Phi^{-1}(a)\sqrt{\text{share}})`: a score that keeps this share of the log odds'
variance is so much less apart. It is cautious: columns that tell the same lose less.

**Paths**: alone, near a source, or together. A prior ranks with the area :math:`a_0` by itself, the
best linear score with :math:`a`. In the log odds that is a variance
:math:`\tau^2 = D^2((D/D_0)^2 - 1)` of what the prior gets wrong, with
:math:`D = \sqrt2\,\Phi^{-1}(a)` and :math:`D_0` the same of :math:`a_0`. Records and noise add
precision to every weight, by the model of :mod:`confrere.methods.allowance`; what stays unknown, V,
leaves the area :math:`\Phi(D/\sqrt{2(1 + V/D^2)})`.

**Many organisations** take one of three ways to one model, by public facts alone. An *average* of
releases has the noise of every party, each at its whole price. *One message* has the noise of one
sum, whatever the number of parties, but on the weights themselves, and its ridge shrinks them.
*Rounds* have one sum's noise on gradients, and need a delta.

**Many small parties** and public rows: for votes the excess risk is bounded by Theorem 4 of Hamm,
Cao and Belkin (2016), with the sensitivity of the mechanism that runs and the exact quantile of its
noise. For cells noise is compared with the shares that it is added to. Which method to take follows
from public rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.features import Form
from confrere.data.frame import Frame
from confrere.data.schema import PublicSchema
from confrere.errors import CalibrationError, InvalidData, InvalidParameter
from confrere.estimators import FeatureStackingClassifier
from confrere.extras import extra
from confrere.kernel.guarantee import Guarantee, check_epsilon, check_positive
from confrere.ledger import Ledger, default_ledger
from confrere.mechanisms.measurements import Objective, Point
from confrere.methods.allowance import (
    DRIFT,
    LossName,
    allowance,
    mean_curvature,
    noise_variance,
    precision_of,
    slope_of,
)
from confrere.methods.asking import Colluding, Sizes
from confrere.methods.average import CHECK_SHARE, Averaging
from confrere.methods.geometry import choose_form, expect
from confrere.methods.plan import PublicFacts, plan_linear
from confrere.methods.priors import PriorCheck, check_share
from confrere.methods.public_cells import HalfWhite
from confrere.methods.sums import GradientRounds, OneMessage
from confrere.methods.votes import (
    PartyBudget,
    PartyTotal,
    Voting,
    cells_for,
    noised_cells,
    noised_votes,
)
from confrere.views import Pairs, Panel, Shown, Span, Table

#: Rounds in which curvature, spread and offset of the scores settle.
_ROUNDS = 30

#: Principal directions are followed one by one up to here, and in bands of one variance beyond.
_SINGLE, _BANDS = 16, 48

#: Of a standard normal variable; close together, for the curvature of a capped loss jumps.
_NODES = np.linspace(-8, 8, 801)
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()

#: Draws behind an expectation: its own error is then below .002.
DRAWS = 4_000

#: Most records that :meth:`Forecast.samples_for_excess` looks for.
_MOST_SAMPLES = 10**12

#: Of a picture.
_EPSILONS = np.geomspace(0.05, 10, 16)
_COLOURS = ("#56b4e9", "#0072b2", "#003a5d")


@dataclass(frozen=True, slots=True)
class Population:
    """What is guessed about the data."""

    auc: float  #: What the best linear score reaches, between 1/2 and 1
    base_rate: float  #: Share of positive rows
    decay: float  #: How fast the principal variances fall; 0 is not at all
    row_norm: float  #: Root mean square norm of rows as a share of their bound
    constant: float  #: The public constant of the intercept, which takes its part of the bound

    def __post_init__(self) -> None:
        check_positive(self.row_norm, "row_norm")
        if not 0.5 < self.auc < 1:
            raise InvalidParameter("auc must lie strictly between 0.5 and 1.")
        if not 0 < self.base_rate < 1:
            raise InvalidParameter("base_rate must lie strictly between 0 and 1.")
        if not 0 <= self.decay <= 3:
            raise InvalidParameter("decay must lie between 0 and 3.")

    @property
    def length(self) -> float:
        """Root mean square norm of rows, the constant aside, where the bound is one."""
        return self.row_norm * math.sqrt(1 - self.constant**2)

    @property
    def distance(self) -> float:
        """Distance of the classes along the best score, in its standard deviations."""
        return math.sqrt(2) * float(special.ndtri(self.auc))

    @property
    def between(self) -> float:
        """Variance of the label: pi (1 - pi)."""
        return self.base_rate * (1 - self.base_rate)


@dataclass(frozen=True, slots=True)
class PlannedObjective:
    """One perturbed objective, for rows in the unit ball, and its share of the signal."""

    name: str  #: Which objective
    n_features: int
    size: int  #: Dimension of the noise, the constant included
    #: Its density is proportional to ``exp(-rate ||b||)``; of Gaussian noise one over sigma; at
    #: infinity there is none.
    rate: float
    ridge: float  #: ``L`` of the summed objective
    cap: float = 1.0  #: Largest slope of the loss
    #: Where noise goes: of a random norm into the gradients of every party (``"norm"``) or normal
    #: (``"own normal"``), normal into the gradient of all records (``"normal"``), or of a random
    #: norm onto the weights themselves, once for all parties (``"weights"``).
    law: Literal["norm", "own normal", "normal", "weights"] = "norm"
    signal: float = 1.0  #: Share of the signal that is in its features

    @property
    def mean(self) -> float:
        """Expected norm of the noise."""
        return float(stats.chi.mean(self.size) if "normal" in self.law else self.size) / self.rate

    def quantile(self, probability: float) -> float:
        """Return the norm that the noise stays below with this probability."""
        law = stats.chi if "normal" in self.law else stats.gamma
        return float(law.ppf(probability, self.size)) / self.rate

    @property
    def coordinate_noise(self) -> float:
        """Variance of one coordinate of the noise."""
        if math.isinf(self.rate):
            return 0.0
        return (1.0 if "normal" in self.law else self.size + 1) / self.rate**2

    def in_weights(self, stiffness: Floats) -> Floats:
        """Return the factor from noise to weights, per band."""
        return np.ones_like(stiffness) if self.law == "weights" else 1 / stiffness


@dataclass(frozen=True)
class _Settled:
    """An objective on its population: bands of directions, curvature and expected weights.

    Per band: ``size`` directions of variance ``v`` within a class, ``mu`` the length of the
    classes' difference in it, ``mean`` the expected weight along that difference, ``stiffness``
    ridge plus curvature across it.
    """

    size: Floats
    v: Floats
    mu: Floats
    mean: Floats
    stiffness: Floats
    coupling: float
    error: Floats

    def solve(self, pulls: Floats) -> Floats:
        """Return how weights along every band's difference answer to pulls ``(draws, bands)``."""
        loose = pulls / self.stiffness
        return np.asarray(
            loose - np.outer(loose @ self.mu, self.coupling * (self.mu / self.stiffness))
        )


@dataclass(frozen=True, eq=False)
class WorkingModel:
    """What objectives make of a population: scores, noise in them, and how they rank."""

    objectives: Sequence[PlannedObjective]  #: One per group of features; their signals sum to one
    population: Population
    n_samples: int  #: Records of every party behind the objectives
    n_parties: int = 1  #: Models that are averaged

    @cached_property
    def _settled(self) -> list[tuple[PlannedObjective, _Settled]]:
        bands = zip(self.objectives, _bands(self.objectives, self.population), strict=True)
        return [
            (each, _settle(each, *found, self.n_samples, self.population)) for each, found in bands
        ]

    def area(self, draws: int = DRAWS) -> float:
        """Return the expected area under the curve of a released model, from a fixed seed."""
        generator = np.random.default_rng(0)
        pull, square = np.zeros(draws), np.zeros(draws)
        for each, settled in self._settled:
            noise, stray_noise = _noise(each, settled.size, self.n_parties, draws, generator)
            spread = settled.error / math.sqrt(self.n_parties)
            error = generator.normal(size=noise.shape) * spread
            rest = settled.size - 1
            stray_error = spread * np.sqrt(_squares(rest, draws, generator))
            angle = _cosine(rest, draws, generator)
            stray_noise = stray_noise * each.in_weights(settled.stiffness)
            stray_error = stray_error / settled.stiffness
            stray = stray_noise**2 + stray_error**2 + 2 * angle * stray_noise * stray_error
            if each.law == "weights":
                straight = settled.mean + settled.solve(error) + noise
            else:
                straight = settled.mean + settled.solve(error + noise)
            pull += straight @ settled.mu
            square += (straight**2 + np.maximum(stray, 0)) @ settled.v
        return float(np.mean(special.ndtr(pull / np.sqrt(2 * square))))

    @property
    def margin(self) -> float:
        """Half of what parts the classes' mean rows in score, without noise."""
        return sum(float(settled.mean @ settled.mu) / 2 for _, settled in self._settled)

    @property
    def spread(self) -> float:
        """Standard deviation that noise adds to the score of a row at the declared bound.

        The noise is divided by ridge plus curvature; an average of parties has less of it. A row's
        squared length lies in directions in proportion to their variances.
        """
        total = length = 0.0
        for each, settled in self._settled:
            lengths = settled.size * settled.v
            noise = each.coordinate_noise * each.in_weights(settled.stiffness) ** 2
            own = each.law in ("norm", "own normal")
            total += float(lengths @ noise) / (self.n_parties if own else 1)
            length += float(lengths.sum())
        return math.sqrt(total / length * (1 - self.population.constant**2))


def _bands(
    objectives: Sequence[PlannedObjective], population: Population
) -> list[tuple[Floats, Floats, Floats]]:
    """Return every objective's bands: sizes, variances within a class, lengths of ``mu``."""
    found = []
    for each in objectives:
        ends = np.arange(1, min(each.n_features, _SINGLE) + 1)
        if each.n_features > _SINGLE:
            far = np.geomspace(_SINGLE, each.n_features, _BANDS + 1)
            ends = np.unique(np.concatenate([ends, np.rint(far).astype(np.intp)]))
        if population.decay == 0:
            ends = np.array([each.n_features])
        size = np.diff(ends, prepend=0).astype(np.float64)
        middle = ends - (size - 1) / 2
        total = middle**-population.decay
        total *= each.n_features / (size @ total)  # a group's variance goes by its features
        share = each.signal * size * total / (size @ total)
        within = total / (1 + population.between * population.distance**2 * share / size)
        found.append((size, total, within, share))
    scale = population.length**2 / sum(float(size @ total) for size, total, _, _ in found)
    return [
        (size, scale * within, population.distance * np.sqrt(scale * within * share))
        for size, _, within, share in found
    ]


def _settle(
    each: PlannedObjective,
    size: Floats,
    v: Floats,
    mu: Floats,
    n_samples: int,
    population: Population,
) -> _Settled:
    """Find residuals, curvature, spread and offset of the scores that agree with one another."""
    q, rate = population.between, population.base_rate
    pull, slope, square = 1.0, 0.25, 0.25
    for _ in range(_ROUNDS):
        stiffness = each.ridge + n_samples * slope * v
        mean = n_samples * q * pull * mu / stiffness
        error = np.sqrt(n_samples * square * v)
        noise = each.coordinate_noise * each.in_weights(stiffness) ** 2
        stray = size * v * (noise + (error / stiffness) ** 2)
        spread = math.sqrt(mean**2 @ v + stray.sum())
        apart = float(mean @ mu)
        scores = _scores(spread, apart, each, n_samples, population)
        positive, negative = (_residual(score, each.cap) for score in scores)
        # Half way each time: the spread falls as the slope grows, and would swing.
        pull = (pull + float(_WEIGHTS @ (positive + negative))) / 2
        bends = [_curvature(score, each.cap) for score in scores]
        slope = (slope + float(_WEIGHTS @ (rate * bends[0] + (1 - rate) * bends[1]))) / 2
        square = float(_WEIGHTS @ (rate * positive**2 + (1 - rate) * negative**2))
    inner = n_samples * slope * q
    coupling = inner / (1 + inner * float(mu @ (mu / stiffness)))
    return _Settled(size, v, mu, mean, stiffness, coupling, error)


def _residual(margins: Floats, cap: float) -> Floats:
    return np.asarray(np.minimum(special.expit(-margins), cap))


def _curvature(margins: Floats, cap: float) -> Floats:
    p = special.expit(-margins)
    return np.where(p < cap, p * (1 - p), 0.0)


def _scores(
    spread: float, apart: float, each: PlannedObjective, n_samples: int, population: Population
) -> tuple[Floats, Floats]:
    """Return margins of the classes at the nodes, with the intercept that the ridge allows."""
    rate = population.base_rate

    def margins(offset: float) -> tuple[Floats, Floats]:
        positive = offset + (1 - rate) * apart + spread * _NODES
        return positive, -(offset - rate * apart + spread * _NODES)

    def gradient(offset: float) -> float:
        positive, negative = (_residual(margin, each.cap) for margin in margins(offset))
        pulls = rate * float(_WEIGHTS @ positive) - (1 - rate) * float(_WEIGHTS @ negative)
        return each.ridge * offset / population.constant**2 - n_samples * pulls

    # A capped loss goes beyond the log odds, by no more than the factor of its residuals.
    farthest = (abs(float(special.logit(rate))) + 1) * (1 + spread) + apart + 1
    return margins(float(optimize.brentq(gradient, -farthest, farthest)))


def _noise(
    each: PlannedObjective, size: Floats, n_parties: int, draws: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the mean noise along every band's difference, and its length across it."""
    shape = (draws, len(size))
    if math.isinf(each.rate):
        return np.zeros(shape), np.zeros(shape)
    first = generator.normal(size=shape)
    others = _squares(size - 1, draws, generator)
    if "normal" in each.law or (each.law == "norm" and n_parties > 1):
        # A mean of many is nearly normal.
        spread = math.sqrt(each.coordinate_noise / n_parties)
        return spread * first, spread * np.sqrt(others)
    constant = _squares(np.array([each.size - size.sum()]), draws, generator)
    total = np.sqrt((first**2 + others).sum(axis=1) + constant[:, 0])
    factor = generator.gamma(each.size, 1 / each.rate, size=draws) / total
    return factor[:, None] * first, factor[:, None] * np.sqrt(others)


def _squares(dimensions: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return sums of squares of normal coordinates, one column each; zero in no dimension."""
    found = np.zeros((draws, len(dimensions)))
    some = dimensions > 0
    found[:, some] = generator.chisquare(dimensions[some], size=(draws, int(some.sum())))
    return found


def _cosine(dimensions: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return cosines of the angles between two random directions, one column each."""
    first = generator.normal(size=(draws, len(dimensions)))
    length = np.sqrt(first**2 + _squares(dimensions - 1, draws, generator))
    return np.where(dimensions > 0, first / length, 0.0)


#: How fast principal variances fall where nothing is said: between questionnaires and images.
DECAY = 0.75


def fewest(enough: Callable[[int], bool], start: int, most: int, what: str) -> int:
    """Return the least number that is enough, where every larger one is."""
    low, high = 0, start
    while not enough(high):
        low, high = high, 4 * high
        if high > most:
            raise CalibrationError(f"no number of {what} that low.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True, kw_only=True)
class Forecast(Shown):
    """What to expect of a private fit, planned without touching data.

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
    """

    n: int
    d: int
    epsilon: float = 1.0
    delta: float = 0.0
    parties: int = 1
    groups: int = 1
    importance: Sequence[float] | None = None
    auc: float = 0.85
    base_rate: float = 0.5
    decay: float = DECAY
    row_norm: float = 1.0
    loss: LossName = "capped"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if min(self.n, self.d, self.parties, self.groups) < 1:
            raise InvalidParameter("n, d, parties and groups must be at least 1.")
        if self.groups > 1 and self.parties > 1:
            raise InvalidParameter("groups of features are planned for one party at a time.")
        if self.importance is not None and len(self.importance) != self.d:
            raise InvalidParameter(f"importance must have one entry per feature ({self.d}).")
        _ = self._population, self.terms  # say so if there are none

    @cached_property
    def _planned(self) -> tuple[Any, float]:
        """What runs, and the constant that its rows have."""
        if self.groups > 1:
            model = FeatureStackingClassifier(
                epsilon=self.epsilon,
                delta=self.delta,
                n_groups=self.groups,
                importance=self.importance,
                loss=self.loss,
            )
            made: Any = model.plan(PublicFacts(n_samples=self.n, n_features=self.d))
            return made, made.maps.constant
        frame = Frame(self.d)
        if self.parties == 1:
            allowed = allowance(self.epsilon, self.n, delta=self.delta, loss=self.loss)
            return plan_linear(allowed, frame).mechanism, frame.constant
        averaging = Averaging(
            frame=frame, epsilon=self.epsilon, delta=self.delta, cap=slope_of(self.loss)
        )
        sizes = Sizes({f"party {k}": self.n for k in range(self.parties)})
        return averaging.asked(sizes).mechanism(self.n), frame.constant

    @cached_property
    def terms(self) -> tuple[PlannedObjective, ...]:
        """The noise of every objective."""
        (made, _), stacked = self._planned, self.groups > 1
        name = "one model" if self.parties == 1 else "every party's model"
        acts = made.low[0].acts if stacked else (made.act,)
        return tuple(
            PlannedObjective(
                f"group {k}" if stacked else name,
                len(made.maps.groups[k]) if stacked else self.d,
                act.norm.size,
                act.law.rate,
                act.ridge,
                slope_of(self.loss),
                "own normal" if self.delta else "norm",
                float(made.importances[k]) if stacked else 1.0,
            )
            for k, act in enumerate(acts)
        )

    @property
    def samples_used(self) -> int:
        """Records behind the objectives; a stack keeps some for its high level."""
        return int(self._planned[0].low[0].n_samples) if self.groups > 1 else self.n

    @cached_property
    def _population(self) -> Population:
        return Population(self.auc, self.base_rate, self.decay, self.row_norm, self._planned[1])

    def _model(self, terms: Sequence[PlannedObjective]) -> WorkingModel:
        return WorkingModel(terms, self._population, self.samples_used, self.parties)

    @property
    def margin_spread(self) -> float:
        """Standard deviation that noise adds to the score of a row at the declared bound."""
        return self._model(self.terms).spread

    @property
    def margin(self) -> float:
        """Score of a class's mean row without noise, to be compared with the spread."""
        return self._model(self.terms).margin

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

        def enough(n: int) -> bool:
            try:
                return self.resized(n).excess(delta) <= excess
            except ValueError:
                return False  # too few rows for every part of a stack

        return fewest(enough, self.n, _MOST_SAMPLES, "records brings the excess")

    def expected_auc(self) -> float:
        """Return the expected area under the curve, under the working model."""
        return self._model(self.terms).area()

    def auc_without_noise(self) -> float:
        """Return the same without the noise: what sampling and the ridge alone leave."""
        return self._model([replace(term, rate=math.inf) for term in self.terms]).area()

    def resized(self, n: int, epsilon: float | None = None) -> Forecast:
        """Return the plan for another number of records, and perhaps another price."""
        return replace(self, n=n, epsilon=self.epsilon if epsilon is None else epsilon)

    def pure(self) -> Forecast:
        """Return the plan without a delta, to see what it buys."""
        return replace(self, delta=0.0)

    @property
    def _expected(self) -> str:
        expected, without = self.expected_auc(), self.auc_without_noise()
        return f"{expected:.3f}; {without:.3f} without noise; {self.auc:.3f} at best"

    @property
    def _sizes(self) -> str:
        price = f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "")
        return f"{self.parties} x {self.n} records, {self.d} features, {price} each"

    def __str__(self) -> str:
        lines = [
            self._sizes,
            *(
                f"{term.name}: ||b|| about {term.mean:.4g}, below {term.quantile(0.99):.4g} in 99% "
                f"of runs (ridge {term.ridge:.4g})"
                for term in self.terms
            ),
            f"noise in a score: {self.margin_spread:.3g} (standard deviation), where a typical "
            f"margin is {self.margin:.3g}",
            f"excess objective below {self.excess():.3g} in 99% of runs",
            f"expected AUC {self._expected}",
        ]
        return "\n".join(lines)

    @override
    def view(self) -> Panel:
        facts = ((one.name, one.mean, one.quantile(0.99), one.ridge) for one in self.terms)
        noise = [(name, *(f"{number:.4g}" for number in rest)) for name, *rest in facts]
        names = ("noise of", "about", "below, in 99% of runs", "ridge")
        expected = self.expected_auc()
        told = {
            "expected AUC": self._expected,
            "": Span(self.auc, expected, expected),
            "noise in a score": f"{self.margin_spread:.3g}, where a typical margin is "
            f"{self.margin:.3g}",
        }
        parts = [Pairs(told), Table(names, noise, names[1:])]
        note = "From public sizes alone; nothing was spent."
        return Panel(f"Forecast: {self._sizes}", parts, note)

    def plot(self, ax: Any = None) -> Any:
        """Draw expected quality against epsilon, for several numbers of records."""
        plt = extra("plot", "matplotlib.pyplot")

        if ax is None:
            _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
        for factor, colour in zip((0.25, 1, 4), _COLOURS, strict=True):
            n = max(1, round(self.n * factor))
            areas = [self.resized(n, epsilon).expected_auc() for epsilon in _EPSILONS]
            ax.plot(_EPSILONS, areas, color=colour, label=f"n = {n}")
            free = self.resized(n, _EPSILONS[-1]).auc_without_noise()
            ax.plot(_EPSILONS[-1] * 1.15, free, "<", color=colour, clip_on=False)
        ax.axhline(self.auc, color="0.6", lw=1, ls="--", label="best linear model")
        ax.plot(self.epsilon, self.expected_auc(), "o", color=_COLOURS[1], label="this plan")
        ax.plot([], [], "<", color="0.5", label="without noise")
        ax.set_xscale("log")
        ax.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
        ax.set_xlim(_EPSILONS[0], _EPSILONS[-1])
        ax.set_ylim(0.48, min(1.0, self.auc + 0.04))
        who = "" if self.parties == 1 else f", {self.parties} parties"
        what = "" if self.groups == 1 else f", {self.groups} groups"
        ax.set(xlabel="epsilon", ylabel="expected AUC", title=f"{self.d} features{who}{what}")
        ax.legend(frameon=False, fontsize=8, loc="lower right")
        ax.spines[["top", "right"]].set_visible(False)
        return ax


#: Plan a private fit without touching data.
plan = Forecast

_FORMS: dict[Literal["lines", "curves"], Form] = {"lines": "linear", "curves": "curves"}


@dataclass(frozen=True, slots=True)
class ExpectedForm:
    """What one way to encode numbers is expected to bring."""

    form: Literal["lines", "curves"]  #: How numbers are encoded that have no word of their own
    kept: float  #: Share of the signal that is expected to survive the noise
    auc: float  #: Expected area under the curve

    def __str__(self) -> str:
        return f"{self.form}: {self.kept:.0%} of the signal, expected AUC {self.auc:.3f}"


@dataclass(frozen=True, kw_only=True)
class SchemaForecast:
    """What to expect of one organisation's model by its schema. Nothing in it comes from data."""

    expected: tuple[ExpectedForm, ...]  #: Lines and curves
    used: ExpectedForm  #: What ``noise="auto"`` and ``"schema"`` take
    #: Whether ``noise="auto"`` leaves the schema to the ball, because it declares importances.
    ball: bool

    def __str__(self) -> str:
        lines = [str(one) for one in self.expected]
        if self.ball:
            lines.append("noise='auto' leaves declared importances to the ball; of noise='schema':")
        return "\n".join([*lines, f"used: {self.used}"])


def plan_schema(
    schema: PublicSchema,  # What everyone may know about the columns
    *,
    n: int,  # Records
    epsilon: float = 1.0,  # The price
    # What the best model of these columns reaches without privacy: a guess, from the literature.
    auc: float = 0.85,
) -> SchemaForecast:
    """Say whether numbers become curves, and what is expected of it."""
    check_epsilon(epsilon)
    if not 0.5 < auc < 1:
        raise InvalidParameter("auc must lie strictly between 0.5 and 1.")
    if n < 1:
        raise InvalidParameter("n must be at least 1.")
    best = float(special.ndtri(auc))

    def told(name: Literal["lines", "curves"]) -> ExpectedForm:
        kept = expect(schema, _FORMS[name], allowance(epsilon, n)).kept
        return ExpectedForm(name, kept, float(special.ndtr(best * math.sqrt(kept))))

    found = {name: told(name) for name in _FORMS}
    form = choose_form(schema, "schema", allowance(epsilon, n))
    return SchemaForecast(
        expected=tuple(found.values()),
        used=found["curves" if form == "curves" else "lines"],
        ball=schema.has_importances,
    )


# --- which path to a model ------------------------------------------------------------------------

Path = Literal["experts alone", "one organisation", "main to branches", "many centres"]

#: Slope of the capped loss, which every path uses.
_CAP = 0.5

#: A path that asks for less is taken if it is expected to be worse by no more than this.
_SAME = 0.002


@dataclass(frozen=True, slots=True)
class ExpectedPath:
    """What one path is expected to bring."""

    path: Path
    auc: float  #: Expected area under the curve
    how: str  #: What to run


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Paths compared, from public facts and guesses alone."""

    expected: tuple[ExpectedPath, ...]  #: The path that asks least first
    without_prior: float  #: Expected area of one organisation by itself if nothing were declared
    #: Whether the budget tells a right prior from a wrong one; None without a prior.
    verifiable: bool | None

    @property
    def best(self) -> ExpectedPath:
        """The path that asks least, of those that are expected to be about as good as any."""
        return _first_of_the_best(self.expected)

    def __str__(self) -> str:
        lines = [f"{one.path}: expected AUC {one.auc:.3f}, {one.how}" for one in self.expected]
        lines.append(f"one organisation without a prior: expected AUC {self.without_prior:.3f}")
        if self.verifiable is False:
            lines.append("prior not verifiable at this budget: a wrong one would not be noticed")
        return "\n".join([*lines, f"recommended: {self.best.path}, {self.best.how}"])


def recommend(
    *,
    # ``n``, ``d``: records of the organisation that asks, and features.
    n: int,
    d: int,
    epsilon: float = 1.0,  # What every organisation spends
    # What the best linear model would reach without privacy: a guess, from the literature.
    auc: float = 0.85,
    # What experts' signs and importances reach without data, from public data or the literature;
    # None if nothing is declared.
    prior_auc: float | None = None,
    base_rate: float = 0.5,  # Share of positive rows
    n_source: int | None = None,  # Records of a main organisation that would release first
    # Records of every organisation that would take part in an average.
    parties: Sequence[int] | None = None,
) -> Recommendation:
    """Recommend a path to a model without touching data, and say what to expect of each."""
    check_epsilon(epsilon)
    if min(n, d, *(parties or ()), n_source or 1) < 1:
        raise InvalidParameter("n, d, n_source and parties must be at least 1.")
    if not 0.5 < auc < 1 or (prior_auc is not None and not 0.5 < prior_auc < auc):
        raise InvalidParameter("prior_auc must lie between 0.5 and auc, and auc below 1.")
    if not 0 < base_rate < 1:
        raise InvalidParameter("base_rate must lie strictly between 0 and 1.")
    apart = math.sqrt(2) * float(special.ndtri(auc))
    open_ = _left_open(apart, prior_auc)
    curvature, size = mean_curvature(base_rate), d + 1
    known = prior_auc is not None
    share = check_share(epsilon, n, base_rate=base_rate)

    def told(records: float, spent: float, releases: int = 1) -> float:
        noise = releases * noise_variance(epsilon * (1 - spent), size, _CAP)
        return precision_of(records, size, noise=noise, curvature=curvature)

    def area(precision: float, drift: float = 0.0) -> float:
        unknown = 1 / (1 / open_ + precision) + drift * open_
        return float(special.ndtr(apart / math.sqrt(2 * (1 + unknown / apart**2))))

    alone = told(n, share if known else 0.0)
    near = 'schema=schema, prior="experts", ' if known else ""
    found = (
        [] if prior_auc is None else [ExpectedPath("experts alone", prior_auc, "no data at all")]
    )
    found.append(
        ExpectedPath(
            "one organisation", area(alone), f"PrivateLogisticRegression({near}epsilon=...)"
        )
    )
    if n_source is not None:
        both = told(n, share) + told(n_source, share if known else 0.0)
        how = "TransferClassifier(source=..., epsilon=...)"
        found.append(ExpectedPath("main to branches", area(both, DRIFT), how))
    if parties is not None:
        total = told(sum(parties), CHECK_SHARE if known else 0.0, len(parties))
        how = f"CollaborativeClassifier({near}epsilon=...)"
        found.append(ExpectedPath("many centres", area(total), how))
    check = PriorCheck(epsilon=share * epsilon, n_samples=n, base_rate=base_rate)
    plain = Forecast(n=n, d=d, epsilon=epsilon, auc=auc, base_rate=base_rate)
    return Recommendation(
        expected=tuple(found),
        without_prior=plain.expected_auc(),
        verifiable=check.before.verifiable if known else None,
    )


E = TypeVar("E", ExpectedPath, "Expectation")


def _first_of_the_best(expected: Sequence[E]) -> E:
    most = max(one.auc for one in expected)
    return next(one for one in expected if one.auc >= most - _SAME)


def _left_open(apart: float, prior_auc: float | None) -> float:
    """Return the variance of the log odds around a prior; as much as there is, without one."""
    if prior_auc is None:
        return apart**2
    alone = math.sqrt(2) * float(special.ndtri(prior_auc))
    return float(apart**2 * ((apart / alone) ** 2 - 1))


Way = Literal["average", "one message", "rounds"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one way is expected to bring."""

    way: Way
    auc: float  #: Expected area under the curve, under the working model
    noise: float  #: Standard deviation that noise adds to the score of a row at the declared bound
    why: str  #: Where its noise comes from


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Three ways compared. Nothing in it comes from data."""

    #: ``records``, ``parties``, ``features``: of all parties, their number, and columns.
    records: int
    parties: int
    features: int
    #: ``epsilon``, ``delta``: what every party spends.
    epsilon: float
    delta: float
    #: The simplest way first; rounds only where a delta is allowed.
    expected: tuple[Expectation, ...]

    @property
    def best(self) -> Expectation:
        """The simplest way that is expected to be about as good as any."""
        return _first_of_the_best(self.expected)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Arguments of :class:`~confrere.CollaborativeClassifier`, and of a study's method."""
        method = "average" if self.best.way == "average" else "sums"
        spent = {"delta": self.delta} if self.best.way == "rounds" else {}
        return {"method": method, "epsilon": self.epsilon, **spent}

    def __str__(self) -> str:
        said = ", ".join(f"{name} = {value!r}" for name, value in self.settings.items())
        return "\n".join(
            [
                f"{self.parties} parties, {self.records} records in all, {self.features} features, "
                f"epsilon {self.epsilon:g}"
                + (f", delta {self.delta:g}" if self.delta else ", no delta"),
                *(
                    f"{one.way}: expected AUC {one.auc:.3f}, noise in a score {one.noise:.3g}: "
                    f"{one.why}"
                    for one in self.expected
                ),
                f"choose {self.best.way}: {said}",
            ]
        )


def choose(
    *,
    sizes: Sequence[int],
    d: int,
    epsilon: float = 1.0,
    delta: float = 0.0,
    auc: float = 0.85,
    base_rate: float = 0.5,
    decay: float = DECAY,
    row_norm: float = 1.0,
    colluding: Colluding = "auto",
) -> Choice:
    """Compare the ways in which organisations may learn one model; touches no data.

    Parameters
    ----------
    sizes : sequence of int
        Records of every party.
    d : int
        Features.
    epsilon, delta : float
        What every party may spend. Rounds need a delta.
    auc, base_rate, decay, row_norm
        Guesses about the data, as for :func:`confrere.planning.plan`.
    colluding : int or "auto", default="auto"
        How many parties may pool what they know; by default a minority.
    """
    check_epsilon(epsilon)
    if len(sizes) < 2 or min(sizes) < 1:
        raise InvalidParameter("sizes must hold at least two parties with at least one record.")
    if d < 1:
        raise InvalidParameter("d must be at least 1.")
    frame = Frame(d)
    counts = Sizes({f"party {k}": int(n) for k, n in enumerate(sizes)})
    population = Population(auc, base_rate, decay, row_norm, frame.constant)
    common: dict[str, Any] = {"frame": frame, "epsilon": epsilon, "cap": _CAP}
    bent = min(0.2, 0.88 * base_rate * (1 - base_rate))
    shared: dict[str, Any] = {"colluding": colluding, "curvature": bent}
    made: list[Averaging | OneMessage | GradientRounds] = [
        Averaging(**common),
        OneMessage(**common, **shared),
    ]
    if delta > 0:
        made.append(GradientRounds(**common, **shared, delta=delta))
    return Choice(
        records=counts.total,
        parties=len(sizes),
        features=d,
        epsilon=float(epsilon),
        delta=float(delta),
        expected=tuple(_expected(one, counts, population) for one in made),
    )


def _expected(
    plan: Averaging | OneMessage | GradientRounds, sizes: Sizes, population: Population
) -> Expectation:
    """Return what one way is expected to bring parties of these sizes."""
    features, size, count = plan.space.n_features, plan.space.size, len(sizes.counts)
    way: Way
    model: tuple[Any, ...]
    if isinstance(plan, Averaging):
        # Weighted by records, unequal parties are worth as many equal ones as their squares say.
        alike = sizes.total**2 / sum(n * n for n in sizes.counts.values())
        each, alike = max(1, round(sizes.total / alike)), max(1, round(alike))
        mechanism = plan.asked(sizes).mechanism(each)
        assert isinstance(mechanism, Objective)
        act = mechanism.act
        way, model = "average", (act.norm.size, act.law.rate, act.ridge, _CAP)
        why = f"noise of a release of its own at each of {count} parties, averaged"
    elif isinstance(plan, OneMessage):
        summed = plan.mechanism(sizes)
        rate = summed.rate * (summed.parts / summed.n_parties) ** 0.5
        way, model = "one message", (size, rate, plan.ridge(sizes) / count, _CAP, "weights")
        each, alike = max(1, sizes.total // count), count
        why = "noise of one sum on the weights, whatever the number of parties, and a ridge "
        why += "against it"
    else:
        summed = plan.mechanism(sizes)
        rate = summed.releases**0.5 / summed.deviation
        way, model = "rounds", (size, rate, float(plan.ridge(sizes)[0]), _CAP, "normal")
        each, alike = sizes.total, 1
        why = f"noise of {plan.rounds} sums of gradients, as if one curator had all records"
    found = WorkingModel([PlannedObjective(way, features, *model)], population, each, alike)
    return Expectation(way, found.area(), found.spread, why)


# --- many small parties ---------------------------------------------------------------------------

#: Two classes take cells where so many times as much of the public rows' spread is between cells as
#: in a cloud without clusters.
CLUSTERED = 1.25

#: More parties than there are people.
_MOST_PARTIES = 10**11


@dataclass(frozen=True, kw_only=True)
class VotesForecast:
    """What to expect of many small parties and public rows, planned without touching data."""

    #: ``parties``, ``auxiliary``, ``d``: parties, public rows without labels, and features.
    parties: int
    auxiliary: int
    d: int
    epsilon: float = 1.0  #: What every party spends, for all its data
    n_classes: int = 2
    method: Literal["soft", "vote"] = "soft"  #: Fractions of the votes, or their majority
    #: Ridge of the model, as for :class:`confrere.MultipartyClassifier`.
    alpha: float | Literal["auto"] = "auto"
    #: Length of the weights that the model is compared with, for rows in the unit ball.
    reference_norm: float = 5.0

    def __post_init__(self) -> None:
        check_positive(self.reference_norm, "reference_norm")
        if min(self.parties, self.auxiliary, self.d) < 1:
            raise InvalidParameter("parties, auxiliary and d must be at least 1.")
        if self.n_classes < 2:
            raise InvalidParameter("n_classes must be at least 2.")
        if self.method not in ("soft", "vote"):
            raise InvalidParameter("method must be 'soft' or 'vote'.")
        _ = self.ridge, self._budget  # say so if there are none

    @cached_property
    def ridge(self) -> float:
        """The ridge, as a number."""
        voting = Voting(
            frame=Frame(self.d), epsilon=self.epsilon, method=self.method, alpha=self.alpha
        )
        return voting.output_alpha(self.parties)

    @property
    def _budget(self) -> PartyBudget:
        return PartyBudget(epsilon=self.epsilon, n_parties=self.parties, n_classes=self.n_classes)

    @property
    def _mechanism(self) -> PartyTotal:
        return noised_votes(
            self._budget,
            n_auxiliary=self.auxiliary,
            n_features=self.d + 1,
            alpha=self.ridge,
            labels=self.method,
        )

    @property
    def sensitivity(self) -> float:
        """How far one party moves the weights."""
        return self._mechanism.sensitivity

    def noise(self, probability: float) -> float:
        """Return the length that the noise on the weights stays below with this probability."""
        noise = self._mechanism.noise
        assert isinstance(noise, Point)
        (law,) = noise.laws
        return float(stats.gamma.ppf(probability, law.size, scale=1 / law.rate))

    def privacy_term(self, delta: float = 0.01) -> float:
        """Return what noise adds to the risk at most, but for probability ``delta``.

        ``(c + alpha) Q^2``: c bounds the curvature of the loss, Q is the quantile of the noise.
        """
        curvature = 0.25 if self.n_classes == 2 else 0.5
        return (curvature + self.ridge) * self.noise(1 - delta) ** 2

    def sampling_term(self, delta: float = 0.01) -> float:
        """Return what a sample of rows adds at most: ``16 (32 + log 1/delta)/(alpha N)``."""
        return 16 * (32 + math.log(1 / delta)) / (self.ridge * self.auxiliary)

    @property
    def shrinking_term(self) -> float:
        """What the ridge adds at most: ``alpha/2`` times the squared reference norm."""
        return self.ridge / 2 * self.reference_norm**2

    def excess(self, delta: float = 0.02) -> float:
        """Return the bound of Theorem 4 on the risk above that of the reference weights."""
        return self.privacy_term(delta / 2) + self.sampling_term(delta / 2) + self.shrinking_term

    def parties_for(self, excess: float, delta: float = 0.01) -> int:
        """Return the fewest parties at which noise adds at most so much to the risk.

        Votes of a majority do not become quieter with their number: then there may be none.
        """
        check_positive(excess, "excess")
        return fewest(
            lambda count: (
                replace(self, parties=count, alpha=self.ridge).privacy_term(delta) <= excess
            ),
            self.parties,
            _MOST_PARTIES,
            "parties brings the noise",
        )

    @property
    def cells(self) -> int:
        """How many cells the method ``"cells"`` would make."""
        return cells_for(self.epsilon, self.parties, self.auxiliary, self.n_classes)

    @property
    def cell_noise(self) -> float:
        """Standard deviation of the noise on a share of a cell and class, over its mean size."""
        deviation = noised_cells(self._budget, n_cells=self.cells).deviation
        return deviation * self.cells * self.n_classes

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.parties} parties, {self.auxiliary} public rows, {self.d} features, "
                f"{self.n_classes} classes, epsilon {self.epsilon:g} for each whole party",
                f"{self.method}: a party moves the weights by {self.sensitivity:.3g} at most; "
                f"noise below {self.noise(0.99):.3g} in 99% of runs (ridge {self.ridge:.3g})",
                f"noise adds {self.privacy_term():.3g} at most to the risk, a sample of public "
                f"rows {self.sampling_term():.3g}, the ridge {self.shrinking_term:.3g}: bounds for "
                "any data, far above what is usual",
                f"cells: {self.cells} of them; noise on a share is {self.cell_noise:.2g} of its "
                "mean size",
            ]
        )


#: Plan learning from many small parties and public rows; touches no data.
plan_votes = VotesForecast


@dataclass(frozen=True, kw_only=True)
class VotesChoice:
    """Which method many parties take, by public rows and sizes."""

    method: Literal["cells", "statistic"]
    n_cells: int  #: How many cells there would be
    explained: float  #: Share of the public rows' spread that lies between them
    #: How many times as much that is as in a cloud of normal rows of the same sizes.
    clustered: float

    def __str__(self) -> str:
        return (
            f"choose method = {self.method!r}: {self.n_cells} cells have {self.explained:.0%} of "
            f"the public rows' spread between them, {self.clustered:.2f} times as much as in one "
            "cloud"
        )


def choose_votes(
    auxiliary: ArrayLike, *, n_parties: int, n_classes: int = 2, epsilon: float = 1.0
) -> VotesChoice:
    """Choose between cells and votes for many parties, from public rows alone.

    Cells for three classes and more, whose noise they do not feel; and for two where rows are
    clustered: 1.25 times as much of their spread is between the cells that there would be as in a
    cloud of normal rows. In one cloud a class that follows a slope is hidden within cells, and
    votes see it.
    """
    check_epsilon(epsilon)
    rows = np.asarray(auxiliary, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
        raise InvalidData("auxiliary must hold rows of finite numbers, at least one.")
    if n_parties < 1 or n_classes < 2:
        raise InvalidParameter("n_parties must be at least 1 and n_classes at least 2.")
    frame = Frame(rows.shape[1], data_norm=max(1e-12, float(np.linalg.norm(rows, axis=1).max())))
    inside = np.ascontiguousarray(np.asarray(frame.rows(rows))[:, :-1])
    public = HalfWhite(inside, frame.constant)
    cells = public.cells(cells_for(epsilon, n_parties, len(rows), n_classes))
    explained = public.explained(cells)
    normal = np.random.default_rng(0).normal(size=(len(rows), public.turn.shape[1]))
    cloud = HalfWhite(normal, frame.constant)
    clustered = explained / cloud.explained(cloud.cells(len(cells)))
    better = n_classes > 2 or clustered >= CLUSTERED
    return VotesChoice(
        method="cells" if better else "statistic",
        n_cells=len(cells),
        explained=explained,
        clustered=clustered,
    )


# --- what a fit would spend -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FitPrice:
    """A price tag. Nothing was charged."""

    guarantee: Guarantee  #: What one ``fit`` would promise and cost
    account: str | None  #: Who would pay; None is the session's own account, without a cap
    left: float  #: Epsilon that the account still has; infinite without a cap
    affordable: bool  #: Whether the account covers it now

    def __str__(self) -> str:
        who = "the session's own account" if self.account is None else f"account {self.account!r}"
        verdict = "covered" if self.affordable else "not covered"
        return f"{self.guarantee}, paid by {who} ({self.left:g} left: {verdict})"


def price(
    estimator: Any,  # Its ``ledger`` and ``account`` say who would pay
    # ``n_samples``, ``n_features``: public sizes.
    n_samples: int,
    n_features: int,
) -> FitPrice:
    """Return what ``estimator.fit`` on data of these sizes would spend, without spending it."""
    if not hasattr(estimator, "price"):
        raise InvalidParameter("estimator must be a private classifier: it states a price.")
    guarantee: Guarantee = estimator.price(n_samples, n_features)
    ledger: Ledger = default_ledger() if estimator.ledger is None else estimator.ledger
    if ledger.ephemeral and estimator.account is None:
        return FitPrice(guarantee, None, float("inf"), True)
    account = ledger.account_for(estimator.account)
    return FitPrice(guarantee, account, ledger.left(account), ledger.affords(account, guarantee))
