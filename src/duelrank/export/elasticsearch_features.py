"""Elasticsearch-LTR and OpenSearch LTR: the body of ``POST _ltr/_featureset/<set>``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from duelrank.errors import InvalidValue, UnknownName
from duelrank.export.base import Format, register_format
from duelrank.export.given import json_object
from duelrank.export.model import LinearModel

__all__ = ["ElasticsearchFeatures"]

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
