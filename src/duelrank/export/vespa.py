"""Vespa: a rank profile for a schema, with weights that a request can override."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from duelrank.errors import InvalidValue, UnknownName
from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel
from duelrank.export.terms import Term, finite, terms
from duelrank.normalisation import NoNormalisation, PerQuery
from duelrank.validation import whole_number

__all__ = ["Vespa"]

# A feature of Vespa: a name, its arguments, maybe one of its outputs; or one of those that have no arguments.
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
class _Summand:
    identifier: str
    term: Term
    expression: str

    @property
    def value(self) -> str:
        """What stands for the raw value: a rank feature itself, or the function that computes it."""
        return self.expression if _is_feature(self.expression) else f"value_{self.identifier}"


@register_format("vespa")
@dataclass(frozen=True)
class Vespa(Format):
    """Vespa, a rank profile.

    A model that is normalised per query is normalised in the global phase, over the hits that are re-ranked. A feature whose
    name is a rank feature itself, such as ``bm25(title)``, needs no expression.
    """

    media_type = "text/plain"
    suffix = ".profile"

    rank_features: Annotated[
        Mapping[str, str] | None, "Rank feature or ranking expression that computes a feature, as NAME=EXPRESSION."
    ] = None
    weights: Annotated[
        Literal["inputs", "constants"], "Write the weights as inputs, which a request can override, or as constants."
    ] = "inputs"
    rerank_count: Annotated[
        int, "Number of hits that are normalised together, if the model is normalised per query."
    ] = 100

    def write(self, model: LinearModel) -> str:
        """Return the text of a profile."""
        if self.weights not in ("inputs", "constants"):
            raise InvalidValue(f"weights are written as 'inputs' or 'constants', got {self.weights!r}")
        whole_number("rerank_count", self.rerank_count)
        summands = _summands(model, self.rank_features or {})
        kind = "query" if self.weights == "inputs" else "constant"
        declared = (
            f"{kind}(w_{each.identifier}) double: {_decimal(each.term.weight)}  # {json.dumps(each.term.name)}"
            for each in summands
        )
        blocks = [
            _block(self.weights, declared),
            *(_function(each) for each in summands if each.value != each.expression),
            self._phase(summands, kind, isinstance(model.normalisation, PerQuery)),
            _block("match-features", dict.fromkeys(each.value for each in summands)),
        ]
        # Inside: in a file of its own, a profile may have nothing before it, not even a line that is empty but for a comment.
        about = f"# {model.versioned_name}, written by duelrank"
        lines = "\n".join([about, *blocks]).split("\n")
        return _block(f"rank-profile {_profile(model.name)} inherits default", lines) + "\n"

    def _phase(self, summands: Iterable[_Summand], kind: str, per_query: bool) -> str:
        score = " +\n".join(f"{kind}(w_{each.identifier}) * {_scaled(each, per_query)}" for each in summands)
        phase = _block("expression", score.split("\n"))
        if per_query:
            phase = f"rerank-count: {self.rerank_count}\n{phase}"
        return _block("global-phase" if per_query else "first-phase", phase.split("\n"))


def _profile(name: str) -> str:
    identifier = _identifier(name)
    return f"duelrank_{identifier}" if identifier in ("default", "unranked") else identifier  # Vespa has those already


def _summands(model: LinearModel, rank_features: Mapping[str, str]) -> list[_Summand]:
    for name in rank_features:
        if name not in model.features:
            raise UnknownName.among("feature", str(name), model.features)
    if isinstance(model.normalisation, PerQuery):
        model = replace(model, normalisation=NoNormalisation())  # the global phase normalises
    identifiers = _unique(map(_identifier, model.features))
    return [
        _Summand(identifier, each, _expression(each.name, rank_features.get(each.name)))
        for identifier, each in zip(identifiers, terms(model, "Vespa"), strict=True)
    ]


def _expression(name: str, given: str | None) -> str:
    """The ranking expression of a feature, checked so far that it cannot end the block that it is put in."""
    if given is None:
        if not _is_feature(name):
            raise InvalidValue(
                f"{name!r} is not a rank feature of Vespa: say which one it is, such as {name}=attribute({_identifier(name)})"
            )
        return name
    text = given.strip() if isinstance(given, str) else ""
    if not text or not text.isprintable() or any(letter in "{}#" for letter in text) or not _is_balanced(text):
        raise InvalidValue(
            f"the rank feature of {name!r} is one line without {{ }} or #, brackets closed, got {given!r}"
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
    """Letters, digits and underscores that remind of the name."""
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


def _scaled(summand: _Summand, per_query: bool) -> str:
    if per_query:
        return f"normalize_linear({summand.value})"
    scaling = summand.term.scaling
    if scaling is None:
        return summand.value
    sign = "-" if scaling.shift >= 0.0 else "+"
    return f"({summand.value} {sign} {_decimal(abs(scaling.shift))}) / {_decimal(scaling.scale)}"


def _function(summand: _Summand) -> str:
    return _block(f"function value_{summand.identifier}()", [f"expression: {summand.expression}"])


def _decimal(value: float) -> str:
    """Every digit and no exponent, which schemas do not know."""
    return np.format_float_positional(finite(value, "a number"), unique=True, trim="0")


def _block(head: str, lines: Iterable[str]) -> str:
    return "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}"])
