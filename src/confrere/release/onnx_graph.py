"""The plain model as an ONNX graph in double precision, built by hand from standard operators.

Input ``X`` of shape (n, d); outputs ``decision``, ``probability`` of shape (n, K) and ``label``,
the position in ``classes``, which the model's metadata hold as JSON. Needs the ``onnx`` extra.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from confrere.errors import InvalidParameter
from confrere.release.plain import PlainModel
from confrere.release.predictors import Clip, Linear, Stack

#: Old enough for every runtime in use, new enough for double precision everywhere.
_OPSET = 13
_IR_VERSION = 7


def onnx_bytes(model: PlainModel) -> bytes:
    """Return the serialised graph; equal models give equal bytes.

    Raises
    ------
    InvalidParameter
        If the extra is not installed.
    """
    graph = _Graph()
    center, scale = np.asarray(model.to_dict()["center"]), np.asarray(model.to_dict()["scale"])
    rows = "X"
    if np.any(center != 0):
        rows = graph.add("Sub", rows, graph.constant(center))
    if np.any(scale != 1):
        rows = graph.add("Div", rows, graph.constant(scale))
    if model.clip is not None:
        rows = _clipped(graph, rows, model.clip)
    if isinstance(model.predictor, Linear):
        _linear(graph, rows, model.predictor)
    else:
        _stack(graph, rows, model.predictor)
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


def _linear(graph: _Graph, rows: str, predictor: Linear) -> None:
    coef = np.atleast_2d(predictor.coef)
    scores = graph.gemm(rows, coef, np.atleast_1d(predictor.intercept), "decision")
    if predictor.coef.ndim == 1:
        _two_classes(graph, graph.add("Sigmoid", scores), scores)
    else:
        graph.add("Softmax", scores, output="probability", axis=1)
        graph.add("ArgMax", scores, output="label", axis=1, keepdims=0)


def _stack(graph: _Graph, rows: str, predictor: Stack) -> None:
    low = []
    for group in predictor.groups:
        positions = graph.constant(np.array(group.features, dtype=np.int64))
        part = graph.add("Gather", rows, positions, axis=1)
        if group.clip is not None:
            part = _clipped(graph, part, group.clip)
        low.append(graph.gemm(part, group.coef[None, :], np.array([group.intercept])))
    joined = graph.add("Concat", *low, axis=1)
    if predictor.combine == "vote":
        meta = graph.add("Sign", joined)
    else:
        half = graph.add("Div", joined, graph.constant(np.array(2.0)))
        meta = graph.add("Tanh", half)
        meta = graph.add("Mul", meta, graph.constant(np.array(predictor.meta_scale)))
    intercept = np.array([predictor.intercept])
    scores = graph.gemm(meta, predictor.coef[None, :], intercept, "decision")
    if predictor.combine == "vote":
        share = graph.add("Div", scores, graph.constant(np.array(predictor.total_weight)))
        positive = graph.add("Add", share, graph.constant(np.array(1.0)))
        positive = graph.add("Div", positive, graph.constant(np.array(2.0)))
    else:
        positive = graph.add("Sigmoid", scores)
    _two_classes(graph, positive, scores)


def _two_classes(graph: _Graph, positive: str, scores: str) -> None:
    negative = graph.add("Sub", graph.constant(np.array(1.0)), positive)
    graph.add("Concat", negative, positive, output="probability", axis=1)
    above = graph.add("Greater", scores, graph.constant(np.array(0.0)))
    column = graph.add("Cast", above, to=7)  # INT64
    graph.add("Squeeze", column, graph.constant(np.array([1], dtype=np.int64)), output="label")


class _Graph:
    """Nodes and constants in the order they are added, with short numbered names."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise InvalidParameter(
                "onnx: the extra is not installed; pip install 'confrere[onnx]'."
            ) from error
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}

    def constant(self, value: np.ndarray[Any, Any]) -> str:
        """Return the name of a constant; equal ones are kept once."""
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            name = f"c{len(self._constants)}"
            self._constants[key] = self._onnx.numpy_helper.from_array(value, name)
        return str(self._constants[key].name)

    def add(self, operator: str, *inputs: str, output: str | None = None, **options: Any) -> str:
        """Add one operator and return the name of what it computes."""
        name = output or f"n{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [name], **options))
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

    def serialised(self, model: PlainModel) -> bytes:
        """Return the whole model's bytes."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        n_classes = len(model.classes)
        scores = n_classes if np.ndim(model.predictor.coef) == 2 else 1
        graph = helper.make_graph(
            self._nodes,
            "confrere",
            [helper.make_tensor_value_info("X", types.DOUBLE, ["n", len(model.features)])],
            [
                helper.make_tensor_value_info("decision", types.DOUBLE, ["n", scores]),
                helper.make_tensor_value_info("probability", types.DOUBLE, ["n", n_classes]),
                helper.make_tensor_value_info("label", types.INT64, ["n"]),
            ],
            list(self._constants.values()),
        )
        proto = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
            producer_name="confrere",
        )
        helper.set_model_props(proto, {"classes": json.dumps(list(model.classes))})
        self._onnx.checker.check_model(proto, full_check=True)
        return bytes(proto.SerializeToString(deterministic=True))
