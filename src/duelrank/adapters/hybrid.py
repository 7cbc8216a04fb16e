"""Hybrid search: from the scores of sub-queries to the features that a ranker learns the weights of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from duelrank.core.errors import InvalidValue
from duelrank.core.types import Features
from duelrank.representation.base import query_scaled

#: Learns a handful of weights that stay at 0 or above, by short steps; `docs/hybrid.md` has what was measured.
RECIPE = "query-scaled >> wmgd-dsp(step=NonNegative(step=Step(learning_rate=0.05, slow_down=50.0)))"


def table(scores: Mapping[str, Mapping[str, float]]) -> tuple[list[str], Features]:
    """Return the documents that any sub-query found, and their features: one column per sub-query, scaled as the engines do.

    Within each sub-query the largest score becomes 1 and the least 0, or all of them 1 where they are equal; a document that the
    sub-query did not return has 0. OpenSearch's ``min_max`` and Elasticsearch's ``minmax`` do the same, but for the least score in
    OpenSearch, which becomes 0.001. Learn from these features with `RECIPE`, or another ``query-scaled >> ALGORITHM``: scaled
    again, they stay as they are, up to a constant.

    Parameters
    ----------
    scores
        By sub-query, the scores of the documents that it returned, by their ids. The order of the sub-queries is that of the
        columns; documents come in the order in which they are first found.

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
        raise InvalidValue(f"the scores of {name!r} are finite numbers, found NaN or infinity")
    differ = (scores != scores[:1]).any()
    return query_scaled(scores[:, None])[:, 0] if differ else np.ones(len(scores))
