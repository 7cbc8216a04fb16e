"""Export to Vespa: a rank profile for a schema, with weights that a request can override."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from duelrank.core.errors import InvalidValue
from duelrank.core.validation import whole_number
from duelrank.export.base import Format, check_names, register_format
from duelrank.export.decomposition import Inputs, Pieces, Unrepresentable, finite, inputs_of, pieces_of, terms_of
from duelrank.export.model import LinearModel
from duelrank.representation import QueryRanks, Scaling, Unscaled

ENGINE = "Vespa"

# A rank feature of Vespa: a name, arguments, and optionally an output; some have no arguments.
_FEATURE = re.compile(r'[A-Za-z_]\w*\([\w ,.*"-]+\)(\.[A-Za-z_][\w.]*)?', re.ASCII)
_BARE = {
    "firstPhase",
    "secondPhase",
    "nativeRank",
    "nativeFieldMatch",
    "nativeAttributeMatch",
    "nativeProximity",
    "now",
}


@dataclass(frozen=True)
class _Feature:
    """A feature: the expression of its value, and its weighted summands."""

    name: str
    identifier: str
    expression: str
    summands: list[tuple[str, float, str]]  # name of the weight, weight, expression with {x} for the (scaled) value

    @property
    def value(self) -> str:
        """The expression of the raw value: a rank feature, or the function that computes it."""
        return self.expression if _is_feature(self.expression) else f"value_{self.identifier}"


@register_format("vespa")
@dataclass(frozen=True)
class Vespa(Format):
    """Vespa, a rank profile.

    A model that depends on the range of values within a query is computed in the global phase, over the hits that are reranked. A
    feature whose name is a rank feature, such as ``bm25(title)``, needs no expression.

    Examples
    --------
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "price"), [0.75, -0.25])
    >>> text = export(model, "vespa", rank_features={"bm25": "bm25(title)", "price": "attribute(price)"}).decode()
    >>> next(line.strip() for line in text.splitlines() if "0.75" in line)
    'query(w_bm25) double: 0.75  # "bm25"'
    """

    media_type = "text/plain"
    suffix = ".profile"

    rank_features: Annotated[
        Mapping[str, str] | None,
        "Rank feature or ranking expression that computes a feature.",
        "price=attribute(price)",
    ] = None
    weights: Annotated[
        Literal["inputs", "constants"], "Write the weights as inputs, which a request can override, or as constants."
    ] = "inputs"
    rerank_count: Annotated[
        int, "Number of hits whose values are scaled together, if the model depends on the range within a query."
    ] = 100

    def write(self, model: LinearModel) -> str:
        """Return the text of a profile."""
        if self.weights not in ("inputs", "constants"):
            raise InvalidValue(f"weights must be 'inputs' or 'constants', got {self.weights!r}")
        whole_number("rerank_count", self.rerank_count)
        inputs = inputs_of(model, ENGINE, within_query=True)
        if any(isinstance(stage, QueryRanks) for stage in inputs.within):
            raise Unrepresentable(
                f"{ENGINE} cannot give equal values equal ranks within a query; onnx (one batch = one query) and json support "
                "this model"
            )
        features = _features(model, inputs, self.rank_features or {})
        kind = "query" if self.weights == "inputs" else "constant"
        declared = [
            f"{kind}(w_{name}) double: {_decimal(weight)}  # {json.dumps(each.name)}"
            for each in features
            for name, weight, _ in each.summands
        ]
        blocks = [
            *([_block(self.weights, declared)] if declared else []),
            *(_function(each) for each in features if each.value != each.expression),
            self._phase(features, kind, bool(inputs.within)),
            _block("match-features", dict.fromkeys(each.value for each in features)),
        ]
        # The comment is inside the block, because a file of a profile must begin with the profile.
        about = f"# {model.versioned_name}, written by duelrank"
        lines = "\n".join([about, *blocks]).split("\n")
        return _block(f"rank-profile {_profile(model.name)} inherits default", lines) + "\n"

    def _phase(self, features: Iterable[_Feature], kind: str, per_query: bool) -> str:
        summands = []
        for each in features:
            x = f"normalize_linear({each.value})" if per_query else each.value
            summands += [f"{kind}(w_{name}) * {expression.replace('{x}', x)}" for name, _, expression in each.summands]
        phase = _block("expression", (" +\n".join(summands) or "0.0").split("\n"))
        if per_query:
            phase = f"rerank-count: {self.rerank_count}\n{phase}"
        return _block("global-phase" if per_query else "first-phase", phase.split("\n"))


def _profile(name: str) -> str:
    identifier = _identifier(name)
    return (
        f"duelrank_{identifier}" if identifier in ("default", "unranked") else identifier
    )  # names that Vespa reserves


def _features(model: LinearModel, inputs: Inputs, rank_features: Mapping[str, str]) -> list[_Feature]:
    check_names(rank_features, model)
    identifiers = _unique(map(_identifier, model.features))
    n_features, missing = len(model.features), inputs.missing
    numbers = np.full(n_features, np.nan) if missing is None else missing.numbers(n_features)
    return [
        _Feature(name, identifier, _known(_expression(name, rank_features.get(name)), number), own)
        for name, identifier, number, own in zip(
            model.features, identifiers, numbers.tolist(), _summands(model, inputs, identifiers), strict=True
        )
    ]


def _known(expression: str, number: float) -> str:
    """Return an expression that has a number where the value is missing; none if that is NaN."""
    return expression if math.isnan(number) else f"if (isNan({expression}), {_decimal(number)}, {expression})"


def _summands(model: LinearModel, inputs: Inputs, identifiers: Iterable[str]) -> Iterable[list[tuple[str, float, str]]]:
    """Return the summands of each feature: its value, or the pieces of its curve."""
    if model.is_linear:
        for identifier, term in zip(identifiers, terms_of(model, inputs), strict=True):
            yield [(identifier, term.weight, _scaled(term.scaling or Unscaled()))]
        return
    for identifier, pieces in zip(identifiers, pieces_of(model, inputs, ENGINE, np.float64), strict=True):
        yield [(f"{identifier}_{number}", *each) for number, each in enumerate(_pieces(pieces), 1)]


def _pieces(pieces: Pieces) -> Iterable[tuple[float, str]]:
    """Return the rise of each piece, and the expression of the share of the rise that a value has reached, from 0 to 1."""
    for low, high, rise in zip(pieces.low.tolist(), pieces.high.tolist(), pieces.rise.tolist(), strict=True):
        if low == high:
            yield rise, f"if ({{x}} > {_decimal(low)}, 1.0, 0.0)"
        else:
            yield rise, f"min(max(({_minus('{x}', low)}) / {_decimal(high - low)}, 0.0), 1.0)"


def _expression(name: str, given: str | None) -> str:
    """Return the ranking expression of a feature, checked so that it cannot end the block that contains it."""
    if given is None:
        if not _is_feature(name):
            raise InvalidValue(
                f"{name!r} is not a rank feature of Vespa: give one, such as {name}=attribute({_identifier(name)})"
            )
        return name
    text = given.strip() if isinstance(given, str) else ""
    if not text or not text.isprintable() or any(letter in "{}#" for letter in text) or not _is_balanced(text):
        raise InvalidValue(
            f"the rank feature of {name!r} must be one line without {{ }} or #, with matching brackets, got {given!r}"
        )
    return text


def _is_feature(text: str) -> bool:
    return text in _BARE or (_FEATURE.fullmatch(text) is not None and text.count('"') % 2 == 0)


def _is_balanced(text: str) -> bool:
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return depth == 0


def _identifier(name: str) -> str:
    """Return a similar name of letters, digits and underscores."""
    text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "feature"
    return f"_{text}" if text[0].isdigit() else text


def _unique(identifiers: Iterable[str]) -> list[str]:
    taken: dict[str, None] = {}
    for wanted in identifiers:
        free, number = wanted, 2
        while free in taken:
            free, number = f"{wanted}_{number}", number + 1
        taken[free] = None
    return list(taken)


def _scaled(scaling: Scaling) -> str:
    if isinstance(scaling, Unscaled):
        return "{x}"
    return f"({_minus('{x}', scaling.shift)}) / {_decimal(scaling.scale)}"


def _minus(text: str, number: float) -> str:
    return f"{text} {'-' if number >= 0.0 else '+'} {_decimal(abs(number))}"


def _function(feature: _Feature) -> str:
    return _block(f"function value_{feature.identifier}()", [f"expression: {feature.expression}"])


def _decimal(value: float) -> str:
    """Return a number with all digits and without an exponent, which schemas do not support."""
    return np.format_float_positional(finite(value, "a number"), unique=True, trim="0")


def _block(head: str, lines: Iterable[str]) -> str:
    return "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}"])
