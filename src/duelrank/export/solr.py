"""Export to Solr's learning-to-rank module."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel, Term, check_single_precision, terms
from duelrank.export.trees import MAX_ERROR_HELP, Staircase, staircases
from duelrank.representation import MinMax, Standard

ENGINE = "Solr"
#: What Solr adds to the threshold of a split.
SLACK = float(np.float32(1e-6))


@register_format("solr")
@dataclass(frozen=True)
class Solr(Format):
    """Solr LTR, body for the model store.

    A linear model is a ``LinearModel`` of Solr, any other one its ``MultipleAdditiveTreesModel``, with one tree for each feature;
    under a name that is new for each version.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "solr").decode()
    >>> json.loads(text)["params"]["weights"]
    {'bm25': 0.75, 'vector': 0.25}
    """

    store: Annotated[str | None, "Name of the feature store; Solr's default store unless given."] = None
    max_error: Annotated[float | None, MAX_ERROR_HELP] = None

    def write(self, model: LinearModel) -> str:
        """Return the JSON that Solr takes."""
        content: dict[str, Any] = in_store(self.store) | {"name": model.versioned_name}
        content |= _linear(model) if model.is_linear else _trees(model, self.max_error)
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def in_store(name: str | None) -> dict[str, str]:
    """Return what says that something belongs to a feature store; nothing for the default one."""
    if name is None:
        return {}
    if not name.strip():
        raise InvalidValue("the feature store needs a name; leave store out for Solr's default store")
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
    """Return the power of 2 by which a feature is divided, so that all thresholds but 0 are 64 or more in size.

    Solr adds 1e-6 to each threshold, in single precision: nothing from 64 on, but it would move smaller thresholds. A division by
    a power of 2 changes no digit of a value. The least one makes whole numbers of the least values, which are far enough apart.
    """
    sizes = np.abs(staircase.thresholds[staircase.thresholds != 0.0])
    if not len(sizes):
        return 1.0
    scale = float(np.clip(2.0 ** np.floor(np.log2(sizes.min() / 64.0)), 2.0**-149, 1.0))
    if sizes.max() / scale > float(np.finfo(np.float32).max):
        raise InvalidValue(f"{ENGINE} cannot hold the thresholds of {staircase.name!r}: their sizes differ too much")
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
    # Texts, as in Solr's own examples: its setters take those in all versions.
    texts = {name: repr(float(value)) for name, value in params.items()}
    return {"name": term.name, "norm": {"class": f"org.apache.solr.ltr.norm.{kind}Normalizer", "params": texts}}


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
