"""Ask private records how good a model is.

Intervals count two kinds of chance: which records were drawn, and the noise added. Derivations:
docs/proofs/private_evaluation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special
from typing_extensions import override

from confrere.arrays import Floats
from confrere.assurance.cohort import counts
from confrere.data.cells import declared_columns, encode_labels
from confrere.data.encoding import drawn_cells, value_names
from confrere.data.features import Discrete
from confrere.data.schema import PublicSchema
from confrere.errors import InvalidData, InvalidParameter
from confrere.extras import extra
from confrere.kernel.guarantee import Guarantee, at_most, check_epsilon, exact, minus
from confrere.kernel.ledger import Origin
from confrere.ledger import Budget, Ledger, Receipt, charged
from confrere.ledger.compose import Together
from confrere.model import Model
from confrere.release import quality_digest
from confrere.simulation import Seed
from confrere.views import Panel, Shown, Span, Table


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the interval that covers the truth."""

    value: float  #: The estimate
    #: ``low``, ``high``: limits of the interval, of the confidence that :class:`Evaluation` states.
    low: float
    high: float

    @property
    def measurable(self) -> bool:
        """Whether a share's interval excludes anything; that of a number is never [0, 1]."""
        return (self.low, self.high) != (0.0, 1.0)

    def __str__(self) -> str:
        if not self.measurable:
            return "not measurable at this epsilon"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"

    to_dict = asdict

    def complement(self) -> Estimate:
        """Return the estimate of one minus the quantity."""
        return Estimate(1 - self.value, 1 - self.high, 1 - self.low)


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Records whose predicted probability lies in ``[low, high)``."""

    #: ``low``, ``high``: the bin.
    low: float
    high: float
    count: float  #: Noised number of records in it
    positive: Estimate  #: Share of positives among such records


@dataclass(frozen=True, slots=True)
class Subgroup:
    """A model's quality among some of the records: those with one declared value of a column."""

    records: float  #: Noised number of records
    positive: Estimate  #: Share of positives among such records
    auc: Estimate


@dataclass(frozen=True)
class Evaluation(Shown):
    """A model's quality on private records, and what it cost to know.

    What was not asked for is None. Intervals speak of the population that the records are drawn
    from, each by itself at ``confidence``; ``errors`` speaks of these records.
    """

    n_samples: int  #: Public number of records
    confidence: float  #: Of every interval
    guarantees: Mapping[str, Guarantee]  #: Price of each query: errors, confusion, scores
    guarantee: Guarantee  #: Of all queries together
    receipt: Receipt  #: The ledger entry that paid
    simulated: bool  #: Whether the noise came from a seed
    positive: str | None = None  #: Which of two labels probabilities are of
    accuracy: Estimate | None = None  #: Share of records predicted right
    errors: Estimate | None = None  #: Number of these records predicted wrong
    #: From (label, prediction) to the share of such records.
    confusion: Mapping[tuple[object, object], Estimate] | None = None
    auc: Estimate | None = None  #: Area under the receiver operating characteristic
    experts: Estimate | None = None  #: That of what declared signs say alone, without any model
    #: Predicted against observed shares of positives.
    calibration: tuple[CalibrationBin, ...] | None = None
    #: By the values of the column that was asked for.
    subgroups: Mapping[str, Subgroup] | None = None

    def _told(self) -> Iterator[tuple[str, Estimate]]:
        single = {"accuracy": self.accuracy, "auc": self.auc}
        single["auc of declared signs alone, without a model"] = self.experts
        yield from ((name, one) for name, one in single.items() if one is not None)
        for (label, predicted), share in (self.confusion or {}).items():
            yield f"share of {label} predicted {predicted}", share
        for name, group in (self.subgroups or {}).items():
            yield f"auc, {name}", group.auc

    def quality(self) -> dict[str, Any]:
        """Return what was found as plain values: what a release's card can hold."""
        return {
            "records": self.n_samples,
            "confidence": self.confidence,
            "positive": self.positive,
            "measures": [{"name": name, **one.to_dict()} for name, one in self._told()],
            "calibration": [
                {"from": b.low, "to": b.high, "records": b.count, **b.positive.to_dict()}
                for b in self.calibration or ()
            ],
        }

    def __str__(self) -> str:
        found = [*self._told(), *([] if self.errors is None else [("errors", self.errors)])]
        bins = ((f"p in [{b.low:.3g}, {b.high:.3g})", b.positive) for b in self.calibration or ())
        head = f"{self.n_samples} records, {self.confidence:.0%} intervals, {self.guarantee}"
        return "\n".join([head, *(f"{name:<9} {one}" for name, one in (*found, *bins))])

    def plot(self, axes: Any = None) -> Any:
        """Draw predicted against observed shares of positives, with intervals; needs matplotlib.

        Returns the axes.
        """
        if self.calibration is None:
            raise InvalidParameter("metrics: a diagram needs 'calibration' among them.")
        pyplot = extra("plot", "matplotlib.pyplot")
        axes = pyplot.subplots(figsize=(4.5, 4.5))[1] if axes is None else axes
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--")
        drawn = [one for one in self.calibration if one.positive.measurable]
        # The first and the last bin reach to 0 and 1, where hardly anybody is.
        inner = [one.high - one.low for one in self.calibration[1:-1]]
        widest = max(inner, default=1.0)
        begin = [one.low or one.high - min(one.high, widest) for one in drawn]
        end = [min(one.high, low + widest) for one, low in zip(drawn, begin, strict=True)]
        at = (np.array(begin) + np.array(end)) / 2
        shares = np.array([(s.value, s.low, s.high) for s in (one.positive for one in drawn)])
        value, low, high = shares.reshape(-1, 3).T
        bars = np.abs([value - low, high - value])
        axes.errorbar(at, value, yerr=bars, xerr=at - begin, fmt="o", markersize=4, linewidth=1)
        top = 1.05 * max([*end, *high, 0.05])
        axes.set(xlim=(0, top), ylim=(0, top), xlabel=f"predicted probability of {self.positive}")
        axes.set(ylabel="observed share", title=f"Reliability, epsilon {self.guarantee.epsilon:g}")
        return axes

    @override
    def view(self) -> Panel:
        found = self.quality()
        rows = [(one["name"], one) for one in found["measures"]]
        rows += [
            (f"p of {found['positive']} in {one['from']:.3g} to {one['to']:.3g}", one)
            for one in found["calibration"]
            if one["high"] - one["low"] < 0.99
        ]
        columns = ("measure", "", "estimate", "low", "high")
        told = [
            (
                name,
                Span(one["high"], one["low"], one["value"]),
                *(f"{one[key]:.3f}" for key in ("value", "low", "high")),
            )
            if (one["low"], one["high"]) != (0.0, 1.0)
            else (name, "", "not measurable at this epsilon", "", "")
            for name, one in rows
        ]
        seeded = " SIMULATED: seeded noise protects nobody." if self.simulated else ""
        note = f"{self.confidence:.0%} intervals, each by itself; paid: {self.guarantee}.{seeded}"
        title = f"Quality on {self.n_samples} records"
        return Panel(title, [Table(columns, told, columns[2:], pictures=("",))], note)


#: Noise beyond this many scales has probability below 1e-12 and is left out of sums.
_REACH = 28


def noise_law(scale: float) -> tuple[NDArray[np.int64], Floats]:
    """Return the integers that discrete Laplace noise takes, and their probabilities."""
    reach = math.ceil(_REACH * scale)
    support = np.arange(-reach, reach + 1)
    law = np.exp(-np.abs(support) / scale)
    return support, np.asarray(law / law.sum())


def noise_variance(scale: float) -> float:
    """Return the variance of discrete Laplace noise."""
    q = math.exp(-1 / scale)
    return 2 * q / (1 - q) ** 2


def noise_quantile(scale: float, confidence: float) -> int:
    """Return the smallest ``r`` with ``P(|noise| <= r) >= confidence``."""
    outside = (1 - confidence) * (1 + math.exp(-1 / scale)) / 2  # is exp(-(r + 1)/scale) at r
    return max(0, math.ceil(-scale * math.log(outside)) - 1)


def proportion(noisy: int, n: int, scale: float, confidence: float) -> Estimate:
    """Return the interval for a probability from a noised count of ``n`` independent records.

    Both tails of the exact law of a binomial count plus noise are inverted, as Clopper and Pearson
    do without noise: the interval covers at least as often as it says.
    """
    support, law = noise_law(scale)
    risk = (1 - confidence) / 2

    def at_least(p: float) -> float:
        """Return the probability of a noised count of ``noisy`` or more."""
        return float(law @ _binomial_tail(noisy - support, n, p))

    def at_most(p: float) -> float:
        return float(law @ (1 - _binomial_tail(noisy + 1 - support, n, p)))

    low = _root(lambda p: at_least(p) - risk)
    high = 1 - _root(lambda q: at_most(1 - q) - risk)
    return Estimate(min(max(noisy / n, 0.0), 1.0), low, high)


def ratio(positives: float, negatives: float, v: float, confidence: float) -> Estimate:
    """Return the interval for a share of positives from two counts with noise of variance ``v``.

    Those shares ``p`` are kept for which ``(1-p) positives - p negatives``, whose mean is zero, is
    within its own spread (Fieller's way): counts that drown in noise give all of [0, 1].
    """
    z2 = special.ndtri((1 + confidence) / 2) ** 2
    total = positives + negatives
    size = max(total, 0.0)
    # (positives - p total)^2 <= z2 (size p(1-p) + v ((1-p)^2 + p^2)), a quadratic in p.
    a = total**2 + z2 * (size - 2 * v)
    b = -2 * positives * total - z2 * (size - 2 * v)
    c = positives**2 - z2 * v
    discriminant = b * b - 4 * a * c
    value = min(max(positives / total, 0.0), 1.0) if total > 0 else 0.5
    if a <= 0 or discriminant < 0 or total <= 0:
        return Estimate(value, 0.0, 1.0)
    root = math.sqrt(discriminant)
    low, high = ((-b - root) / (2 * a), (-b + root) / (2 * a))
    return Estimate(value, min(max(low, 0.0), value), max(min(high, 1.0), value))


def area(positives: Floats, negatives: Floats, v: float, confidence: float) -> Estimate:
    """Return the area under the curve from histograms of the scores of both classes.

    They have noise of variance ``v`` in every bin.

    Ties within a bin count one half; the interval adds what they could hide. Sampling and noise
    enter through the gradient of the area in the counts.
    """
    P, N = positives.sum(), negatives.sum()
    z = float(special.ndtri((1 + confidence) / 2))
    if min(P, N) <= 2 * z * math.sqrt(len(positives) * v):
        return Estimate(0.5, 0.0, 1.0)
    below = (np.cumsum(negatives) - negatives / 2) / N
    above = (P - np.cumsum(positives) + positives / 2) / P
    value = float(positives @ below / P)
    slopes = np.concatenate([(below - value) / P, (above - value) / N])
    counts = np.concatenate([positives, negatives]).clip(min=0)
    spread = z * math.sqrt(slopes**2 @ (counts + v))
    hidden = float((positives / P).clip(min=0) @ (negatives / N).clip(min=0)) / 2
    low, high = value - spread - hidden, value + spread + hidden
    return Estimate(min(max(value, 0.0), 1.0), max(low, 0.0), min(high, 1.0))


def _binomial_tail(k: NDArray[np.int64], n: int, p: float) -> Floats:
    """Return ``P(K >= k)`` of a binomial count, for any integers ``k``."""
    inner = np.clip(k, 1, n)
    return np.where(k <= 0, 1.0, np.where(k > n, 0.0, special.betainc(inner, n - inner + 1, p)))


def _root(excess: Callable[[float], float]) -> float:
    """Return where an increasing function reaches zero in [0, 1], or the end nearest to that."""
    if excess(0.0) >= 0:
        return 0.0
    return 1.0 if excess(1.0) <= 0 else float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-10))


_Scorer = Callable[[object], Floats]
Metric = Literal["accuracy", "confusion", "auc", "calibration", "experts"]

#: Which query answers a metric; metrics of one query cost no more than one of them.
_QUERIES = {
    "accuracy": "errors",
    "confusion": "confusion",
    "auc": "scores",
    "calibration": "scores",
    "experts": "experts",
}
#: Largest sum of changes of a query's counts when one record is replaced.
_SENSITIVITY = {"errors": 1, "confusion": 2, "scores": 2, "experts": 2}

#: Intervals add up over all that noise can be: of more records they would not fit into memory.
LARGEST_SCALE = 100_000

#: Scores are counted at so many public places, of which every so manieth stays, by the public size.
_PLACES = 240
_BINS = (4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 40)
#: Rows that are drawn from a schema's declared facts, to see where scores of such people lie.
_DRAWN = 2000


def _schema(model: object) -> PublicSchema | None:
    """Return the schema of a model's encoder, if there is one."""
    return getattr(getattr(getattr(model, "model_", None), "encoder", None), "schema", None)


def _scorers(model: Any, positive: int, queries: Sequence[str]) -> dict[str, _Scorer]:
    """Return what tables are scored by, between 0 and 1, for every query that counts scores."""
    schema = _schema(model)
    scorers: dict[str, _Scorer] = {"scores": lambda rows: model.predict_proba(rows)[:, positive]}
    if "experts" in queries:
        if schema is None or not schema.has_signs:
            raise InvalidParameter("metrics: 'experts' needs a model whose schema declares signs.")
        scorers["experts"] = lambda rows: special.expit(schema.expert_score(rows))
    return {name: score for name, score in scorers.items() if name in queries}


def _places(schema: PublicSchema | None, score: _Scorer) -> Floats:
    """Return public places between which scores of people like these are spread evenly.

    By what is said of rows that a schema's facts describe; without a schema around an even chance.
    A fifth wider than that, for people are not as their facts are.
    """
    shares = np.arange(1, _PLACES) / _PLACES
    middle, steps = 0.0, 1.5 * special.ndtri(shares)
    if schema is not None:
        draws = np.random.default_rng(0)
        rows = pa.table({one.column: drawn_cells(one, _DRAWN, draws) for one in schema.features})
        logits = special.logit(np.clip(score(rows), 1e-9, 1 - 1e-9))
        found = np.quantile(logits, [*shares, 0.5])
        middle, steps = found[-1], 1.2 * (found[:-1] - found[-1])
        steps += 1e-6 * special.ndtri(shares)  # a model of one score has places, too
    return np.asarray(special.expit(middle + steps))


def _kept(n_samples: int, epsilon: float, base_rate: float, confidence: float, groups: int) -> int:
    """Return of how many public places one is kept: as many bins as the noise leaves room for.

    The rarer side must stand out of the noise of all bins together, twice as far as its interval
    needs.
    """
    rarer = n_samples * min(base_rate, 1 - base_rate)
    z = float(special.ndtri((1 + confidence) / 2))
    noise = groups * noise_variance(_SENSITIVITY["scores"] / epsilon)
    room = (rarer / (4 * z)) ** 2 / max(noise, 1e-12)
    return _PLACES // max([bins for bins in _BINS if bins <= room], default=_BINS[0])


def _base_rate(model: object) -> float:
    """Return the declared share of the positive side; without one, an even chance."""
    return getattr(getattr(_schema(model), "outcome", None), "base_rate", None) or 0.5


def _parts(queries: Sequence[str], epsilon: float, base_rate: float) -> dict[str, float]:
    """Share epsilon by need: so that errors of all queries together are least.

    An error rate feels the noise of one count, over all records; an area that of all bins, over the
    rarer side; a table of labels and predictions that of a few. What is counted with variance
    ``c/epsilon^2`` gets a part in proportion to the third root of ``c``.
    """
    rarer = min(base_rate, 1 - base_rate)
    areas = dict.fromkeys(("scores", "experts"), 4.0 / rarer**2)
    needs = {"errors": 1.0, "confusion": 8.0, **areas}
    roots = [needs[name] ** (1 / 3) for name in queries]
    parts, left = {}, exact(epsilon)
    for name, root in zip(queries[:-1], roots[:-1], strict=True):
        parts[name] = float(f"{epsilon * root / sum(roots):.3g}")
        left = minus(left, exact(parts[name]))
    return parts | {queries[-1]: at_most(left)}


def evaluate(
    model: Any,
    X: object,
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    metrics: Sequence[Metric] = ("accuracy", "auc"),
    thresholds: Sequence[float] | None = None,
    by: str | None = None,
    confidence: float = 0.95,
    budget: Budget | Ledger | None = None,
    random_state: Seed | None = None,
) -> Evaluation:
    """Estimate a model's quality on private records, from noised counts.

    Parameters
    ----------
    model : fitted classifier
        Public or released; ``predict`` and ``classes_``, and ``predict_proba`` for scores. Records
        that it was fitted on pay twice: once for the fit, once here.
    X : array or table
        Private records, as the model's ``predict`` takes them; or an iterator of pairs ``X, y``.
    y : array, optional
        Their labels. May be left out where the model's schema says which column holds them.
    epsilon : float
        Price of all metrics together; shared by need among the queries that they make.
    metrics : sequence of {"accuracy", "confusion", "auc", "calibration", "experts"}
        What to estimate. An area and calibration need one and the same query, for two classes;
        "experts", the area of what the schema's signs say alone, one of its own.
    thresholds : sequence of float, optional
        Public grid of probabilities at which scores are counted; must not be chosen by looking at
        ``X``. By default quantiles of what the model says of people as its schema declares them, as
        many as the number of records and the price leave room for.
    by : str, optional
        A column with declared values of the model's schema: the area among records of each, at the
        same price. The noise of the whole is then that of all of them together.
    confidence : float, default=0.95
        Of every interval, each by itself.
    budget, random_state
        As in :class:`confrere.PrivateLogisticRegression`.

    Notes
    -----
    Unit : record. Neighbours : replace one row of ``(X, y)``. Guarantee : ``epsilon``-DP, pure.
    Spends : ``epsilon`` of ``budget`` before noise is drawn. Proof :
    docs/proofs/private_evaluation.md.
    """
    check_epsilon(epsilon)
    queries = _queries(metrics)
    asked = None if thresholds is None else _grid(thresholds)
    if not 0 < confidence < 1:
        raise InvalidParameter("confidence must lie strictly between 0 and 1.")
    if not hasattr(model, "classes_"):
        raise InvalidParameter("model must be fitted, and predict classes; others have a score.")
    classes = np.asarray(model.classes_)
    positive = _positive(model, classes)
    scorers = _scorers(model, positive, queries)
    if scorers and len(classes) != 2:
        raise InvalidParameter("metrics: 'auc' and 'calibration' are for two classes.")
    grids = {name: _places(_schema(model), score) for name, score in scorers.items()}
    if asked is not None:
        grids["scores"] = asked
    groups = None if by is None else _groups(model, by, queries)
    count = 1 if groups is None else groups.size
    truths: dict[str, Any] = dict.fromkeys(queries, 0)
    n_samples = 0
    for rows, labels in X if isinstance(X, Iterator) else [(X, y)]:
        codes = encode_labels(np.asarray(_labels(model, rows, labels)), classes)
        n_samples += len(codes)
        for name in queries if len(codes) else ():
            said = scorers.get(name, model.predict)(rows)
            kind = groups if name == "scores" else None
            truths[name] += _count(
                name, said, rows, codes, classes, positive, grids.get(name), kind
            )
    if not n_samples:
        raise InvalidData("y needs at least one record.")
    parts = _parts(queries, epsilon, _base_rate(model))
    for name in scorers if asked is None else set(scorers) - {"scores"}:
        each = count if name == "scores" else 1
        every = _kept(n_samples, parts[name], _base_rate(model), confidence, each)
        grids[name] = grids[name][every - 1 :: every]
        truths[name] = truths[name].reshape(each, 2, -1, every).sum(axis=3)
    counters = {name: counts(part, _SENSITIVITY[name]) for name, part in parts.items()}
    if max(counter.scale for counter in counters.values()) > LARGEST_SCALE:
        raise InvalidParameter(
            "epsilon is too small for these metrics: noise of more than "
            f"{LARGEST_SCALE:,} records would say nothing. Nothing was spent."
        )
    guarantees = {name: counter.guarantee() for name, counter in counters.items()}
    guarantee = Together(tuple(guarantees.values())).guarantee()
    learned = getattr(model, "model_", None)
    origin = Origin(model=learned.digest()) if isinstance(learned, Model) else None
    purpose = f"evaluate {type(model).__name__}"
    scales = {name: counter.scale for name, counter in counters.items()}
    with charged(budget, guarantee, random_state, purpose=purpose, origin=origin) as ticket:
        drawn = {name: ticket.draw(counters[name], truths[name])[0] for name in queries}
        noisy = {name: each.reshape(truths[name].shape).astype(int) for name, each in drawn.items()}
        found = Evaluation(
            n_samples=n_samples,
            confidence=confidence,
            guarantees=guarantees,
            guarantee=guarantee,
            receipt=ticket.receipt,
            simulated=ticket.simulated,
            positive=str(classes[positive]) if len(classes) == 2 else None,
            subgroups=None
            if groups is None
            else dict(_subgroups(groups, noisy["scores"], scales["scores"], confidence)),
            **_estimates(noisy, scales, metrics, n_samples, classes, grids, confidence),
        )
        # The row names what was found, so that nobody can write something else onto a card.
        ticket.made = quality_digest(found.quality())
    return found


def _labels(model: object, X: object, y: object) -> object:
    if hasattr(model, "true_labels"):
        return model.true_labels(X, y)
    if y is None:
        raise InvalidParameter("y must be given: the labels of the records.")
    return y


def _positive(model: object, classes: NDArray[Any]) -> int:
    """Return which class is the positive side; a model of two sides knows its own."""
    learned = getattr(model, "model_", None)
    if not isinstance(learned, Model) or len(classes) != 2:
        return len(classes) - 1
    return int(np.flatnonzero(classes == learned.labels[1])[0])


def _queries(metrics: Sequence[Metric]) -> list[str]:
    if isinstance(metrics, str) or not metrics or not set(metrics) <= set(_QUERIES):
        raise InvalidParameter(f"metrics must be some of {', '.join(map(repr, _QUERIES))}.")
    return list(dict.fromkeys(_QUERIES[metric] for metric in metrics))


def _grid(thresholds: Sequence[float]) -> NDArray[np.float64]:
    grid = np.asarray(thresholds, dtype=np.float64)
    inside = grid.ndim == 1 and grid.size and np.all((grid > 0) & (grid < 1))
    if not inside or np.any(np.diff(grid) <= 0):
        raise InvalidParameter("thresholds must be increasing numbers strictly between 0 and 1.")
    return grid


def _count(
    query: str,
    said: NDArray[Any],  # Of every record: its score, or what is predicted
    X: object,
    codes: NDArray[np.intp],
    classes: NDArray[Any],
    positive: int,
    grid: Floats | None,
    groups: Discrete | None = None,
) -> NDArray[np.int64]:
    """Return a query's exact counts: the only place that reads the records."""
    if grid is not None:
        bins = np.searchsorted(grid, said, side="right")
        sides, count = (codes == positive).astype(np.intp), 1
        if groups is not None:
            cells = declared_columns(X, [groups.column])[groups.column]
            sides, count = sides + 2 * groups.vertices(cells), groups.size
        return _table(sides, bins, (2 * count, len(grid) + 1)).reshape(count, 2, -1)
    predicted = encode_labels(np.asarray(said), classes)
    if query == "confusion":
        return _table(codes, predicted, (len(classes), len(classes)))
    return np.array([np.count_nonzero(predicted != codes)])


def _table(
    first: NDArray[np.intp], second: NDArray[np.intp], shape: tuple[int, int]
) -> NDArray[np.int64]:
    cells = np.ravel_multi_index((first, second), shape)
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _estimates(
    noisy: dict[str, NDArray[np.int64]],
    scales: dict[str, float],
    metrics: Sequence[Metric],
    n: int,
    classes: NDArray[Any],
    grids: Mapping[str, Floats],
    confidence: float,
) -> dict[str, Any]:
    """Post-process the noised counts."""
    found: dict[str, Any] = {}
    if "accuracy" in metrics:
        wrong, scale = int(noisy["errors"][0]), scales["errors"]
        found["accuracy"] = proportion(wrong, n, scale, confidence).complement()
        reach = noise_quantile(scale, confidence)
        bounds = np.clip([wrong, wrong - reach, wrong + reach], 0, n)
        found["errors"] = Estimate(*(float(bound) for bound in bounds))
    if "confusion" in metrics:
        found["confusion"] = {
            (label, predicted): proportion(
                int(noisy["confusion"][i, j]), n, scales["confusion"], confidence
            )
            for i, label in enumerate(classes.tolist())
            for j, predicted in enumerate(classes.tolist())
        }
    if "scores" in noisy:
        no, yes = noisy["scores"].sum(axis=0).astype(np.float64)
        v = len(noisy["scores"]) * noise_variance(scales["scores"])
        if "auc" in metrics:
            found["auc"] = area(yes, no, v, confidence)
        if "calibration" in metrics:
            found["calibration"] = tuple(
                _calibrated(np.concatenate([[0.0], grids["scores"], [1.0]]), no, yes, v, confidence)
            )
    if "experts" in noisy:
        no, yes = noisy["experts"][0].astype(np.float64)
        found["experts"] = area(yes, no, noise_variance(scales["experts"]), confidence)
    return found


def _calibrated(
    edges: Floats, negatives: Floats, positives: Floats, v: float, confidence: float
) -> Iterator[CalibrationBin]:
    """Yield bins; of more than twenty neighbours are put together, whose noise adds up."""
    together = max(1, math.ceil((len(edges) - 1) / 20))
    for begin in range(0, len(edges) - 1, together):
        end = min(begin + together, len(edges) - 1)
        no, yes = float(negatives[begin:end].sum()), float(positives[begin:end].sum())
        low, high = float(edges[begin]), float(edges[end])
        yield CalibrationBin(low, high, yes + no, ratio(yes, no, (end - begin) * v, confidence))


def _groups(model: object, by: str, queries: Sequence[str]) -> Discrete:
    """Return the declared column whose values make subgroups; any cell of it is in one."""
    named = [one for one in getattr(_schema(model), "features", ()) if one.column == by]
    if not named or not isinstance(named[0], Discrete):
        raise InvalidParameter("by must be a column with declared values of the model's schema.")
    if "scores" not in queries:
        raise InvalidParameter("by needs 'auc' or 'calibration' among the metrics.")
    return named[0]


def _subgroups(
    groups: Discrete, noisy: NDArray[np.int64], scale: float, confidence: float
) -> Iterator[tuple[str, Subgroup]]:
    v = noise_variance(scale)
    names = (*value_names(groups), "missing")
    for name, (no, yes) in zip(names, noisy.astype(np.float64), strict=True):
        share = ratio(yes.sum(), no.sum(), noisy.shape[-1] * v, confidence)
        size = max(float(yes.sum() + no.sum()), 0.0)
        yield name, Subgroup(size, share, area(yes, no, v, confidence))
