"""Apache Solr: the body of ``PUT /solr/<collection>/schema/feature-store``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from duelrank.errors import InvalidValue, UnknownName
from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel
from duelrank.export.solr import in_store

__all__ = ["SolrFeatures"]

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PARAMETER = re.compile(r"\$\{[^{}]+\}")
# It begins with a parser, compares a field (or *) with something, or takes a text from the request.
_QUERY = re.compile(rf"^\{{!|(?<![\w.*-])({_FIELD.pattern}|\*):\S|{_PARAMETER.pattern}")
_EXAMPLE = "{!dismax qf=title}${text}"


@register_format("solr-features")
@dataclass(frozen=True)
class SolrFeatures(Format):
    """Solr LTR, body for the feature store.

    The features of a model, each with what computes it in Solr: a field, ``score`` for the score of the query that is reranked,
    ``${name}`` for a number that comes with the request as ``efi.name``, or a query of Solr, whose score is the value.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "solr-features").decode()
    >>> [each["name"] for each in json.loads(text)]
    ['bm25', 'vector']
    """

    rank_features: Annotated[
        Mapping[str, str] | None,
        "Field, score, ${name} or query that computes a feature; the field of the same name unless given.",
        f"title={_EXAMPLE}",
    ] = None
    store: Annotated[str | None, "Name of the feature store; Solr's default store unless given."] = None

    def write(self, model: LinearModel) -> str:
        """Return the JSON that Solr takes."""
        given = self.rank_features or {}
        for name in given:
            if name not in model.features:
                raise UnknownName.among("feature", str(name), model.features)
        store = in_store(self.store)
        content = [store | {"name": name} | _definition(name, given.get(name)) for name in model.features]
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _definition(name: str, expression: str | None) -> dict[str, Any]:
    if expression is None and not _FIELD.fullmatch(name):
        raise InvalidValue(
            f"no field of Solr is called {name!r}: say what computes this feature with rank_features, such as "
            f"{name}={_EXAMPLE}"
        )
    kind, params = _kind(name, name if expression is None else expression.strip())
    return {"class": f"org.apache.solr.ltr.feature.{kind}", "params": params}


def _kind(name: str, expression: str) -> tuple[str, dict[str, Any]]:
    if expression == "score":
        return "OriginalScoreFeature", {}
    if _FIELD.fullmatch(expression):
        return "FieldValueFeature", {"field": expression}
    if _PARAMETER.fullmatch(expression):
        return "ValueFeature", {"value": expression, "required": True}
    if _QUERY.search(expression):
        return "SolrFeature", {"q": expression}
    raise InvalidValue(
        f"{name!r} is computed by a field, score, ${{number}} or a query, which begins with {{!, names a field as in title:shoes "
        f"or takes ${{text}} from the request, such as {_EXAMPLE}; got {expression!r}"
    )
