"""Export to the learning-to-rank plug-ins of Elasticsearch and OpenSearch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from duelrank.core.errors import InvalidValue
from duelrank.export.base import Format, check_names, json_object, json_text, register_format
from duelrank.export.decomposition import Term, check_single_precision, finite, minimum_offset, minimum_score, terms
from duelrank.export.model import LinearModel
from duelrank.export.trees import MAX_ERROR_HELP, Staircase, staircases
from duelrank.representation import MinMax, Scaling

ENGINE = "Elasticsearch-LTR or OpenSearch LTR"

_FIELD = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_PARAMETER = re.compile(r"(?<!\{)\{\{(?:\{\s*(\w+)\s*\}|\s*(\w+)\s*)\}\}")
_EXAMPLE = '{"match": {"title": "{{text}}"}}'
_BEHIND = "come after documents that are not rescored"
_UNKNOWN = "the minimum score is known only if every feature with a weight is scaled by a fixed min-max"


@register_format("elasticsearch-features", "opensearch-features")
@dataclass(frozen=True)
class ElasticsearchFeatures(Format):
    """Elasticsearch-LTR and OpenSearch LTR, body of _featureset.

    Defines how each feature of a model is computed: by a numeric field, or by a query, whose score is the value. ``{{name}}`` in a
    query is a parameter of the request.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "elasticsearch-features").decode()
    >>> [each["name"] for each in json.loads(text)["featureset"]["features"]]
    ['bm25', 'vector']
    """

    holds = "features"

    rank_features: Annotated[
        Mapping[str, str] | None,
        "Field or query (JSON) that computes a feature; by default the field of the same name.",
        f"title={_EXAMPLE}",
    ] = None
    offset_feature: Annotated[str | None, "Name of a feature that is 1 for all documents, to add to the set."] = None

    def write(self, model: LinearModel) -> str:
        """Return the JSON that both plug-ins accept."""
        given = self.rank_features or {}
        check_names(given, model)
        templates = {name: _template(name, given.get(name)) for name in model.features}
        if self.offset_feature is not None:
            if not self.offset_feature or self.offset_feature in templates:
                raise InvalidValue(
                    "the name of the feature that is always 1 must not be that of a feature of the model, got "
                    f"{self.offset_feature!r}"
                )
            templates[self.offset_feature] = {"match_all": {}}
        features = [
            {"name": name, "params": _parameters(name, template), "template": template}
            for name, template in templates.items()
        ]
        return json_text({"featureset": {"features": features}})


def _template(name: str, given: str | None) -> dict[str, Any]:
    expression = name if given is None else given.strip()
    if _FIELD.fullmatch(expression):
        value = {"field": expression, "missing": 0}
        return {"function_score": {"query": {"match_all": {}}, "field_value_factor": value, "boost_mode": "replace"}}
    if given is None:
        raise InvalidValue(
            f"{name!r} is not a valid field name: define this feature with rank_features, such as {name}={_EXAMPLE}"
        )
    return json_object(name, "a field or a query", expression, _EXAMPLE)


def _parameters(name: str, template: dict[str, Any]) -> list[str]:
    text = json.dumps(template, ensure_ascii=False)
    if "{{" in _PARAMETER.sub("", text):  # JSON has two opening braces in a row only within texts
        raise InvalidValue(
            f"{{{{}}}} in the query of {name!r} must be the name of a parameter, of letters, digits and _, such as "
            f"{_EXAMPLE}; sections, paths and other tags of Mustache are not supported, got {text}"
        )
    return list(dict.fromkeys(found[1] or found[2] for found in _PARAMETER.finditer(text)))


@register_format("elasticsearch", "opensearch")
@dataclass(frozen=True)
class Elasticsearch(Format):
    """Elasticsearch-LTR and OpenSearch LTR, body of _createmodel.

    A linear model becomes a ``model/linear``, any other one a ``model/xgboost+json`` with one tree for each feature; each version
    has its own name. Lucene requires scores of at least 0, and documents that are not rescored have score 0, so they would come
    before documents with negative scores. Trees are raised to 0, which does not change the order; ``model/linear`` has no bias,
    but a feature that is 1 for every document keeps its scores at 0 or above.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "elasticsearch", allow_negative=True).decode()
    >>> json.loads(text)["model"]["model"]["definition"]
    '{"bm25": 0.75, "vector": 0.25}'
    """

    offset_feature: Annotated[str | None, "Name of a feature that is 1 for all documents, to add to the model."] = None
    offset: Annotated[
        float | None,
        "Weight of offset_feature; by default the smallest sufficient one, if all features with a weight are scaled by min-max.",
    ] = None
    allow_negative: Annotated[
        bool, "Write models whose scores may be below 0; such documents come after those that are not rescored."
    ] = False

    max_error: Annotated[float | None, MAX_ERROR_HELP] = None

    def write(self, model: LinearModel) -> str:
        """Return the JSON that both plug-ins accept."""
        definition = self._linear(model) if model.is_linear else self._trees(model)
        content = {"model": {"name": model.versioned_name, "model": definition}}
        return json_text(content)

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
                "trees need no offset: without allow_negative they are raised so that no score is below 0"
            )
        trees = [_tree(each, self.allow_negative) for each in staircases(model, ENGINE, self.max_error)]
        return {"type": "model/xgboost+json", "definition": json.dumps(trees, ensure_ascii=False)}

    def _offset_term(self, model: LinearModel, summands: Sequence[Term], name: str) -> Term:
        if not isinstance(name, str) or not name or name in model.features:
            raise InvalidValue(
                f"the name of the feature that is always 1 must not be that of a feature of the model, got {name!r}"
            )
        minimum = minimum_score(summands)
        if minimum is None and self.offset is None:
            raise InvalidValue(f"{_UNKNOWN}, so the weight of {name!r} cannot be computed: give it as offset")
        least = minimum_offset(summands, minimum) if minimum is not None else 0.0
        weight = least if self.offset is None else finite(self.offset, "the offset")
        if not 0.0 <= weight <= float(np.finfo(np.float32).max):
            raise InvalidValue(f"an offset must be at least 0 and within single precision, got {weight!r}")
        if weight < least and not self.allow_negative:
            raise InvalidValue(f"an offset of {weight!r} leaves scores below 0, which {_BEHIND}; {least!r} does not")
        return Term(name, weight, None)


def _refuse_negative(minimum: float | None) -> None:
    if minimum is None or minimum < 0.0:
        reason = _UNKNOWN if minimum is None else f"the scores of this model go down to {minimum:.6g}"
        weight = ", and its weight with offset" if minimum is None else ""
        raise InvalidValue(
            f"{reason}, and documents with scores below 0 {_BEHIND}; give the name of a feature that is 1 for every document with "
            f"offset_feature{weight}, or accept negative scores with allow_negative"
        )


def _normalizer(scaling: Scaling) -> dict[str, dict[str, float]]:
    if isinstance(scaling, MinMax):
        return {"min_max": {"minimum": scaling.minimum, "maximum": scaling.maximum}}
    return {"standard": {"mean": scaling.shift, "standard_deviation": scaling.scale}}


def _tree(staircase: Staircase, allow_negative: bool) -> dict[str, Any]:
    """Return the tree of a feature in the dump format of XGBoost: values below a split's condition go to the first child."""
    lift = 0.0 if allow_negative else float(-staircase.heights.min())

    def split(threshold: float, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        condition = float(
            np.nextafter(np.float32(threshold), np.float32(np.inf))
        )  # at most the threshold = below the next
        return {"split": staircase.name, "split_condition": condition, "children": [left, right]}

    return _numbered(staircase.tree(split, lambda height: {"leaf": height + lift}), 0, 0)[0]


def _numbered(node: dict[str, Any], number: int, depth: int) -> tuple[dict[str, Any], int]:
    """Return a node with the numbers that parsers check, and the next free number; a missing value is treated as 0."""
    if "leaf" in node:
        return {"nodeid": number, **node}, number + 1
    yes, free = _numbered(node["children"][0], number + 1, depth + 1)
    no, free = _numbered(node["children"][1], free, depth + 1)
    ways = {"yes": yes["nodeid"], "no": no["nodeid"]}
    ways["missing"] = ways["yes" if node["split_condition"] > 0.0 else "no"]
    return {"nodeid": number, "depth": depth, **node, **ways, "children": [yes, no]}, free
