"""A model as an ONNX graph in double precision, built by hand from standard operators.

Inputs are the raw columns of a model with an encoder, each of shape (n, 1) and under its name, or
else ``X`` of shape (n, d). Outputs are ``decision``, ``probability`` of shape (n, K) and ``label``,
the position in ``labels``, which the model's metadata hold as JSON. The bytes are written here,
without a library whose next version would write others: whoever has the model makes them again
and compares.

The encoder is part of the graph: one input per raw column. Numbers are doubles, NaN where one is
missing; every other cell is a string, empty where it is missing, without spaces around it and in a
spelling that the encoding lists. A graph cannot refuse a row: what the encoder refuses becomes NaN,
and so does the answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from confrere.model.models import LARGEST, Clip, Linear, LowLevelModel, Model, Stack
from confrere.schema.cells import MISSING, meaning
from confrere.schema.encoding import Encoding, NumberColumn, OneHotColumn, ScoreColumn

#: Old enough for every runtime in use, new enough for double precision everywhere.
_OPSET = 13
_IR_VERSION = 7
_DOUBLE, _INT64, _STRING = 11, 7, 8
_INTEGER, _INTEGERS, _STRINGS = 2, 7, 8
#: Operators on strings have a set of their own.
_ML, _ML_OPSET = "ai.onnx.ml", 2
_TYPES = {np.dtype(np.float64): _DOUBLE, np.dtype(np.int64): _INT64}


def onnx_bytes(model: Model) -> bytes:
    """Return the serialised graph; equal models give equal bytes, on every machine and day."""
    names = () if model.encoder is None else model.encoder.schema.columns
    graph = Graph(names)
    bound = np.array(LARGEST)
    given = "X" if model.encoder is None else encoded_rows(graph, model.encoder.encoding)
    rows = graph.add("Clip", given, graph.constant(-bound), graph.constant(bound))
    if model.clip is not None:
        rows = _clipped(graph, rows, model.clip)
    if isinstance(model, Linear):
        _linear(graph, rows, model)
    else:
        assert isinstance(model, Stack)
        _stack(graph, rows, model)
    return graph.serialised(model)


def _clipped(graph: Graph, rows: str, clip: Clip) -> str:
    """Add ``u * (radius / max(bound, ||u||))``."""
    sizes = graph.add("Mul", rows, rows) if clip.norm == 2 else graph.add("Abs", rows)
    norms = graph.add("ReduceSum", sizes, graph.constant(np.array([1], dtype=np.int64)))
    if clip.norm == 2:
        norms = graph.add("Sqrt", norms)
    longest = graph.add("Max", norms, graph.constant(np.array(clip.bound)))
    factor = graph.add("Div", graph.constant(np.array(clip.radius)), longest)
    return graph.add("Mul", rows, factor)


def _linear(graph: Graph, rows: str, model: Linear) -> None:
    scores = graph.gemm(rows, model.coef, model.intercept, graph.output("decision"))
    if len(model.coef) == 1:
        _two_classes(graph, graph.add("Sigmoid", scores), scores)
    else:
        graph.add("Softmax", scores, output=graph.output("probability"), axis=1)
        _label(graph, graph.add("ArgMax", scores, axis=1, keepdims=0), scores)


def _stack(graph: Graph, rows: str, model: Stack) -> None:
    low = [_low(graph, rows, group) for group in model.groups]
    if len(model.classes) > 2:
        _stack_of_classes(graph, low, model)
        return
    meta = graph.add("Concat", *low, axis=1)
    if model.combine == "vote":
        meta = graph.add("Sign", meta)
    elif model.combine == "stack":
        meta = _squeezed(graph, meta, len(low))
    high, constant = model.coef[None, :], np.array([model.intercept])
    scores = graph.gemm(meta, high, constant, graph.output("decision"))
    if model.combine == "vote":
        share = graph.add("Div", scores, graph.constant(np.array(model.total_weight)))
        positive = graph.add("Add", share, graph.constant(np.array(1.0)))
        positive = graph.add("Div", positive, graph.constant(np.array(2.0)))
    else:
        positive = graph.add("Sigmoid", scores)
    _two_classes(graph, positive, scores)


def _low(graph: Graph, rows: str, group: LowLevelModel) -> str:
    """Add a group's sharpened scores."""
    part = graph.add("Gather", rows, graph.constant(group.features.astype(np.int64)), axis=1)
    if group.clip is not None:
        part = _clipped(graph, part, group.clip)
    plain = graph.gemm(part, np.atleast_2d(group.coef), np.atleast_1d(group.intercept))
    above = graph.add("Sub", plain, graph.constant(np.array(group.baseline)))
    return graph.add("Mul", above, graph.constant(np.array(group.sharpness)))


def _squeezed(graph: Graph, scores: str, n_groups: int) -> str:
    """Add ``tanh(z / 2) / sqrt(groups)``."""
    meta = graph.add("Tanh", graph.add("Div", scores, graph.constant(np.array(2.0))))
    return graph.add("Div", meta, graph.constant(np.array(math.sqrt(n_groups))))


def _stack_of_classes(graph: Graph, low: Sequence[str], model: Stack) -> None:
    """Add every class's weighted sum over the groups."""
    total = ""
    for scores, weight in zip(low, model.coef, strict=True):
        meta = scores
        if model.combine == "stack":
            meta = _squeezed(graph, scores, len(low))
        elif model.combine == "vote":
            best = graph.add("ArgMax", scores, axis=1, keepdims=1)
            places = np.arange(len(model.classes), dtype=np.int64)[None, :]
            chosen = graph.add("Equal", best, graph.constant(places))
            # Scores times zero: what is undefined stays so.
            nothing = graph.add("Mul", scores, graph.constant(np.array(0.0)))
            meta = graph.add("Add", graph.add("Cast", chosen, to=_DOUBLE), nothing)
        part = graph.add("Mul", meta, graph.constant(np.array(float(weight))))
        total = graph.add("Add", total, part) if total else part
    scores = graph.add("Identity", total, output=graph.output("decision"))
    if model.combine == "vote":
        whole = graph.constant(np.array(model.total_weight))
        graph.add("Div", scores, whole, output=graph.output("probability"))
    else:
        graph.add("Softmax", scores, output=graph.output("probability"), axis=1)
    _label(graph, graph.add("ArgMax", scores, axis=1, keepdims=0), scores)


def _two_classes(graph: Graph, positive: str, scores: str) -> None:
    negative = graph.add("Sub", graph.constant(np.array(1.0)), positive)
    graph.add("Concat", negative, positive, output=graph.output("probability"), axis=1)
    above = graph.add("Greater", scores, graph.constant(np.array(0.0)))
    column = graph.add("Cast", above, to=_INT64)
    axis = graph.constant(np.array([1], dtype=np.int64))
    _label(graph, graph.add("Squeeze", column, axis), scores)


def _label(graph: Graph, position: str, scores: str) -> None:
    """Add the label: -1 where the scores are undefined, as those of refused rows are."""
    axis = graph.constant(np.array([1], dtype=np.int64))
    undefined = graph.add("IsNaN", graph.add("ReduceSum", scores, axis, keepdims=0))
    none = graph.constant(np.array(-1, dtype=np.int64))
    graph.add("Where", undefined, none, position, output=graph.output("label"))


class Graph:
    """Nodes and constants in the order they are added, with short numbered names.

    Parameters
    ----------
    columns : sequence of str
        Names of raw columns, which no other name may be.
    """

    DOUBLE = _DOUBLE

    def __init__(self, columns: Sequence[str] = ()) -> None:
        self._prefix = ""
        while any(name.startswith(self._prefix) for name in columns) and columns:
            self._prefix += "_"
        taken = {"decision", "probability", "label"} & {*columns}
        self._outputs = "predicted_" if taken else ""
        while any(name.startswith(self._outputs) for name in columns) and taken:
            self._outputs = f"_{self._outputs}"
        self._nodes: list[bytes] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._tensors: list[bytes] = []

    def constant(self, value: np.ndarray[Any, Any]) -> str:
        """Return the name of a constant; equal ones are kept once."""
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = f"{self._prefix}c{len(self._constants)}"
            self._tensors.append(
                b"".join(_field(1, size) for size in value.shape)
                + _field(2, _TYPES[value.dtype])
                + _field(8, self._constants[key])
                + _field(9, value.astype(value.dtype.newbyteorder("<")).tobytes())
            )
        return self._constants[key]

    def output(self, name: str) -> str:
        """Return what an output is called: a word that is no column's name."""
        return f"{self._outputs}{name}"

    def add(self, operator: str, *inputs: str, output: str | None = None, **options: int) -> str:
        """Add one operator and return the name of what it computes."""
        name = output or f"{self._prefix}n{len(self._nodes)}"
        node = b"".join(_field(1, one) for one in inputs) + _field(2, name) + _field(4, operator)
        for option, value in options.items():
            node += _field(5, _field(1, option) + _field(3, value) + _field(20, _INTEGER))
        self._nodes.append(node)
        return name

    def look_up(self, column: str, places: Mapping[str, int], otherwise: int) -> str:
        """Add the place of every text of a column."""
        name = f"{self._prefix}n{len(self._nodes)}"
        node = _field(1, column) + _field(2, name) + _field(4, "LabelEncoder") + _field(7, _ML)
        texts = b"".join(_field(9, text) for text in places)
        node += _field(5, _field(1, "keys_strings") + texts + _field(20, _STRINGS))
        numbers = b"".join(_field(8, place) for place in places.values())
        node += _field(5, _field(1, "values_int64s") + numbers + _field(20, _INTEGERS))
        default = _field(1, "default_int64") + _field(3, otherwise) + _field(20, _INTEGER)
        self._nodes.append(node + _field(5, default))
        return name

    def gemm(
        self,
        rows: str,
        coef: np.ndarray[Any, Any],
        intercept: np.ndarray[Any, Any],
        output: str | None = None,
    ) -> str:
        """Add ``rows @ coef.T + intercept``."""
        weights, constants = self.constant(coef), self.constant(intercept)
        return self.add("Gemm", rows, weights, constants, output=output, transB=1)

    def serialised(self, model: Model) -> bytes:
        """Return the whole model's bytes: the messages of onnx.proto, field by field."""
        n_classes = len(model.classes)
        n_scores = n_classes if n_classes > 2 else 1
        graph = b"".join(_field(1, node) for node in self._nodes) + _field(2, "confrere")
        graph += b"".join(_field(5, tensor) for tensor in self._tensors)
        if model.encoder is None:
            graph += _field(11, _value("X", _DOUBLE, len(model.features)))
        else:
            for column in model.encoder.encoding.columns:
                kind = _DOUBLE if isinstance(column, NumberColumn) else _STRING
                graph += _field(11, _value(column.column, kind, 1))
        graph += _field(12, _value(self.output("decision"), _DOUBLE, n_scores))
        graph += _field(12, _value(self.output("probability"), _DOUBLE, n_classes))
        graph += _field(12, _value(self.output("label"), _INT64))
        labels = _field(1, "labels") + _field(2, json.dumps(list(model.labels)))
        texts = b"" if model.encoder is None else _field(8, _field(1, _ML) + _field(2, _ML_OPSET))
        return (
            _field(1, _IR_VERSION)
            + _field(2, "confrere")
            + _field(7, graph)
            + _field(8, _field(1, "") + _field(2, _OPSET))
            + texts
            + _field(14, labels)
        )


def _value(name: str, element: int, *columns: int) -> bytes:
    """Return an input or output of any number of rows."""
    shape = _field(1, _field(2, "n")) + b"".join(_field(1, _field(1, size)) for size in columns)
    return _field(1, name) + _field(2, _field(1, _field(1, element) + _field(2, shape)))


def _field(number: int, value: int | str | bytes) -> bytes:
    """Return one field of a protocol buffer: a whole number, or bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


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
    low, high = (_one(graph, end) for end in column.clip)
    u = x
    if column.log:
        above = graph.add("Sub", graph.add("Clip", x, low, high), low)
        u = graph.add("Log", graph.add("Add", above, _one(graph, 1.0)))
    u = _nearest(graph, u, np.array(column.grid), float(column.steps))
    if not column.log:
        u = graph.add("Clip", u, low, high)
    basis = _hats(graph, u, column.knots) if column.knots else u
    centred = graph.add("Sub", basis, graph.constant(np.array([column.centre])))
    scaled = graph.add("Div", centred, graph.constant(np.array([column.scale])))
    return _with_missing(graph, column, absent, scaled)


def _nearest(graph: Graph, u: str, grid: np.ndarray, steps: float) -> str:
    """Add what moves a number to the nearest point."""
    widths, zero, one = graph.constant(np.diff(grid)[None]), _one(graph, 0.0), _one(graph, 1.0)
    shares = graph.add("Div", graph.add("Sub", u, graph.constant(grid[None, :-1])), widths)
    inside = graph.add("Mul", graph.add("Clip", shares, zero, one), _one(graph, steps))
    whole = graph.add("Div", graph.add("Round", inside), _one(graph, steps))
    axis = graph.constant(np.array([1], dtype=np.int64))
    moved = graph.add("ReduceSum", graph.add("Mul", whole, widths), axis)
    return graph.add("Add", moved, _one(graph, float(grid[0])))


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
