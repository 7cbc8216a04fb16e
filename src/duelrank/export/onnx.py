"""Export to ONNX: a graph from raw features to scores that includes the representation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.core.errors import MissingExtra
from duelrank.export.base import Format, register_format
from duelrank.export.decomposition import (
    Inputs,
    Term,
    Unrepresentable,
    check_single_precision,
    inputs_of,
    pieces_of,
    terms_of,
)
from duelrank.export.model import LinearModel, Model, ScorerModel
from duelrank.representation import QueryRanks
from duelrank.representation.fixed import write_representation

ENGINE = "ONNX"
OPSET = 13  # from 2020, supported by all runtimes in use
IR_VERSION = 7


@register_format("onnx")
@dataclass(frozen=True)
class OnnxGraph(Format):
    """ONNX, float32 (N, features) to (N, 1).

    If the model depends on the range or the ranks within a query, the N documents of a batch must be those of one query.

    Examples
    --------
    >>> import onnx
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> graph = onnx.load_from_string(export(model, "onnx")).graph
    >>> graph.input[0].type.tensor_type.shape.dim[1].dim_value
    2
    """

    media_type = "application/octet-stream"
    suffix = ".onnx"
    is_text = False
    scorers = True

    def supports(self, model: LinearModel) -> bool:
        """Return whether there is a graph for models with this representation; onnx is not imported for that."""
        try:
            _graph(model)
        except Unrepresentable:
            return False
        return True

    def write(self, model: Model) -> bytes:
        """Return a graph from ``features``, float32 (N, n_features), to ``scores``, float32 (N, 1)."""
        try:
            import onnx
        except ImportError:
            raise MissingExtra("exporting to ONNX needs onnx: pip install 'duelrank[onnx]'") from None
        graph = _graph(model)
        make = onnx.helper
        built = make.make_model(
            make.make_graph(
                [make.make_node(kind, inputs, [output], **more) for kind, inputs, output, more in graph.nodes],
                model.versioned_name,
                [make.make_tensor_value_info("features", onnx.TensorProto.FLOAT, ["N", len(model.features)])],
                [make.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["N", 1])],
                [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
            ),
            producer_name="duelrank",
            opset_imports=[make.make_opsetid("", OPSET)],
        )
        built.ir_version = IR_VERSION
        make.set_model_props(built, _about(model))
        onnx.checker.check_model(built, full_check=True)
        content: bytes = built.SerializeToString()
        return content


@dataclass
class _Graph:
    """The nodes of a graph (operator, inputs, output, attributes) and its constants."""

    nodes: list[tuple[str, list[str], str, dict[str, Any]]] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)

    def add(self, operator: str, inputs: str, output: str, **attributes: Any) -> str:
        self.nodes.append((operator, inputs.split(), output, attributes))
        return output

    def numbers(self, **named: ArrayLike) -> None:
        """Add constants in single precision."""
        self.constants |= {name: np.asarray(values, np.float64).astype(np.float32) for name, values in named.items()}


def _graph(model: Model) -> _Graph:
    graph, inputs = _Graph(), inputs_of(model, ENGINE, within_query=True, averages=True)
    value = "features" if inputs.missing is None else _filled(graph, inputs.missing.numbers(len(model.features)))
    for stage in inputs.within:
        value = _ranks(graph, value) if isinstance(stage, QueryRanks) else _places(graph, value)
    if isinstance(model, ScorerModel):
        _scorer(graph, model, inputs, value)
    elif isinstance(model, LinearModel) and model.is_linear:
        _linear(graph, model, inputs, value)
    elif isinstance(model, LinearModel):
        _curves(graph, model, inputs, value)
    return graph


def _scorer(graph: _Graph, model: ScorerModel, inputs: Inputs, value: str) -> None:
    """Add the nodes of a scorer, after the scaling; a feature that was constant becomes 0."""
    ones = np.ones(len(model.features))
    units = terms_of(LinearModel(model.name, 0, model.features, ones, model.representation, model.knots), inputs)
    check_single_precision([*units, Term("", float(np.abs(model.weights).max()), None)], ENGINE)
    value = _scaled(graph, units, inputs, value)
    if not all(each.weight for each in units):
        graph.numbers(varies=[each.weight for each in units])
        value = graph.add("Mul", f"{value} varies", "varying")
    graph.add("Identity", model.known_scorer.onnx(graph, model.weights, len(model.features), value), "scores")


def _linear(graph: _Graph, model: LinearModel, inputs: Inputs, value: str) -> None:
    """Add the nodes of a linear model: scaling and weights."""
    summands = terms_of(model, inputs)
    check_single_precision(summands, ENGINE)
    value = _scaled(graph, summands, inputs, value)
    graph.numbers(weights=np.reshape([each.weight for each in summands], (-1, 1)))
    graph.add("MatMul", f"{value} weights", "scores")


def _scaled(graph: _Graph, summands: Sequence[Term], inputs: Inputs, value: str) -> str:
    """Add the fixed scalings, if there are any."""
    if not inputs.scales:
        return value
    graph.numbers(
        shift=[each.scaling.shift if each.scaling else 0.0 for each in summands],
        scale=[each.scaling.scale if each.scaling else 1.0 for each in summands],
    )
    return graph.add("Div", graph.add("Sub", f"{value} shift", "shifted") + " scale", "scaled")


def _curves(graph: _Graph, model: LinearModel, inputs: Inputs, value: str) -> None:
    """Add the nodes of curves: for each piece the value of its feature and the share of its rise, then the weighted sum."""
    curves = pieces_of(model, inputs, ENGINE, np.float32)
    feature = np.repeat(np.arange(len(curves)), [len(pieces) for pieces in curves])
    low, high, rise, step = (
        np.concatenate([getattr(pieces, name) for pieces in curves]) for name in ("low", "high", "rise", "is_step")
    )
    check_single_precision([Term("", each, None) for each in rise.tolist()] or [Term("", 0.0, None)], ENGINE)
    parts = []
    if not step.all():
        graph.constants["ramp_features"] = feature[~step]
        graph.numbers(low=low[~step], width=_width(low[~step], high[~step]), zero=0.0, one=1.0)
        graph.numbers(ramp_weights=rise[~step, None])
        graph.add("Gather", f"{value} ramp_features", "ramp_values", axis=1)
        graph.add("Sub", "ramp_values low", "above")
        graph.add("Div", "above width", "share")
        graph.add("Clip", "share zero one", "ramps")
        parts.append(graph.add("MatMul", "ramps ramp_weights", "ramp_scores"))
    if step.any():
        graph.constants["step_features"] = feature[step]
        graph.numbers(threshold=low[step], step_weights=rise[step, None])
        graph.add("Gather", f"{value} step_features", "step_values", axis=1)
        graph.add("Greater", "step_values threshold", "behind")
        graph.add("Cast", "behind", "steps", to=1)  # float32
        parts.append(graph.add("MatMul", "steps step_weights", "step_scores"))
    if not parts:
        graph.numbers(nothing=np.zeros((len(model.features), 1)))
        parts.append(graph.add("MatMul", f"{value} nothing", "level_scores"))
    graph.add("Sum", " ".join(parts), "scores")


def _width(low: Any, high: Any) -> Any:
    """Return the widths as single precision computes them, so that a ramp is exactly 1 at its end."""
    return high.astype(np.float32) - low.astype(np.float32)


def _places(graph: _Graph, value: str) -> str:
    """Add (x − least) / (largest − least) over the batch; a feature with equal values is divided by 1, so it becomes 0."""
    graph.numbers(one=1.0, zero=0.0)
    graph.add("ReduceMin", value, "least", axes=[0], keepdims=1)
    graph.add("ReduceMax", value, "largest", axes=[0], keepdims=1)
    graph.add("Sub", "largest least", "span")
    graph.add("Equal", "span zero", "constant")
    graph.add("Where", "constant one span", "divisor")
    graph.add("Sub", f"{value} least", "from_least")
    return graph.add("Div", "from_least divisor", "places")


def _filled(graph: _Graph, numbers: NDArray[np.float64]) -> str:
    """Replace NaN by the number of its feature or, if that is NaN, by the mean of the other values of the batch, 0 without any."""
    graph.numbers(one=1.0, zero=0.0, beyond=np.finfo(np.float32).max, number=np.nan_to_num(numbers))
    graph.constants |= {"rows": np.array([0]), "has_number": ~np.isnan(numbers)}
    graph.add("IsNaN", "features", "is_missing")
    graph.add("Cast", graph.add("Not", "is_missing", "is_known"), "known", to=1)
    graph.add("Max", graph.add("ReduceSum", "known rows", "n_known", keepdims=1) + " one", "n_values")
    graph.add("Div", graph.add("Where", "is_missing zero features", "values") + " n_values", "shares")
    graph.add("ReduceSum", "shares rows", "sum", keepdims=1)
    graph.add("Neg", "beyond", "before")
    graph.add(
        "ReduceMin", graph.add("Where", "is_missing beyond features", "from_below"), "lower", axes=[0], keepdims=1
    )
    graph.add(
        "ReduceMax", graph.add("Where", "is_missing before features", "from_above"), "upper", axes=[0], keepdims=1
    )
    graph.add("Max", graph.add("Min", "sum upper", "capped") + " lower", "within")
    graph.add("Greater", "n_known zero", "any_known")
    graph.add("Where", "any_known within zero", "neutral")
    graph.add("Where", "has_number number neutral", "filling")
    return graph.add("Where", "is_missing filling features", "filled")


def _ranks(graph: _Graph, value: str) -> str:
    """Add (number of smaller values + half of the other equal ones) / (N − 1), by comparing all pairs; 0 for a single document."""
    graph.numbers(one=1.0, half=0.5)
    graph.constants |= {"first": np.array([0]), "second": np.array([1])}
    graph.add("Unsqueeze", f"{value} second", "own")
    graph.add("Unsqueeze", f"{value} first", "others")
    graph.add("Cast", graph.add("Greater", "own others", "is_above"), "above_each", to=1)
    graph.add("Cast", graph.add("GreaterOrEqual", "own others", "is_not_below"), "up_to_each", to=1)
    graph.add("Add", "above_each up_to_each", "twice")
    graph.add("ReduceSum", "twice second", "twice_rank", keepdims=0)
    graph.add("Sub", graph.add("Mul", "twice_rank half", "rank_from_half") + " half", "rank")
    graph.add("Cast", graph.add("Gather", graph.add("Shape", value, "shape") + " first", "size"), "documents", to=1)
    graph.add("Max", graph.add("Sub", "documents one", "last_rank") + " one", "most")
    return graph.add("Div", "rank most", "ranks")


def _about(model: Model) -> dict[str, str]:
    return {
        "name": model.name,
        "version": str(model.version),
        "features": json.dumps(model.features),
        "representation": json.dumps(write_representation(model.representation, model.features)),
    }
