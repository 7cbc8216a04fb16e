"""Export to Solr's learning-to-rank module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from duelrank.core.errors import InvalidValue
from duelrank.export.base import Format, check_names, json_text, register_format
from duelrank.export.decomposition import Term, check_single_precision, terms
from duelrank.export.model import LinearModel
from duelrank.export.trees import MAX_ERROR_HELP, Staircase, staircases
from duelrank.representation import MinMax, Standard

ENGINE = "Solr"
#: Solr adds this number to the threshold of a split.
SLACK = float(np.float32(1e-6))

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PARAMETER = re.compile(r"\$\{[^{}]+\}")
# A query begins with a parser, compares a field (or *) with a value, or contains a parameter of the request.
_QUERY = re.compile(rf"^\{{!|(?<![\w.*-])({_FIELD.pattern}|\*):\S|{_PARAMETER.pattern}")
_EXAMPLE = "{!dismax qf=title}${text}"


@register_format("solr")
@dataclass(frozen=True)
class Solr(Format):
    """Solr LTR, body for the model store.

    A linear model becomes Solr's ``LinearModel``, any other one its ``MultipleAdditiveTreesModel`` with one tree for each feature;
    each version has its own name.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "solr").decode()
    >>> json.loads(text)["params"]["weights"]
    {'bm25': 0.75, 'vector': 0.25}
    """

    store: Annotated[str | None, "Name of the feature store; by default Solr's default store."] = None
    max_error: Annotated[float | None, MAX_ERROR_HELP] = None

    def write(self, model: LinearModel) -> str:
        """Return the JSON that Solr accepts."""
        content: dict[str, Any] = _store(self.store) | {"name": model.versioned_name}
        content |= _linear(model) if model.is_linear else _trees(model, self.max_error)
        return json_text(content)


def _store(name: str | None) -> dict[str, str]:
    """Return the entry that names the feature store; none for the default store."""
    if name is None:
        return {}
    if not name.strip():
        raise InvalidValue("the feature store needs a name; omit store for Solr's default store")
    return {"store": name}


def _linear(model: LinearModel) -> dict[str, Any]:
    summands = terms(model, ENGINE)
    check_single_precision(summands, ENGINE)
    return {
        "class": "org.apache.solr.ltr.model.LinearModel",
        "features": [_feature(each) for each in summands],
        "params": {"weights": {each.name: each.weight for each in summands}},
    }


def _trees(model: LinearModel, max_error: float | None) -> dict[str, Any]:
    found = staircases(model, ENGINE, max_error)
    scales = {each.name: _scale(each) for each in found}
    return {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "features": [
            _feature(Term(name, 1.0, Standard(0.0, scales[name]) if scales.get(name, 1.0) < 1.0 else None))
            for name in model.features
        ],
        "params": {"trees": [{"weight": "1", "root": _root(each, scales[each.name])} for each in found]},
    }


def _scale(staircase: Staircase) -> float:
    """Return the power of 2 by which a feature is divided, so that all thresholds except 0 have an absolute value of at least 64.

    Solr adds 1e-6 to each threshold in single precision, which changes thresholds below 64. A division by a power of 2 is exact.
    The smallest one turns the smallest numbers into whole numbers, whose distance is large enough.
    """
    sizes = np.abs(staircase.thresholds[staircase.thresholds != 0.0])
    if not len(sizes):
        return 1.0
    scale = float(np.clip(2.0 ** np.floor(np.log2(sizes.min() / 64.0)), 2.0**-149, 1.0))
    if sizes.max() / scale > float(np.finfo(np.float32).max):
        raise InvalidValue(
            f"{ENGINE} cannot represent the thresholds of {staircase.name!r}: their magnitudes differ too much"
        )
    return scale


def _root(staircase: Staircase, scale: float) -> dict[str, Any]:
    def split(threshold: float, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        given = threshold / scale if threshold else -SLACK
        return {"feature": staircase.name, "threshold": repr(given), "left": left, "right": right}

    return staircase.tree(split, lambda height: {"value": repr(height)})


def _feature(term: Term) -> dict[str, Any]:
    if term.scaling is None:
        return {"name": term.name}
    if isinstance(term.scaling, MinMax):
        kind, params = "MinMax", {"min": term.scaling.minimum, "max": term.scaling.maximum}
    else:
        kind, params = "Standard", {"avg": term.scaling.shift, "std": term.scaling.scale}
    # Texts, as in Solr's own examples, because the setters of all versions accept them.
    texts = {name: repr(float(value)) for name, value in params.items()}
    return {"name": term.name, "norm": {"class": f"org.apache.solr.ltr.norm.{kind}Normalizer", "params": texts}}


@register_format("solr-features")
@dataclass(frozen=True)
class SolrFeatures(Format):
    """Solr LTR, body for the feature store.

    Defines how Solr computes each feature of a model: a field, ``score`` for the score of the query that is reranked, ``${name}``
    for a number in the request parameter ``efi.name``, or a Solr query, whose score is the value.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "solr-features").decode()
    >>> [each["name"] for each in json.loads(text)]
    ['bm25', 'vector']
    """

    holds = "features"

    rank_features: Annotated[
        Mapping[str, str] | None,
        "Field, score, ${name} or query that computes a feature; by default the field of the same name.",
        f"title={_EXAMPLE}",
    ] = None
    store: Annotated[str | None, "Name of the feature store; by default Solr's default store."] = None

    def write(self, model: LinearModel) -> str:
        """Return the JSON that Solr accepts."""
        given = self.rank_features or {}
        check_names(given, model)
        store = _store(self.store)
        content = [store | {"name": name} | _definition(name, given.get(name)) for name in model.features]
        return json_text(content)


def _definition(name: str, expression: str | None) -> dict[str, Any]:
    if expression is None and not _FIELD.fullmatch(name):
        context, product, feature = name.partition("*")
        example = f"{{!func}}product(${{{context}}},{feature})" if product else _EXAMPLE
        raise InvalidValue(
            f"{name!r} is not a valid field name in Solr: define this feature with rank_features, such as "
            f"{name}={example}"
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
        f"{name!r} needs a field, score, ${{number}} or a query, which begins with {{!, has a field as in title:shoes "
        f"or a parameter ${{text}} of the request, such as {_EXAMPLE}; got {expression!r}"
    )
