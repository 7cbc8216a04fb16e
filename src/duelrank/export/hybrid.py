"""Export to the hybrid search of OpenSearch, Elasticsearch and Qdrant: weights for the scores of sub-queries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from duelrank.core.errors import InvalidValue
from duelrank.core.validation import whole_number
from duelrank.export.base import Format, check_names, json_object, json_text, register_format
from duelrank.export.decomposition import Unrepresentable, finite, inputs_of, terms_of
from duelrank.export.model import LinearModel
from duelrank.representation import QueryScaled

#: Maximum number of sub-queries of a hybrid query of OpenSearch.
MOST_SUB_QUERIES = 5
#: Version of a ranker of the service before its first click; a snapshot then has the version 0.
FIRST_VERSION = 1
SCALED_RECIPE = "learn with query-scaled >> ALGORITHM"

_RETRIEVER = '{"standard": {"query": {"match": {"title": "{{query}}"}}}}'
_PREFETCH = '{"query": [0.1, 0.9], "using": "dense", "limit": 100}'


@register_format("opensearch-hybrid")
@dataclass(frozen=True)
class OpenSearchHybrid(Format):
    """OpenSearch hybrid query, a search pipeline that scales and weighs the scores of its sub-queries.

    The weights sum to 1. The n-th one is for the n-th sub-query of the hybrid query, in the order of the features.

    Examples
    --------
    >>> import json
    >>> from duelrank.representation import QueryScaled
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25], QueryScaled())
    >>> text = export(model, "opensearch-hybrid").decode()
    >>> json.loads(text)["phase_results_processors"][0]["normalization-processor"]["combination"]["parameters"]
    {'weights': [0.75, 0.25]}
    """

    holds = "hybrid"

    def write(self, model: LinearModel) -> str:
        """Return the body of ``PUT _search/pipeline/NAME``."""
        engine = "OpenSearch's normalization processor"
        if len(model.features) > MOST_SUB_QUERIES:
            raise InvalidValue(
                f"a hybrid query of OpenSearch has at most {MOST_SUB_QUERIES} sub-queries, this ranker has {len(model.features)} "
                "features: train a ranker with the most important features, or use opensearch (the learning-to-rank plug-in)"
            )
        weights, per_query = _weights(model, engine)
        if not per_query:
            raise Unrepresentable(
                f"{engine} scales each score by its range within the query, but this ranker does not: {SCALED_RECIPE}, or, if the "
                "scores were scaled that way before the ranker received them, give representation query-scaled"
            )
        processor = {
            "normalization": {"technique": "min_max"},
            "combination": {
                "technique": "arithmetic_mean",
                "parameters": {"weights": list(_with_sum_1(weights, model, engine).values())},
            },
        }
        order = ", ".join(json.dumps(name, ensure_ascii=False) for name in weights)
        return json_text(
            {
                "description": f"{model.versioned_name}, written by duelrank; sub-queries in this order: {order}",
                "phase_results_processors": [{"normalization-processor": processor}],
            }
        )


@register_format("elasticsearch-linear")
@dataclass(frozen=True)
class ElasticsearchLinear(Format):
    """Elasticsearch linear retriever, body of _search.

    The weights sum to 1. With ``{{…}}`` in its retrievers it is the source of a search template.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> from duelrank.representation import QueryScaled
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25], QueryScaled())
    >>> words = '{"standard": {"query": {"match": {"title": "shoes"}}}}'
    >>> vector = '{"knn": {"field": "vector", "query_vector": [0.1, 0.9], "k": 100, "num_candidates": 100}}'
    >>> body = json.loads(export(model, "elasticsearch-linear", sub_queries={"bm25": words, "vector": vector}))
    >>> [each["weight"] for each in body["retriever"]["linear"]["retrievers"]]
    [0.75, 0.25]
    """

    holds = "hybrid"

    sub_queries: Annotated[
        Mapping[str, str] | None,
        "Retriever (JSON) whose scores are a feature; one for each feature.",
        f"title={_RETRIEVER}",
    ] = None
    rank_window_size: Annotated[int, "Number of documents of each retriever that are scaled and weighed."] = 100

    def write(self, model: LinearModel) -> str:
        """Return a search request with one retriever for each feature."""
        whole_number("rank_window_size", self.rank_window_size)
        engine = "Elasticsearch's linear retriever"
        weights, per_query = _weights(model, engine)
        given = _sub_queries(model, self.sub_queries, _RETRIEVER)
        retrievers = [
            {"retriever": given[name], "weight": weight, "normalizer": "minmax" if per_query else "none"}
            for name, weight in _with_sum_1(weights, model, engine).items()
        ]
        return json_text(
            {"retriever": {"linear": {"retrievers": retrievers, "rank_window_size": self.rank_window_size}}}
        )


@register_format("qdrant")
@dataclass(frozen=True)
class Qdrant(Format):
    """Qdrant formula query, body of points/query.

    A weighted sum of the scores of prefetches; Qdrant cannot scale them within a query.

    Examples
    --------
    >>> import json
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> words = '{"query": {"indices": [1, 9], "values": [0.4, 0.6]}, "using": "sparse", "limit": 100}'
    >>> vector = '{"query": [0.1, 0.9], "using": "dense", "limit": 100}'
    >>> body = json.loads(export(model, "qdrant", sub_queries={"bm25": words, "vector": vector}))
    >>> body["query"]["formula"]
    {'sum': [{'mult': [0.75, '$score[0]']}, {'mult': [0.25, '$score[1]']}]}
    """

    holds = "hybrid"

    sub_queries: Annotated[
        Mapping[str, str] | None,
        "Prefetch (JSON) whose scores are a feature; one for each feature.",
        f"vector={_PREFETCH}",
    ] = None

    def write(self, model: LinearModel) -> str:
        """Return a query with one prefetch for each feature."""
        weights, per_query = _weights(model, "Qdrant's formula")
        if per_query:
            raise Unrepresentable(
                "Qdrant's formula cannot scale scores within a query: learn from unscaled scores, or with fixed scalings; "
                "opensearch-hybrid, elasticsearch-linear, vespa, onnx and json support this model"
            )
        given = _sub_queries(model, self.sub_queries, _PREFETCH)
        summands = [{"mult": [weight, f"$score[{number}]"]} for number, weight in enumerate(weights.values())]
        return json_text({"prefetch": [given[name] for name in weights], "query": {"formula": {"sum": summands}}})


def _weights(model: LinearModel, engine: str) -> tuple[dict[str, float], bool]:
    """Return the weight of each feature, and whether the features are scaled within the query first.

    Shifts are omitted, because they add the same number to all documents.
    """
    if not model.is_linear:
        raise Unrepresentable(
            f"{engine} weighs scores and has no curves: {SCALED_RECIPE}; vespa, onnx and json support this model"
        )
    inputs = inputs_of(model, engine, within_query=True)
    if inputs.within not in ((), (QueryScaled(),)):
        raise Unrepresentable(
            f"{engine} cannot rank the values within a query: {SCALED_RECIPE}; onnx (one batch = one query) and json support this "
            "model"
        )
    weights = {
        term.name: finite(term.weight / (term.scaling.scale if term.scaling else 1.0), f"the weight of {term.name!r}")
        for term in terms_of(model, inputs)
    }
    return weights, bool(inputs.within)


def _with_sum_1(weights: Mapping[str, float], model: LinearModel, engine: str) -> dict[str, float]:
    negative = [f"{name!r} ({weight:.6g})" for name, weight in weights.items() if weight < 0.0]
    if negative:
        raise InvalidValue(
            f"{engine} accepts no weights below 0, which this ranker has for {', '.join(negative)}: learn with "
            "step=NonNegative(), which keeps weights at 0 or above, or with the opposite of that feature (newness, not age)"
        )
    largest = max(weights.values())
    if largest == 0.0:
        raise InvalidValue(f"{engine} needs a weight above 0, but all are 0: {_why_all_are_0(model)}")
    total = sum(weight / largest for weight in weights.values())
    return {name: weight / largest / total for name, weight in weights.items()}


def _why_all_are_0(model: LinearModel) -> str:
    if model.version <= FIRST_VERSION:
        return "has the ranker learned from any click?"
    return (
        "so far, clicks disagree with every sub-query; check that the scores belong to the documents that were shown, and that "
        "higher scores are better"
    )


def _sub_queries(model: LinearModel, given: Mapping[str, str] | None, example: str) -> dict[str, Any]:
    """Return the sub-query of each feature."""
    check_names(given or {}, model)
    return {name: _sub_query(name, (given or {}).get(name), example) for name in model.features}


def _sub_query(name: str, given: str | None, example: str) -> Any:
    if given is None:
        raise InvalidValue(f"the sub-query that computes {name!r} is missing: give it, such as {name}={example}")
    return json_object(name, "a sub-query", given, example)
