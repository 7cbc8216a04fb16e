"""Export to the learning-to-rank plug-ins of Elasticsearch and OpenSearch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.export.base import Format, json_object, register_format
from duelrank.export.model import (
    LinearModel,
    Term,
    check_single_precision,
    finite,
    minimum_offset,
    minimum_score,
    terms,
)
from duelrank.export.trees import MAX_ERROR_HELP, Staircase, staircases
from duelrank.representation import MinMax, Scaling

_FIELD = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_PARAMETER = re.compile(r"(?<!\{)\{\{(?:\{\s*(\w+)\s*\}|\s*(\w+)\s*)\}\}")
_EXAMPLE = '{"match": {"title": "{{text}}"}}'


@register_format("elasticsearch-features", "opensearch-features")
@dataclass(frozen=True)
class ElasticsearchFeatures(Format):
    """Elasticsearch-LTR and OpenSearch LTR, body of _featureset.

    The features of a model, each with what computes it: a field with numbers, or a query, whose score is the value. What stands
    in ``{{}}`` in a query is a parameter of the request.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "elasticsearch-features").decode()
    >>> [each["name"] for each in json.loads(text)["featureset"]["features"]]
    ['bm25', 'vector']
    """

    rank_features: Annotated[
        Mapping[str, str] | None,
        "Field or query (JSON) that computes a feature; the field of the same name unless given.",
        f"title={_EXAMPLE}",
    ] = None
    offset_feature: Annotated[str | None, "Name of a feature that is 1 for all documents, to be added to the set."] = (
        None
    )

    def write(self, model: LinearModel) -> str:
        """Return the JSON that both plug-ins take."""
        given = self.rank_features or {}
        for name in given:
            if name not in model.features:
                raise UnknownName.among("feature", str(name), model.features)
        templates = {name: _template(name, given.get(name)) for name in model.features}
        if self.offset_feature is not None:
            if not self.offset_feature or self.offset_feature in templates:
                raise InvalidValue(
                    "the feature that is always 1 needs a name that the model does not use, got "
                    f"{self.offset_feature!r}"
                )
            templates[self.offset_feature] = {"match_all": {}}
        features = [
            {"name": name, "params": _parameters(name, template), "template": template}
            for name, template in templates.items()
        ]
        return json.dumps({"featureset": {"features": features}}, indent=2, ensure_ascii=False) + "\n"


def _template(name: str, given: str | None) -> dict[str, Any]:
    expression = name if given is None else given.strip()
    if _FIELD.fullmatch(expression):
        value = {"field": expression, "missing": 0}
        return {"function_score": {"query": {"match_all": {}}, "field_value_factor": value, "boost_mode": "replace"}}
    if given is None:
        raise InvalidValue(
            f"no field is called {name!r}: say what computes this feature with rank_features, such as {name}={_EXAMPLE}"
        )
    return json_object(name, "a field or a query", expression, _EXAMPLE)


def _parameters(name: str, template: dict[str, Any]) -> list[str]:
    text = json.dumps(template, ensure_ascii=False)
    if "{{" in _PARAMETER.sub("", text):  # outside of texts, JSON has no two braces in a row that open
        raise InvalidValue(
            f"what stands in {{{{}}}} in the query of {name!r} must be the name of a parameter, of letters, digits and _, such as "
            f"{_EXAMPLE}; sections, paths and other marks of Mustache are not, got {text}"
        )
    return list(dict.fromkeys(found[1] or found[2] for found in _PARAMETER.finditer(text)))


ENGINE = "Elasticsearch-LTR or OpenSearch LTR"


@register_format("elasticsearch", "opensearch")
@dataclass(frozen=True)
class Elasticsearch(Format):
    """Elasticsearch-LTR and OpenSearch LTR, body of _createmodel.

    A ``model/linear``, or, where the model is not linear, a ``model/xgboost+json`` with one tree for each feature; under a name
    that is new for each version. Lucene asks for scores of 0 or above, and documents that are not rescored count 0: those below
    would come after them. Trees are lifted to 0, which changes no order; ``model/linear`` has no bias, but a feature that is 1 for
    every document keeps its scores at 0 or above.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "elasticsearch", allow_negative=True).decode()
    >>> json.loads(text)["model"]["model"]["definition"]
    '{"bm25": 0.75, "vector": 0.25}'
    """

    offset_feature: Annotated[
        str | None, "Name of a feature that is 1 for all documents, to be added to the model."
    ] = None
    offset: Annotated[
        float | None,
        "Weight of offset_feature; the smallest sufficient one unless given, if all features that count are scaled by min-max.",
    ] = None
    allow_negative: Annotated[
        bool, "Write models whose scores may be below 0; such documents come after those that are not rescored."
    ] = False

    max_error: Annotated[float | None, MAX_ERROR_HELP] = None

    def write(self, model: LinearModel) -> str:
        """Return the JSON that both plug-ins take."""
        definition = self._linear(model) if model.is_linear else self._trees(model)
        content = {"model": {"name": model.versioned_name, "model": definition}}
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def _linear(self, model: LinearModel) -> dict[str, Any]:
        summands = terms(model, ENGINE)
        check_single_precision(summands, ENGINE)
        if self.offset_feature is not None:
            summands = [*summands, self._offset_term(model, summands, self.offset_feature)]
        elif self.offset is not None:
            raise InvalidValue("an offset is the weight of a feature that is always 1: name it with offset_feature")
        elif not self.allow_negative:
            _refuse_negative(minimum_score(summands))
        return {
            "type": "model/linear",
            "definition": json.dumps({each.name: each.weight for each in summands}, ensure_ascii=False),
            "feature_normalizers": {each.name: _normalizer(each.scaling) for each in summands if each.scaling},
        }

    def _trees(self, model: LinearModel) -> dict[str, Any]:
        if self.offset_feature is not None or self.offset is not None:
            raise InvalidValue(
                "trees need no offset: they are lifted so that no score is below 0, unless allow_negative"
            )
        trees = [_tree(each, self.allow_negative) for each in staircases(model, ENGINE, self.max_error)]
        return {"type": "model/xgboost+json", "definition": json.dumps(trees, ensure_ascii=False)}

    def _offset_term(self, model: LinearModel, summands: Sequence[Term], name: str) -> Term:
        if not isinstance(name, str) or not name or name in model.features:
            raise InvalidValue(f"the feature that is always 1 needs a name that the model does not use, got {name!r}")
        minimum = minimum_score(summands)
        if minimum is None and self.offset is None:
            raise InvalidValue(f"{_UNKNOWN}, so the weight of {name!r} cannot be worked out: give it as offset")
        least = minimum_offset(summands, minimum) if minimum is not None else 0.0
        weight = least if self.offset is None else finite(self.offset, "the offset")
        if not 0.0 <= weight <= float(np.finfo(np.float32).max):
            raise InvalidValue(f"an offset is a number from 0 up that single precision can hold, got {weight!r}")
        if weight < least and not self.allow_negative:
            raise InvalidValue(f"an offset of {weight!r} leaves scores below 0, which {_BEHIND}; {least!r} does not")
        return Term(name, weight, None)


_BEHIND = "come after documents that are not rescored"
_UNKNOWN = "the minimum score is not known unless every feature that counts is scaled by a fixed min-max"


def _refuse_negative(minimum: float | None) -> None:
    if minimum is None or minimum < 0.0:
        reason = _UNKNOWN if minimum is None else f"the scores of this model go down to {minimum:.6g}"
        weight = ", and its weight with offset" if minimum is None else ""
        raise InvalidValue(
            f"{reason}, and scores below 0 {_BEHIND}; name a feature that is 1 for every document with "
            f"offset_feature{weight}, or accept them with allow_negative"
        )


def _normalizer(scaling: Scaling) -> dict[str, dict[str, float]]:
    if isinstance(scaling, MinMax):
        return {"min_max": {"minimum": scaling.minimum, "maximum": scaling.maximum}}
    return {"standard": {"mean": scaling.shift, "standard_deviation": scaling.scale}}


def _tree(staircase: Staircase, as_it_is: bool) -> dict[str, Any]:
    """Return the tree of a feature as XGBoost dumps it, in which values below a split's condition go to the first child."""
    lift = 0.0 if as_it_is else float(-staircase.heights.min())

    def split(threshold: float, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        condition = float(
            np.nextafter(np.float32(threshold), np.float32(np.inf))
        )  # at most the threshold: below the next
        return {"split": staircase.name, "split_condition": condition, "children": [left, right]}

    return _numbered(staircase.tree(split, lambda height: {"leaf": height + lift}), 0, 0)[0]


def _numbered(node: dict[str, Any], number: int, depth: int) -> tuple[dict[str, Any], int]:
    """Return a node with the numbers that parsers check, and the next free number; a missing value goes where 0 goes."""
    if "leaf" in node:
        return {"nodeid": number, **node}, number + 1
    yes, free = _numbered(node["children"][0], number + 1, depth + 1)
    no, free = _numbered(node["children"][1], free, depth + 1)
    ways = {"yes": yes["nodeid"], "no": no["nodeid"]}
    ways["missing"] = ways["yes" if node["split_condition"] > 0.0 else "no"]
    return {"nodeid": number, "depth": depth, **node, **ways, "children": [yes, no]}, free
