"""Adapts a learner to a PyTerrier transformer; needs the extra ``pyterrier`` but no Java."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
import pandas as pd
import pyterrier as pt

from duelrank.errors import ShapeMismatch
from duelrank.kernels.preparation import scale_queries
from duelrank.types import Query, Weights

__all__ = ["Reranker"]


class _Weighted(Protocol):
    """An object that has weights, such as a learner."""

    @property
    def weights(self) -> Weights: ...


class Reranker(pt.Transformer):
    """Score documents by a ranker's current weights; made by `Learner.to_pyterrier`.

    Parameters
    ----------
    ranker
        The object, such as a `Learner`, whose current weights score the documents.
    scale
        "query": first scale every feature to [0, 1] within each query; "none": do not scale.
    """

    def __init__(self, ranker: _Weighted, scale: Literal["none", "query"] = "none") -> None:
        super().__init__()
        self.ranker, self.scale = ranker, scale

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the documents with new scores and ranks."""
        pt.validate.result_frame(inp, extra_columns=["features"])
        scores = np.zeros(len(inp))
        for qid, rows in inp.groupby("qid").indices.items():
            scores[rows] = self._scores(Query(str(qid), np.stack(inp["features"].iloc[rows].tolist())))
        return pt.model.add_ranks(inp.assign(score=scores))

    def _scores(self, query: Query) -> Weights:
        weights, features = self.ranker.weights, query.features
        if features.shape[1] != len(weights):
            found = features.shape[1]
            raise ShapeMismatch(f"the ranker has {len(weights)} features, query {query.id!r} has {found}")
        if self.scale == "query":
            scaled = np.empty_like(features)
            scale_queries(features, np.array([0, len(features)]), np.arange(len(weights)), scaled)
            features = scaled
        scores: Weights = features @ weights
        return scores
