"""Hybrid search: converts the scores of sub-queries to features, so that a ranker can learn their weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from duelrank.core.errors import InvalidValue
from duelrank.core.types import Features
from duelrank.representation.base import query_scaled

#: A recipe for a few weights of at least 0, with small steps; see the measurements in `docs/hybrid.md`.
RECIPE = "query-scaled >> wmgd-dsp(step=NonNegative(step=Step(learning_rate=0.05, slow_down=50.0)))"


def table(scores: Mapping[str, Mapping[str, float]]) -> tuple[list[str], Features]:
    """Return the documents that any sub-query found, and their features: one column per sub-query, scaled as in the engines.

    Within each sub-query the largest score becomes 1 and the least 0; equal scores all become 1. A document that the sub-query did
    not return gets 0. OpenSearch's ``min_max`` and Elasticsearch's ``minmax`` do the same, except that OpenSearch maps the least
    score to 0.001. Learn from these features with `RECIPE`, or another ``query-scaled >> ALGORITHM``: scaling them again only
    adds a constant.

    Parameters
    ----------
    scores
        The scores by sub-query and document id. The order of the sub-queries is that of the columns; documents are in the order of
        their first occurrence.

    Examples
    --------
    >>> from duelrank.adapters.hybrid import table
    >>> documents, features = table({"bm25": {"d1": 7.0, "d2": 3.0}, "vector": {"d3": 0.9, "d2": 0.8, "d4": 0.4}})
    >>> documents
    ['d1', 'd2', 'd3', 'd4']
    >>> features.round(3).tolist()
    [[1.0, 0.0], [0.0, 0.8], [0.0, 1.0], [0.0, 0.0]]
    """
    documents = list(dict.fromkeys(document for hits in scores.values() for document in hits))
    places = {document: place for place, document in enumerate(documents)}
    features = np.zeros((len(documents), len(scores)))
    for column, (name, hits) in enumerate(scores.items()):
        features[[places[document] for document in hits], column] = _scaled(
            name, np.array([*hits.values()], np.float64)
        )
    return documents, features


def _scaled(name: str, scores: Features) -> Features:
    if not np.isfinite(scores).all():
        raise InvalidValue(f"the scores of {name!r} must be finite numbers, found NaN or infinity")
    differ = (scores != scores[:1]).any()
    return query_scaled(scores[:, None])[:, 0] if differ else np.ones(len(scores))
