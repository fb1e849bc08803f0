"""A model as an ONNX graph in double precision, built by hand from standard operators.

Inputs are the raw columns of a model with an encoder, each of shape (n, 1) and under its name, or
else ``X`` of shape (n, d). Outputs are ``decision``, ``probability`` of shape (n, K) and ``label``,
the position in ``labels``, which the model's metadata hold as JSON. Needs the extra ``onnx``.

The encoder is part of the graph: one input per raw column. Numbers are doubles, NaN where one is
missing, and dates numbers in their declared unit; every other cell is a string, empty where it is
missing, without spaces around it and in a spelling that the encoding lists. A graph cannot refuse a
row: what the encoder refuses becomes NaN, and so does the answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from confrere.data.cells import MISSING, meaning
from confrere.data.features import Told
from confrere.extras import extra
from confrere.model.models import LARGEST, Linear, LowLevelModel, Model, Stack

#: Old enough for every runtime in use, new enough for double precision everywhere.
_OPSET = 13
_IR_VERSION = 7
_DOUBLE, _INT64, _STRING = 11, 7, 8
#: Operators on strings have a set of their own.
_ML, _ML_OPSET = "ai.onnx.ml", 2
#: The axis of columns.
_COLUMNS = np.array([1], dtype=np.int64)


def onnx_bytes(model: Model) -> bytes:
    """Return the serialised graph; equal models give equal bytes, on every machine and day."""
    graph = Graph(() if model.encoder is None else model.encoder.schema.columns)
    given = "X" if model.encoder is None else encoded_rows(graph, model.encoder.encoding)
    rows = graph.add("Clip", given, -LARGEST, LARGEST)
    share = None
    if isinstance(model, Linear):
        scores = graph.add("Gemm", rows, model.coef, model.intercept, transB=1)
    else:
        assert isinstance(model, Stack)
        scores = _stacked(graph, rows, model)
        share = model.total_weight if model.combine == "vote" else None
    scores = graph.add("Mul", scores, model.link.slope)
    scores = graph.add("Add", scores, model.link.shift, output=graph.output("decision"))
    if model.classes:
        _answers(graph, scores, len(model.classes), share, model.link.cap)
    else:
        known = {"rates": ["Exp"], "hazards": ["Exp", "Neg", "Exp", "Neg"]}
        for operator in known.get(model.link.ratios, []):
            scores = graph.add(operator, scores)
        found = graph.add("Add", scores, float(model.link.ratios == "hazards"))
        graph.add("Clip", found, model.link.low, model.link.high, output=graph.output("predicted"))
    return graph.serialised(model)


def _stacked(graph: Graph, rows: str, model: Stack) -> str:
    """Add the weighted sums over what the groups say, one per class of more than two."""
    low = [_low(graph, rows, group) for group in model.groups]
    if len(model.classes) == 2:
        meta = _meta(graph, graph.add("Concat", *low, axis=1), model)
        high, constant = model.coef[None, :], np.array([model.intercept])
        return graph.add("Gemm", meta, high, constant, transB=1)
    total = ""
    for scores, weight in zip(low, model.coef, strict=True):
        part = graph.add("Mul", _meta(graph, scores, model), float(weight))
        total = graph.add("Add", total, part) if total else part
    return total


def _low(graph: Graph, rows: str, group: LowLevelModel) -> str:
    """Add a group's sharpened scores."""
    part = graph.add("Gather", rows, group.features.astype(np.int64), axis=1)
    coef, constant = np.atleast_2d(group.coef), np.atleast_1d(group.intercept)
    plain = graph.add("Gemm", part, coef, constant, transB=1)
    return graph.add("Mul", graph.add("Sub", plain, group.baseline), group.sharpness)


def _meta(graph: Graph, scores: str, model: Stack) -> str:
    """Add what the high level reads of scores: ``tanh(z / 2) / sqrt(groups)``, votes, or all."""
    if model.combine == "stack":
        squeezed = graph.add("Tanh", graph.add("Div", scores, 2.0))
        return graph.add("Div", squeezed, math.sqrt(len(model.groups)))
    if model.combine == "alone":
        return scores
    if len(model.classes) == 2:
        return graph.add("Sign", scores)
    best = graph.add("ArgMax", scores, axis=1, keepdims=1)
    chosen = graph.add("Equal", best, np.arange(len(model.classes), dtype=np.int64)[None, :])
    # Scores times zero: what is undefined stays so.
    nothing = graph.add("Mul", scores, 0.0)
    return graph.add("Add", graph.add("Cast", chosen, to=_DOUBLE), nothing)


def _answers(graph: Graph, scores: str, n_classes: int, votes: float | None, cap: float) -> None:
    """Add probabilities, of votes their shares; and labels: -1 where scores are undefined."""
    named = graph.output("probability")
    if n_classes == 2:
        both = graph.add("Concat", graph.add("Neg", scores), scores, axis=1)
        if votes is None:
            sides = graph.add("Min", graph.add("Sigmoid", both), cap)
            graph.add("Div", sides, graph.add("ReduceSum", sides, _COLUMNS), output=named)
        else:
            shares = graph.add("Add", graph.add("Div", both, votes), 1.0)
            graph.add("Div", shares, 2.0, output=named)
        above = graph.add("Cast", graph.add("Greater", scores, 0.0), to=_INT64)
        position = graph.add("Squeeze", above, _COLUMNS)
    else:
        if votes is None:
            graph.add("Softmax", scores, output=named, axis=1)
        else:
            graph.add("Div", scores, votes, output=named)
        position = graph.add("ArgMax", scores, axis=1, keepdims=0)
    undefined = graph.add("IsNaN", graph.add("ReduceSum", scores, _COLUMNS, keepdims=0))
    none = np.array(-1, dtype=np.int64)
    graph.add("Where", undefined, none, position, output=graph.output("label"))


class Graph:
    """Nodes and constants in the order they are added, with short numbered names.

    None of them is the name of a raw column.
    """

    def __init__(self, columns: Sequence[str] = ()) -> None:
        self._prefix = ""
        while any(name.startswith(self._prefix) for name in columns) and columns:
            self._prefix += "_"
        taken = {"decision", "probability", "label", "predicted"} & {*columns}
        self._outputs = "predicted_" if taken else ""
        while any(name.startswith(self._outputs) for name in columns) and taken:
            self._outputs = f"_{self._outputs}"
        self._onnx = extra("onnx", "onnx")
        self._nodes: list[object] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._tensors: list[object] = []

    def constant(self, number: float | np.ndarray[Any, Any]) -> str:
        """Return the name of a constant; equal ones are kept once."""
        value = np.asarray(number)
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = f"{self._prefix}c{len(self._constants)}"
            made = self._onnx.numpy_helper.from_array(value, self._constants[key])
            self._tensors.append(made)
        return self._constants[key]

    def output(self, name: str) -> str:
        """Return what an output is called: a word that is no column's name."""
        return f"{self._outputs}{name}"

    def add(
        self,
        operator: str,
        *inputs: str | float | np.ndarray[Any, Any],
        output: str | None = None,
        **options: int,
    ) -> str:
        """Add one operator and return the name of what it computes; numbers become constants."""
        name = output or f"{self._prefix}n{len(self._nodes)}"
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        self._nodes.append(self._onnx.helper.make_node(operator, names, [name], **options))
        return name

    def look_up(self, column: str, places: Mapping[str, int], otherwise: int) -> str:
        """Add the place of every text of a column."""
        name = f"{self._prefix}n{len(self._nodes)}"
        told = {"keys_strings": [*places], "values_int64s": [*places.values()]}
        told |= {"default_int64": otherwise, "domain": _ML}
        self._nodes.append(self._onnx.helper.make_node("LabelEncoder", [column], [name], **told))
        return name

    def serialised(self, model: Model) -> bytes:
        """Return the whole model's bytes."""
        helper, n_classes = self._onnx.helper, len(model.classes)

        def named(name: str, element: int, *columns: int) -> object:
            return helper.make_tensor_value_info(name, element, ["n", *columns])

        given = [named("X", _DOUBLE, len(model.features))]
        if model.encoder is not None:
            columns = model.encoder.encoding["columns"]
            kinds = (_DOUBLE if one["kind"] == "number" else _STRING for one in columns)
            given = [named(one["column"], k, 1) for one, k in zip(columns, kinds, strict=True)]
        found = [named(self.output("decision"), _DOUBLE, n_classes if n_classes > 2 else 1)]
        if n_classes:
            found += [named(self.output("probability"), _DOUBLE, n_classes)]
            found += [named(self.output("label"), _INT64)]
        found += [named(self.output("predicted"), _DOUBLE, 1)] * (not n_classes)
        graph = helper.make_graph(self._nodes, "confrere", given, found, self._tensors)
        sets = {"": _OPSET} | ({} if model.encoder is None else {_ML: _ML_OPSET})
        opsets = [helper.make_opsetid(domain, version) for domain, version in sets.items()]
        head = {"ir_version": _IR_VERSION, "producer_name": "confrere", "opset_imports": opsets}
        made = helper.make_model(graph, **head)
        helper.set_model_props(made, {"labels": json.dumps(list(model.labels))})
        return bytes(made.SerializeToString(deterministic=True))


def encoded_rows(graph: Graph, encoding: Told) -> str:
    """Add what turns raw columns into bounded rows."""
    parts = []
    for column in encoding["columns"]:
        if column["kind"] == "number":
            parts += _number(graph, column)
        else:
            parts += _text(graph, column, encoding["na"])
    rows = graph.add("Concat", *parts, axis=1)
    if encoding["weights"] is not None:
        rows = graph.add("Mul", rows, np.array([encoding["weights"]]))
    squares = graph.add("Mul", rows, rows)
    norms = graph.add("Sqrt", graph.add("ReduceSum", squares, _COLUMNS))
    return graph.add("Div", rows, graph.add("Max", norms, encoding["norm"]))


def _row(column: Told, cell: str) -> np.ndarray:
    """Return what a cell that is missing or unknown becomes; NaN where it is refused."""
    width = len(column["centre"]) + len(column["present"])
    return np.array([(math.nan,) * width if column[cell] is None else column[cell]])


def _number(graph: Graph, column: Told) -> list[str]:
    x = column["column"]
    absent = graph.add("IsNaN", x)
    for token in column["na"]:
        number = meaning(token)
        if isinstance(number, float):
            absent = graph.add("Or", absent, graph.add("Equal", x, number))
    low, high = column["clip"]
    u = x
    if column["log"]:
        above = graph.add("Sub", graph.add("Clip", x, low, high), low)
        u = graph.add("Log", graph.add("Add", above, 1.0))
    u = _nearest(graph, u, np.array(column["grid"]), float(column["steps"]))
    if not column["log"]:
        u = graph.add("Clip", u, low, high)
    basis = _hats(graph, u, column["knots"]) if column["knots"] else u
    scaled = _scaled(graph, column, basis)
    return _with_missing(graph, column, absent, scaled)


def _scaled(graph: Graph, column: Told, basis: str) -> str:
    centred = graph.add("Sub", basis, np.array([column["centre"]]))
    return graph.add("Div", centred, np.array([column["scale"]]))


def _nearest(graph: Graph, u: str, grid: np.ndarray, steps: float) -> str:
    """Add what moves a number to the nearest point."""
    widths = np.diff(grid)[None]
    shares = graph.add("Div", graph.add("Sub", u, grid[None, :-1]), widths)
    inside = graph.add("Mul", graph.add("Clip", shares, 0.0, 1.0), steps)
    whole = graph.add("Div", graph.add("Round", inside), steps)
    moved = graph.add("ReduceSum", graph.add("Mul", whole, widths), _COLUMNS)
    return graph.add("Add", moved, float(grid[0]))


def _hats(graph: Graph, u: str, knots: Sequence[float]) -> str:
    hats = []
    for j, knot in enumerate(knots):
        sides: list[str | float] = [1.0]
        if j > 0:
            sides.append(graph.add("Div", graph.add("Sub", u, knots[j - 1]), knot - knots[j - 1]))
        if j + 1 < len(knots):
            sides.append(graph.add("Div", graph.add("Sub", knots[j + 1], u), knots[j + 1] - knot))
        hats.append(graph.add("Max", graph.add("Min", *sides), 0.0))
    return graph.add("Concat", *hats, axis=1)


def _with_missing(graph: Graph, column: Told, absent: str, scaled: str) -> list[str]:
    """Return the encoded parts: those of the value, then the indicator of a missing one."""
    own = len(column["centre"])
    missing = _row(column, "missing")
    parts = [graph.add("Where", absent, missing[:, :own], scaled)]
    if column["present"]:
        parts.append(graph.add("Where", absent, missing[:, own:], np.array([column["present"]])))
    return parts


def _text(graph: Graph, column: Told, na: Sequence[str]) -> list[str]:
    known = {**dict.fromkeys(na, MISSING), **column["codes"]}
    count = 1 + max(column["codes"].values())
    unknown = count + 1
    codes = {text: count if place == MISSING else place for text, place in known.items()}
    place = graph.look_up(column["column"], codes, unknown)
    if column["kind"] == "one-hot":
        places = np.arange(count, dtype=np.int64)[None, :]
        basis = graph.add("Cast", graph.add("Equal", place, places), to=_DOUBLE)
    else:
        # The last two are of cells that are missing or unknown; what they get is replaced.
        basis = graph.add("Gather", np.array([*column["scores"], 0.0, 0.0]), place, axis=0)
    elsewhere = _row(column, "unknown")[:, : len(column["centre"])]
    strange = graph.add("Equal", place, np.array(unknown, dtype=np.int64))
    scaled = graph.add("Where", strange, elsewhere, _scaled(graph, column, basis))
    absent = graph.add("Equal", place, np.array(count, dtype=np.int64))
    return _with_missing(graph, column, absent, scaled)
