"""What a released linear model says of every column: coefficients per public unit, or points.

A term is two raw rows that differ in one column: the encoder says what that does to the encoded
columns, so logarithms, cuts and references are right by construction. All of it is post-processing
of what was released and of public facts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.encoding import SchemaEncoder, column_scores, frequencies, value_names
from confrere.data.features import Discrete, Encoded, Feature, Flag, Number, Ordered
from confrere.errors import InvalidParameter
from confrere.extras import extra, installed
from confrere.model.models import Linear, Model
from confrere.views import Panel, Shown, Table

#: What coefficients may be read as, by the loss.
SCORES = (
    "coefficients are scores, not log odds: the loss is capped; purpose='inference' is for log odds"
)
LOG_ODDS = (
    "coefficients are log odds, shrunk by a public ridge and moved by noise; "
    "confrere.evaluation.infer undoes both, with odds ratios and intervals"
)
NUMBERS = "coefficients are {}, shrunk by a public ridge and moved by noise"


@dataclass(frozen=True, eq=False)
class Effect:
    """Two raw rows that differ in one column, or all of the reference person."""

    term: str
    unit: float | None  #: The change of the raw column that the coefficient stands for
    unit_name: str
    moved: Floats  #: What that does to the encoded columns, before weights and bounds
    constant: float = 0.0  #: And to the constant


def effects(encoder: SchemaEncoder) -> list[Effect]:
    """Return the terms of a schema's columns, and last the intercept of its reference person."""
    columns = encoder.columns
    ends = np.cumsum([0, *(len(column.names) for column in columns)]).tolist()
    found, person = [], np.zeros(ends[-1])
    for k, (feature, column) in enumerate(zip(encoder.schema.features, columns, strict=True)):
        own = slice(ends[k], ends[k + 1])
        base, terms = _terms(feature, column)
        person[own] = column.table[base]
        for term, unit, name, moved in terms:
            whole = np.zeros(ends[-1])
            whole[own] = moved
            found.append(Effect(term, unit, name, whole))
    return [*found, Effect("intercept", None, "reference person", person, 1.0)]


_Term = tuple[str, float, str, Floats]


def _terms(feature: Feature, column: Encoded) -> tuple[int, list[_Term]]:
    """Return the vertex of the reference person, and what differs from it.

    The middle, no, the most frequent declared value.
    """
    table, name = column.table, feature.column
    if isinstance(feature, Number | Ordered):
        points = feature.points() if isinstance(feature, Number) else feature.ranks()
        middle = feature.moments()[0]
        base, terms = int(np.argmin(np.abs(points - middle))), [_line(feature, column, points)]
    elif isinstance(feature, Flag):
        base, terms = 0, [(name, 1.0, "yes against no", table[1] - table[0])]
    else:
        base = int(np.argmax(frequencies(feature)[:-1]))
        own = column.names[: len(column.names) - feature.has_indicator]
        told = f"against {own[base].removeprefix(f'{name}=')}"
        each = zip(own, table, strict=False)
        terms = [(term, 1.0, told, row - table[base]) for term, row in each if term != own[base]]
    if feature.has_indicator:
        terms.append(
            (f"{name}=missing", 1.0, "against the reference person", table[-1] - table[base])
        )
    return base, terms


def _line(feature: Number | Ordered, column: Encoded, points: Floats) -> _Term:
    table = column.table
    # Where the column is not cut: there a line is straight.
    ends = [np.all(table[: len(points)] == table[i], axis=1) for i in (0, len(points) - 1)]
    first, last = int(np.flatnonzero(ends[0]).max()), int(np.flatnonzero(ends[1]).min())
    unit, moved = float(points[last] - points[first]), table[last] - table[first]
    raw = feature.raw(points) if isinstance(feature, Number) else points
    logged = isinstance(feature, Number) and feature.log
    told = f"from {raw[first]:,.6g} to {raw[last]:,.6g}"
    if column.block.smooth <= 2:
        ranked = logged or isinstance(feature, Ordered)
        own = 1.0 if ranked else round_unit(feature.moments()[1])
        unit, moved = own, moved * (own / unit)
        base = f" - {raw[0]:g}" if raw[0] else ""
        told = f"of log(1 + x{base}), {told}" if logged else told
    return feature.column, unit, told, moved


def round_unit(spread: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is at most a declared spread."""
    ten = 10.0 ** math.floor(math.log10(spread))
    return float(f"{max(one for one in (1, 2, 5) if one * ten <= spread * (1 + 1e-9)) * ten:.3g}")


@dataclass(frozen=True, kw_only=True)
class TermLine:
    """What is said of one term; None where nothing can be."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    term: str
    unit: float | None
    unit_name: str
    coefficient: float | None
    low: float | None = None
    high: float | None = None
    ratio: float | None = None  #: Of hazards or rates
    odds_ratio: float | None = None
    or_low: float | None = None
    or_high: float | None = None
    p: float | None = None


#: Columns that people read as one.
_INTERVALS = (("coefficient", "low", "high"), ("odds_ratio", "or_low", "or_high"))

#: Columns of these tables that hold words.
_WORDS = ("term", "unit_name", "column", "bin")


@dataclass(frozen=True)
class Summary(Shown):
    """The terms of a linear model, one after the other."""

    lines: tuple[TermLine, ...]
    note: str  #: What the numbers may be read as
    #: What people call columns, by their names.
    titles: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    title = "Model"

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by its columns; NaN where nothing can be said, ratios if any are."""
        names = [k for k, one in vars(self.lines[0]).items() if k != "ratio" or one is not None]
        rows = [[math.nan if (v := vars(x)[k]) is None else v for k in names] for x in self.lines]
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))

    def frame(self) -> Any:
        """Return a data frame; without pandas its columns."""
        if not installed("pandas"):
            return self.columns()
        frame = extra("pandas", "pandas").DataFrame(self.columns())
        frame.attrs["note"] = self.note
        return frame

    @property
    def table(self) -> Table:
        """The table for people: without columns that say nothing."""
        shown = {name: [_shown(name, x) for x in own] for name, own in self.columns().items()}
        named = next(iter(shown))  # of a term, or a column
        shown[named] = [self._titled(one) for one in shown[named]]
        _joined(shown)
        said = {name: column for name, column in shown.items() if any(column)}
        titles = {name: name.replace("unit_name", "unit").replace("_", " ") for name in said}
        numbers = [titles[name] for name in said if name not in _WORDS]
        rows = list(zip(*said.values(), strict=True))
        return Table(list(titles.values()), rows, right=numbers, title=self.title)

    def _titled(self, term: str) -> str:
        column, *value = term.partition("=")
        return "".join([self.titles.get(column, column), *value])

    @override
    def view(self) -> Panel:
        return Panel(self.title, [self.table], self.note)


def _joined(shown: dict[str, list[str]]) -> None:
    """Put ends of intervals behind what they are of, and units before what they are of."""
    for name, *ends in _INTERVALS if "low" in shown else ():
        each = zip(shown[name], *map(shown.pop, ends), strict=True)
        shown[name] = [f"{x} [{a}, {b}]".lstrip() if a else x for x, a, b in each]
    if "unit" in shown:
        pairs = zip(shown.pop("unit"), shown["unit_name"], strict=True)
        words = ("against", "yes", "reference", "as given")  # say what they stand for
        shown["unit_name"] = [
            name if not x or name.startswith(words) else f"per {x}, {name}" for x, name in pairs
        ]


def _shown(name: str, value: Any) -> str:
    if isinstance(value, str | int) or math.isnan(value):
        return "" if isinstance(value, float) else str(value)
    form = ".3g" if name == "unit" else "#.3g"
    return "<0.001" if name == "p" and value < 1e-3 else f"{value:{form}}"


def summarised(model: Linear) -> Summary:
    """Return the table of a released linear model."""
    weights: Any = 1.0
    if model.encoder is None:
        rows: Floats = np.eye(len(model.features))
        found = [Effect(k, 1.0, "as given", x) for k, x in zip(model.features, rows, strict=True)]
        found.append(Effect("intercept", None, "", 0 * rows[0], 1.0))
    else:
        encoder = model.encoder.transformer()
        found = effects(encoder)
        weights = (encoder.multipliers() if encoder.weighted else 1.0) / encoder.norm
    several, ratios = len(model.coef) > 1, model.link.ratios
    labels = model.labels if several else model.labels[1:] or ("",)
    unit, level = (1.0, 0.0) if model.classes else (model.link.slope, model.link.shift)
    lines = [
        TermLine(
            term=f"{effect.term} [{label}]" if several else effect.term,
            unit=effect.unit,
            unit_name=effect.unit_name,
            coefficient=unit * moved + effect.constant * (unit * float(intercept) + level),
            ratio=math.exp(moved) if ratios and not effect.constant else None,
        )
        for label, coef, intercept in zip(labels, model.coef, model.intercept, strict=True)
        for effect in found
        for moved in [float(effect.moved * weights @ coef)]
    ]
    note = LOG_ODDS if model.facts.loss == "logistic" else SCORES
    if not model.classes:
        note = NUMBERS.format(f"logs of ratios of {ratios}" if ratios else "in the outcome's unit")
    return Summary(tuple(lines), note, titles=titles_of(model))


def titles_of(model: Model) -> dict[str, str]:
    """Return what people call the columns of a model's schema."""
    features = () if model.encoder is None else model.encoder.schema.features
    return {one.column: one.titled for one in features if one.title is not None}


@dataclass(frozen=True)
class Points:
    """How many points whoever is in a bin of a column gets."""

    column: str
    bin: str
    points: int


@dataclass(frozen=True)
class Scorecard(Summary):
    """Whole points to be added by hand: what a model says, in steps."""

    lines: tuple[Points, ...]  # type: ignore[assignment]
    title = "Scorecard"


def scorecard(model: Model, doubling: float, level: float) -> Scorecard:
    """Return points per bin: a bin around every knot, and one for every declared value."""
    if not isinstance(model, Linear) or model.encoder is None or len(model.labels) != 2:
        raise InvalidParameter("model: a scorecard needs one linear model of two sides, a schema.")
    if model.encoder.form == "standardised":  # where long rows are shortened, no points add up
        raise InvalidParameter('model: a scorecard needs geometry="schema".')
    if not math.isfinite(level + 1 / (doubling or math.nan) + doubling):
        raise InvalidParameter("doubling, level: must be finite numbers, and doubling not 0.")
    encoder, link, lines = model.encoder.transformer(), model.link, []
    factor = link.slope * doubling / math.log(2)
    start = level + factor * (link.shift / link.slope + float(model.intercept[0]))
    scores = column_scores(encoder, model.coef / encoder.norm)
    for feature, (often, centred, mean) in zip(encoder.schema.features, scores, strict=True):
        names, place = _bins(feature)
        often = often + 1e-9  # what is never expected has points, too
        total, rows = (np.bincount(place, x) for x in (often * centred[:, 0], often))
        points = factor * (total / rows + mean)
        start += float(points.min())
        each = zip(names, np.rint(points - points.min()).astype(int).tolist(), strict=True)
        lines += [Points(feature.column, *one) for one in each]
    odds = link.probabilities(np.arange(-4.0, 5.0) * math.log(2))[:, 1]
    shares = (f"{level + k * doubling:g}: {share:.3f}" for k, share in enumerate(odds, -4))
    note = f"Points in all, and the probability of {model.labels[1]}: {', '.join(shares)}"
    first = Points("start", "everybody", round(start))
    return Scorecard((first, *lines), note, titles=titles_of(model))


def _bins(feature: Feature) -> tuple[list[str], NDArray[np.intp]]:
    """Return what bins of a column are called, and in which one every vertex is."""
    if isinstance(feature, Number):
        knots = replace(feature, curve=feature.curve or "auto").knots(True)
        middles = [((a + b) / 2, round_unit((b - a) / 10)) for a, b in pairwise(knots)]
        edges = [round(middle / step) * step for middle, step in middles]
        ends = [f"{edge:.6g}" for edge in edges]
        names = [f"below {ends[0]}", *map("{} to {}".format, ends, ends[1:]), f"from {ends[-1]}"]
        place = np.searchsorted(edges, feature.raw(feature.points()), side="right")
    else:
        assert isinstance(feature, Discrete)
        names = [name.removeprefix("= ") for name in value_names(feature)]
        place = np.arange(len(names))
        if not feature.collects:
            names, place[-1] = names[:-1], 0
    if feature.missing is None:
        return names, np.append(place, 0)
    return [*names, "missing"], np.append(place, len(names))
