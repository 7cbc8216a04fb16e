"""Adapts a learner to a PyTerrier transformer; needs the extra ``pyterrier`` but no Java."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import MissingExtra
from duelrank.core.types import Query
from duelrank.representation.base import query_scaled

try:
    import pandas as pd
    import pyterrier as pt
except ImportError:
    raise MissingExtra("duelrank.adapters.pyterrier needs PyTerrier: pip install 'duelrank[pyterrier]'") from None


class _Scoring(Protocol):
    """An object that scores documents, such as a learner."""

    def score(self, query: Query) -> NDArray[np.float64]: ...


class Reranker(pt.Transformer):
    """Score documents as a ranker currently does; made by `Learner.to_pyterrier`.

    Parameters
    ----------
    ranker
        The object, such as a `Learner`, that scores the documents.
    scale
        "query": first scale every feature to [0, 1] within each query; "none": do not scale.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from duelrank import Learner
    >>> reranker = Learner("pdgd", weights=[1.0, 0.0]).to_pyterrier()
    >>> features = [np.array([0.2, 0.9]), np.array([0.8, 0.1])]
    >>> found = reranker(pd.DataFrame({"qid": ["q1", "q1"], "docno": ["d1", "d2"], "features": features}))
    >>> found["score"].tolist()
    [0.2, 0.8]
    """

    def __init__(self, ranker: _Scoring, scale: Literal["none", "query"] = "none") -> None:
        super().__init__()
        self.ranker, self.scale = ranker, scale

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the documents with new scores and ranks."""
        pt.validate.result_frame(inp, extra_columns=["features"])
        scores = np.zeros(len(inp))
        for qid, rows in inp.groupby("qid").indices.items():
            scores[rows] = self._scores(Query(str(qid), np.stack(inp["features"].iloc[rows].tolist())))
        return pt.model.add_ranks(inp.assign(score=scores))

    def _scores(self, query: Query) -> NDArray[np.float64]:
        if self.scale == "query":
            query = Query(query.id, query_scaled(query.features))
        return self.ranker.score(query)
