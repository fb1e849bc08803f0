"""A model as an ONNX graph in double precision, built by hand from standard operators.

Input ``X`` of shape (n, d); outputs ``decision``, ``probability`` of shape (n, K) and ``label``,
the position in ``classes``, which the model's metadata hold as JSON. The bytes are written here,
without a library whose next version would write others: whoever has the model makes them again
and compares.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from confrere.model.models import Linear, Model, Stack
from confrere.model.scoring import LARGEST, Clip

#: Old enough for every runtime in use, new enough for double precision everywhere.
_OPSET = 13
_IR_VERSION = 7
_DOUBLE, _INT64, _INTEGER_ATTRIBUTE = 11, 7, 2
_TYPES = {np.dtype(np.float64): _DOUBLE, np.dtype(np.int64): _INT64}


def onnx_bytes(model: Model) -> bytes:
    """Return the serialised graph; equal models give equal bytes, on every machine and day."""
    graph = _Graph()
    bound = np.array(LARGEST)
    rows = graph.add("Clip", "X", graph.constant(-bound), graph.constant(bound))
    if model.clip is not None:
        rows = _clipped(graph, rows, model.clip)
    if isinstance(model, Linear):
        _linear(graph, rows, model)
    else:
        assert isinstance(model, Stack)
        _stack(graph, rows, model)
    return graph.serialised(model)


def _clipped(graph: _Graph, rows: str, clip: Clip) -> str:
    """Add ``u * (radius / max(bound, ||u||))``."""
    sizes = graph.add("Mul", rows, rows) if clip.norm == 2 else graph.add("Abs", rows)
    norms = graph.add("ReduceSum", sizes, graph.constant(np.array([1], dtype=np.int64)))
    if clip.norm == 2:
        norms = graph.add("Sqrt", norms)
    longest = graph.add("Max", norms, graph.constant(np.array(clip.bound)))
    factor = graph.add("Div", graph.constant(np.array(clip.radius)), longest)
    return graph.add("Mul", rows, factor)


def _linear(graph: _Graph, rows: str, model: Linear) -> None:
    scores = graph.gemm(rows, model.coef, model.intercept, "decision")
    if len(model.coef) == 1:
        _two_classes(graph, graph.add("Sigmoid", scores), scores)
    else:
        graph.add("Softmax", scores, output="probability", axis=1)
        graph.add("ArgMax", scores, output="label", axis=1, keepdims=0)


def _stack(graph: _Graph, rows: str, model: Stack) -> None:
    low = []
    for group in model.groups:
        part = graph.add("Gather", rows, graph.constant(group.features.astype(np.int64)), axis=1)
        if group.clip is not None:
            part = _clipped(graph, part, group.clip)
        plain = graph.gemm(part, group.coef[None, :], np.array([group.intercept]))
        above = graph.add("Sub", plain, graph.constant(np.array(group.baseline)))
        low.append(graph.add("Mul", above, graph.constant(np.array(group.sharpness))))
    meta = graph.add("Concat", *low, axis=1)
    if model.combine == "vote":
        meta = graph.add("Sign", meta)
    elif model.combine == "stack":
        meta = graph.add("Tanh", graph.add("Div", meta, graph.constant(np.array(2.0))))
        meta = graph.add("Div", meta, graph.constant(np.array(math.sqrt(len(low)))))
    scores = graph.gemm(meta, model.coef[None, :], np.array([model.intercept]), "decision")
    if model.combine == "vote":
        share = graph.add("Div", scores, graph.constant(np.array(model.total_weight)))
        positive = graph.add("Add", share, graph.constant(np.array(1.0)))
        positive = graph.add("Div", positive, graph.constant(np.array(2.0)))
    else:
        positive = graph.add("Sigmoid", scores)
    _two_classes(graph, positive, scores)


def _two_classes(graph: _Graph, positive: str, scores: str) -> None:
    negative = graph.add("Sub", graph.constant(np.array(1.0)), positive)
    graph.add("Concat", negative, positive, output="probability", axis=1)
    above = graph.add("Greater", scores, graph.constant(np.array(0.0)))
    column = graph.add("Cast", above, to=_INT64)
    graph.add("Squeeze", column, graph.constant(np.array([1], dtype=np.int64)), output="label")


class _Graph:
    """Nodes and constants in the order they are added, with short numbered names."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._tensors: list[bytes] = []

    def constant(self, value: np.ndarray[Any, Any]) -> str:
        """Return the name of a constant; equal ones are kept once."""
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = f"c{len(self._constants)}"
            self._tensors.append(
                b"".join(_field(1, size) for size in value.shape)
                + _field(2, _TYPES[value.dtype])
                + _field(8, self._constants[key])
                + _field(9, value.astype(value.dtype.newbyteorder("<")).tobytes())
            )
        return self._constants[key]

    def add(self, operator: str, *inputs: str, output: str | None = None, **options: int) -> str:
        """Add one operator and return the name of what it computes."""
        name = output or f"n{len(self._nodes)}"
        node = b"".join(_field(1, one) for one in inputs) + _field(2, name) + _field(4, operator)
        for option, value in options.items():
            attribute = _field(1, option) + _field(3, value) + _field(20, _INTEGER_ATTRIBUTE)
            node += _field(5, attribute)
        self._nodes.append(node)
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
        graph += _field(11, _value("X", _DOUBLE, len(model.features)))
        graph += _field(12, _value("decision", _DOUBLE, n_scores))
        graph += _field(12, _value("probability", _DOUBLE, n_classes))
        graph += _field(12, _value("label", _INT64))
        classes = _field(1, "classes") + _field(2, json.dumps(list(model.classes)))
        return (
            _field(1, _IR_VERSION)
            + _field(2, "confrere")
            + _field(7, graph)
            + _field(8, _field(1, "") + _field(2, _OPSET))
            + _field(14, classes)
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
