"""ONNX: raw features in, scores out, the normalisation inside."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from duelrank.errors import MissingExtra
from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel
from duelrank.export.terms import Term, check_single_precision, terms
from duelrank.normalisation import Fixed, PerQuery

__all__ = ["OnnxGraph"]

OPSET = 13  # of 2020: what every runtime in use has
IR_VERSION = 7


@register_format("onnx")
@dataclass(frozen=True)
class OnnxGraph(Format):
    """ONNX, float32 (N, features) to (N, 1).

    A model that is normalised per query takes the N documents of a batch for those of one query.
    """

    media_type = "application/octet-stream"
    suffix = ".onnx"
    is_text = False

    def write(self, model: LinearModel) -> bytes:
        """Return a graph from ``features``, float32 (N, n_features), to ``scores``, float32 (N, 1)."""
        return _graph(model)


def _graph(model: LinearModel) -> bytes:
    try:
        import onnx
    except ImportError:
        raise MissingExtra("exporting to ONNX needs onnx: pip install 'duelrank[onnx]'") from None
    nodes, constants, weights = _normalise(model)
    make = onnx.helper
    nodes.append(("MatMul", ["normalised", "weights"], "scores", {}))
    constants["weights"] = _float32(np.reshape(weights, (-1, 1)))
    if all(output != "normalised" for _, _, output, _ in nodes):
        nodes.insert(0, ("Identity", ["features"], "normalised", {}))
    graph = make.make_graph(
        [make.make_node(kind, inputs, [output], **attributes) for kind, inputs, output, attributes in nodes],
        model.versioned_name,
        [make.make_tensor_value_info("features", onnx.TensorProto.FLOAT, ["N", len(model.features)])],
        [make.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["N", 1])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    built = make.make_model(graph, producer_name="duelrank", opset_imports=[make.make_opsetid("", OPSET)])
    built.ir_version = IR_VERSION
    make.set_model_props(built, _about(model))
    onnx.checker.check_model(built, full_check=True)
    content: bytes = built.SerializeToString()
    return content


_Node = tuple[str, list[str], str, dict[str, Any]]  # operator, inputs, output, attributes


def _normalise(model: LinearModel) -> tuple[list[_Node], dict[str, Any], ArrayLike]:
    """Return the nodes that compute "normalised", their constants, and the weights that go with them."""
    if isinstance(model.normalisation, PerQuery):
        check_single_precision([Term("", weight, None) for weight in model.weights.tolist()], "ONNX")
        return _per_query(), {"one": _float32([1.0]), "zero": _float32([0.0])}, model.weights
    summands = terms(model, "ONNX")
    check_single_precision(summands, "ONNX")
    weights = [each.weight for each in summands]
    if not isinstance(model.normalisation, Fixed):
        return [], {}, weights
    nodes: list[_Node] = [
        ("Sub", ["features", "shift"], "shifted", {}),
        ("Div", ["shifted", "scale"], "normalised", {}),
    ]
    scales = [each.scaling.scale if each.scaling else 1.0 for each in summands]
    shifts = [each.scaling.shift if each.scaling else 0.0 for each in summands]
    return nodes, {"shift": _float32(shifts), "scale": _float32(scales)}, weights


def _per_query() -> list[_Node]:
    """(x − least) / (largest − least) over the batch; a feature with equal values is divided by 1, so it becomes 0."""
    over_documents = {"axes": [0], "keepdims": 1}
    return [
        ("ReduceMin", ["features"], "least", over_documents),
        ("ReduceMax", ["features"], "largest", over_documents),
        ("Sub", ["largest", "least"], "span", {}),
        ("Equal", ["span", "zero"], "constant", {}),
        ("Where", ["constant", "one", "span"], "divisor", {}),
        ("Sub", ["features", "least"], "shifted", {}),
        ("Div", ["shifted", "divisor"], "normalised", {}),
    ]


def _float32(values: ArrayLike) -> Any:
    return np.asarray(values, np.float64).astype(np.float32)


def _about(model: LinearModel) -> dict[str, str]:
    return {
        "name": model.name,
        "version": str(model.version),
        "features": json.dumps(model.features),
        "normalisation": json.dumps(model.normalisation.as_dict(model.features)),
    }
