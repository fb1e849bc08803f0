"""The encoder of a model as part of its ONNX graph: one input per raw column.

Numbers are doubles, NaN where one is missing; every other cell is a string, empty where it is
missing, without spaces around it and in a spelling that the encoding lists. A graph cannot refuse a
row: what the encoder refuses becomes NaN, and so does the answer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from confrere.schema.cells import MISSING, meaning
from confrere.schema.encoding import Encoding, NumberColumn, OneHotColumn, ScoreColumn

if TYPE_CHECKING:
    from confrere.model.onnx_graph import Graph


def encoded_rows(graph: Graph, encoding: Encoding) -> str:
    """Add what turns raw columns into bounded rows."""
    parts = []
    for column in encoding.columns:
        if isinstance(column, NumberColumn):
            parts += _number(graph, column)
        else:
            parts += _text(graph, column, encoding.na)
    rows = graph.add("Concat", *parts, axis=1)
    if encoding.weights is not None:
        rows = graph.add("Mul", rows, graph.constant(np.array([encoding.weights])))
    squares = graph.add("Mul", rows, rows)
    axis = graph.constant(np.array([1], dtype=np.int64))
    norms = graph.add("Sqrt", graph.add("ReduceSum", squares, axis))
    least = encoding.norm if encoding.rows == "clip" else 1e-300  # rows of zeros stay
    return graph.add("Div", rows, graph.add("Max", norms, _one(graph, least)))


def _one(graph: Graph, number: float) -> str:
    return graph.constant(np.array(number))


def _row(numbers: tuple[float, ...] | None, width: int) -> np.ndarray:
    """Return what a cell becomes; NaN where it is refused."""
    return np.array([numbers if numbers is not None else (math.nan,) * width])


def _number(graph: Graph, column: NumberColumn) -> list[str]:
    x = column.column
    absent = graph.add("IsNaN", x)
    for token in column.na:
        number = meaning(token)
        if isinstance(number, float):
            absent = graph.add("Or", absent, graph.add("Equal", x, _one(graph, number)))
    low, high = column.clip
    u = graph.add("Clip", x, _one(graph, low), _one(graph, high))
    if column.log:
        shifted = graph.add("Add", graph.add("Sub", u, _one(graph, low)), _one(graph, 1.0))
        u = graph.add("Log", shifted)
    basis = _hats(graph, u, column.knots) if column.knots else u
    centred = graph.add("Sub", basis, graph.constant(np.array([column.centre])))
    scaled = graph.add("Div", centred, graph.constant(np.array([column.scale])))
    return _with_missing(graph, column, absent, scaled)


def _hats(graph: Graph, u: str, knots: tuple[float, ...]) -> str:
    hats = []
    for j, knot in enumerate(knots):
        sides = [_one(graph, 1.0)]
        if j > 0:
            rise = graph.add("Sub", u, _one(graph, knots[j - 1]))
            sides.append(graph.add("Div", rise, _one(graph, knot - knots[j - 1])))
        if j + 1 < len(knots):
            fall = graph.add("Sub", _one(graph, knots[j + 1]), u)
            sides.append(graph.add("Div", fall, _one(graph, knots[j + 1] - knot)))
        hats.append(graph.add("Max", graph.add("Min", *sides), _one(graph, 0.0)))
    return graph.add("Concat", *hats, axis=1)


def _with_missing(
    graph: Graph, column: NumberColumn | OneHotColumn | ScoreColumn, absent: str, scaled: str
) -> list[str]:
    """Return the encoded parts: those of the value, then the indicator of a missing one."""
    own = len(column.centre)
    missing = _row(column.missing, column.width)
    parts = [graph.add("Where", absent, graph.constant(missing[:, :own]), scaled)]
    if column.present:
        here = graph.constant(np.array([column.present]))
        parts.append(graph.add("Where", absent, graph.constant(missing[:, own:]), here))
    return parts


def _text(graph: Graph, column: OneHotColumn | ScoreColumn, na: tuple[str, ...]) -> list[str]:
    known = {**dict.fromkeys(na, MISSING), **column.codes}
    count = 1 + max(column.codes.values())
    unknown = count + 1
    place = graph.look_up(
        column.column, {t: count if p == MISSING else p for t, p in known.items()}, unknown
    )
    own = len(column.centre)
    places = graph.constant(np.arange(count, dtype=np.int64)[None, :])
    if isinstance(column, OneHotColumn):
        basis = graph.add("Cast", graph.add("Equal", place, places), to=graph.DOUBLE)
    else:
        # The last two are of cells that are missing or unknown; what they get is replaced.
        scores = graph.constant(np.array([*column.scores, 0.0, 0.0]))
        basis = graph.add("Gather", scores, place, axis=0)
    centred = graph.add("Sub", basis, graph.constant(np.array([column.centre])))
    scaled = graph.add("Div", centred, graph.constant(np.array([column.scale])))
    elsewhere = graph.constant(_row(column.unknown, column.width)[:, :own])
    strange = graph.add("Equal", place, graph.constant(np.array(unknown, dtype=np.int64)))
    scaled = graph.add("Where", strange, elsewhere, scaled)
    absent = graph.add("Equal", place, graph.constant(np.array(count, dtype=np.int64)))
    return _with_missing(graph, column, absent, scaled)
