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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import optimize, special, stats
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.features import Form
from confrere.data.frame import Frame
from confrere.data.schema import PublicSchema
from confrere.errors import CalibrationError, InvalidParameter
from confrere.estimators import FeatureStackingClassifier
from confrere.extras import extra
from confrere.kernel.guarantee import check_epsilon, check_positive
from confrere.methods.allowance import LossName, allowance, slope_of
from confrere.methods.asking import Sizes
from confrere.methods.average import Averaging
from confrere.methods.geometry import choose_form, expect
from confrere.methods.plan import PublicFacts, plan_linear
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
    gaussian: bool  #: Whether a delta is spent on Gaussian noise
    kept: float  #: Share of the signal that is expected to survive the noise
    auc: float  #: Expected area under the curve

    def __str__(self) -> str:
        law = "Gaussian noise, with the delta" if self.gaussian else "noise shaped like the rows"
        return f"{self.form}, {law}: {self.kept:.0%} of the signal, expected AUC {self.auc:.3f}"


@dataclass(frozen=True, kw_only=True)
class SchemaForecast:
    """What to expect of one organisation's model by its schema. Nothing in it comes from data."""

    #: Lines and curves, without the delta and where it would be spent with it.
    expected: tuple[ExpectedForm, ...]
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
    # ``epsilon``, ``delta``: the price.
    epsilon: float = 1.0,
    delta: float = 0.0,
    # What the best model of these columns reaches without privacy: a guess, from the literature.
    auc: float = 0.85,
) -> SchemaForecast:
    """Say whether numbers become curves and a delta is spent, and what is expected of it."""
    check_epsilon(epsilon)
    if not 0.5 < auc < 1:
        raise InvalidParameter("auc must lie strictly between 0.5 and 1.")
    if n < 1:
        raise InvalidParameter("n must be at least 1.")
    best = float(special.ndtri(auc))

    def told(name: Literal["lines", "curves"], paid: float) -> ExpectedForm:
        expectation, noise = expect(schema, _FORMS[name], allowance(epsilon, n, delta=paid))
        area = float(special.ndtr(best * math.sqrt(expectation.kept)))
        return ExpectedForm(name, noise.gaussian, expectation.kept, area)

    found = {
        (name, paid > 0): told(name, paid) for name in _FORMS for paid in dict.fromkeys([0, delta])
    }
    form = choose_form(schema, "schema", allowance(epsilon, n, delta=delta))
    return SchemaForecast(
        expected=tuple(one for (_, paid), one in found.items() if not paid or one.gaussian),
        used=found["curves" if form == "curves" else "lines", delta > 0],
        ball=schema.has_importances,
    )
