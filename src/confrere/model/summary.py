"""What a released linear model says of every column: a table of coefficients per public unit.

A term is two raw rows that differ in one column: the encoder says what that does to the encoded
columns, so logarithms, cuts and references are right by construction. All of it is post-processing
of what was released and of public facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from confrere.arrays import Floats
from confrere.data.encoding import SchemaEncoder, frequencies
from confrere.data.features import Encoded, Feature, Flag, Number, Ordered
from confrere.extras import extra, installed
from confrere.model.models import Linear
from confrere.views import Panel, Shown, Table

#: What coefficients may be read as, by the loss.
SCORES = (
    "coefficients are scores, not log odds: the loss is capped; purpose='inference' is for log odds"
)
LOG_ODDS = (
    "coefficients are log odds, shrunk by a public ridge and moved by noise; "
    "confrere.evaluation.infer undoes both, with odds ratios and intervals"
)


@dataclass(frozen=True, eq=False)
class Effect:
    """Two raw rows that differ in one column, or all of the reference person."""

    term: str
    unit: float  #: The change of the raw column that the coefficient stands for
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
        person[own] = column.table[reference(feature)]
        for term, unit, name, moved in _effects(feature, column):
            whole = np.zeros(ends[-1])
            whole[own] = moved
            found.append(Effect(term, unit, name, whole))
    return [*found, Effect("intercept", math.nan, "reference person", person, 1.0)]


def reference(feature: Feature) -> int:
    """Return the vertex of the reference person: the middle, no, the most frequent declared."""
    if isinstance(feature, Number | Ordered):
        return int(np.argmin(np.abs(_points(feature) - feature.moments()[0])))
    return 0 if isinstance(feature, Flag) else int(np.argmax(frequencies(feature)[:-1]))


def _points(feature: Number | Ordered) -> Floats:
    return feature.points() if isinstance(feature, Number) else feature.ranks()


def _line(feature: Number | Ordered, column: Encoded) -> tuple[str, float, str, Floats]:
    points, table = _points(feature), column.table
    logged = feature if isinstance(feature, Number) and feature.log else None
    # Where the column is not cut: there a line is straight.
    ends = [np.all(table[: len(points)] == table[i], axis=1) for i in (0, len(points) - 1)]
    first, last = int(np.flatnonzero(ends[0]).max()), int(np.flatnonzero(ends[1]).min())
    unit, moved = float(points[last] - points[first]), table[last] - table[first]
    raw = points if logged is None else logged.bounds[0] + np.expm1(points)
    told = f"from {raw[first]:.4g} to {raw[last]:.4g}"
    if column.block.smooth <= 2:
        own = round_unit(feature.moments()[1])
        if logged is not None or isinstance(feature, Ordered):
            own = 1.0
        unit, moved = own, moved * (own / unit)
        told = told if logged is None else f"of log(1 + x - {logged.bounds[0]:g}), {told}"
    return feature.column, unit, told, moved


def _effects(feature: Feature, column: Encoded) -> Iterator[tuple[str, float, str, Floats]]:
    table, name, base = column.table, feature.column, reference(feature)
    if isinstance(feature, Number | Ordered):
        yield _line(feature, column)
    elif isinstance(feature, Flag):
        yield name, 1.0, "yes against no", table[1] - table[0]
    else:
        own_names = column.names[: len(column.names) - feature.has_indicator]
        told = f"against {own_names[base].removeprefix(f'{name}=')}"
        for place, term in enumerate(own_names):
            if place != base:
                yield term, 1.0, told, table[place] - table[base]
    if feature.has_indicator:
        yield f"{name}=missing", 1.0, "against the reference person", table[-1] - table[base]


def round_unit(spread: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is at most a declared spread."""
    ten = 10.0 ** math.floor(math.log10(spread))
    return float(f"{max(one for one in (1, 2, 5) if one * ten <= spread * (1 + 1e-9)) * ten:.3g}")


@dataclass(frozen=True, kw_only=True)
class TermLine:
    """What is said of one term; NaN where nothing can be."""

    term: str
    unit: float
    unit_name: str
    coefficient: float
    low: float = math.nan
    high: float = math.nan
    odds_ratio: float = math.nan
    or_low: float = math.nan
    or_high: float = math.nan
    p: float = math.nan


@dataclass(frozen=True)
class Summary(Shown):
    """The terms of a linear model, one after the other."""

    lines: tuple[TermLine, ...]
    note: str  #: What the numbers may be read as

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by its columns."""
        names = TermLine.__dataclass_fields__
        return {name: [getattr(line, name) for line in self.lines] for name in names}

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
        said = {
            name: column
            for name, column in self.columns().items()
            if any(isinstance(one, str) or not math.isnan(one) for one in column)
        }
        shown = [[_shown(one) for one in column] for column in said.values()]
        numbers = [name for name in said if name not in ("term", "unit_name")]
        return Table(list(said), list(zip(*shown, strict=True)), right=numbers, title="Model")

    @override
    def view(self) -> Panel:
        return Panel("Model", [self.table], self.note)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:.3g}"


def summarised(model: Linear) -> Summary:
    """Return the table of a released linear model."""
    weights: Any = 1.0
    if model.encoder is None:
        rows: Floats = np.eye(len(model.features))
        pairs = zip(model.features, rows, strict=True)
        found = [Effect(name, 1.0, "as given", row) for name, row in pairs]
        found.append(Effect("intercept", math.nan, "", 0 * rows[0], 1.0))
    else:
        encoder = model.encoder.transformer()
        found = effects(encoder)
        weights = (encoder.multipliers() if encoder.weighted else 1.0) / encoder.norm
    several = len(model.coef) > 1
    labels = model.labels if several else model.labels[1:]
    lines = [
        TermLine(
            term=f"{effect.term} [{label}]" if several else effect.term,
            unit=effect.unit,
            unit_name=effect.unit_name,
            coefficient=float(effect.moved * weights @ coef + effect.constant * intercept),
        )
        for label, coef, intercept in zip(labels, model.coef, model.intercept, strict=True)
        for effect in found
    ]
    return Summary(tuple(lines), LOG_ODDS if model.facts.loss == "logistic" else SCORES)
