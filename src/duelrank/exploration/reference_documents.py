"""Draws directions that are mixtures of reference documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.exploration.base import Exploration
from duelrank.kernels.exploration import normalise_rows, unit_directions
from duelrank.kernels.random import permutation
from duelrank.kernels.ranking import scores
from duelrank.registry import Between, register
from duelrank.types import Credit, Directions, Features, Feedback, Impression, Memory, Query, State, Stream

__all__ = ["ReferenceDocuments"]

#: References come from at least this many impressions: the documents of one query are too similar.
_IMPRESSIONS = 10


@register
@dataclass(frozen=True, repr=False)
class ReferenceDocuments(Exploration):
    """Explore similarities to m reference documents instead of single features.

    The score of a document d is Σ_j θ_j · (d · r_j)/‖r_j‖ with r_j the references. That is linear in d, the score under the
    weights Σ_j θ_j r_j/‖r_j‖. So a direction is u = Σ_j θ_j r_j/‖r_j‖ with θ uniform on the m-sphere (E‖u‖² is 1), and to move w
    along the winners' u is to move θ along theirs. A similarity is not also divided by ‖d‖, as a cosine would be: it would not be
    linear, and no weights would rank by it. (The published code does not even divide by ‖r_j‖.)

    The paper samples the references from the collection, which an online learner does not have. Here a few random documents of
    each of the first clicked impressions, a tenth of m, are kept until there are m; until then random documents of the
    current query replace the missing ones.

    Parameters
    ----------
    n_candidates
        Number of directions that are compared with the current ranker at once.
    n_references
        Number of reference documents (the paper's m).

    References
    ----------
    Oosterhuis and de Rijke, "Balancing speed and quality in online learning to rank for information retrieval" (CIKM 2017).

    Examples
    --------
    Documents of two kinds give directions of two dimensions, however many features they have:

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import ReferenceDocuments
    >>> from duelrank.randomness import stream
    >>> query = Query("shoes", [[0.9, 0.1, 0.8, 0.0, 0.3], [0.0, 0.7, 0.1, 0.9, 0.2]])
    >>> tried = ReferenceDocuments(n_candidates=9).directions(State(np.zeros(5)), query, stream(1, "draw"))
    >>> tried.shape, int(np.linalg.matrix_rank(tried))
    ((9, 5), 2)
    """

    n_candidates: Annotated[int, Between(1, 1000, choices=(4, 9, 19, 49))] = 9
    n_references: Annotated[int, Between(1, 10_000)] = 50

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw θ for each candidate and mix the references."""
        known = state.memory.get("references")
        if known is None or known.shape[1] < self.n_references:
            known = self._filled(known, query.features, stream)
        drawn: Directions = scores(unit_directions(self.n_candidates, known.shape[1], stream), known)
        return drawn

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Keep some documents of the query as references, until there are enough."""
        known, features = state.memory.get("references"), impression.query.features
        missing = self.n_references - (0 if known is None else known.shape[1])
        if missing == 0:
            return state.memory
        share = min(missing, -(-self.n_references // _IMPRESSIONS))
        fresh = _columns(features[features.any(axis=1)], share, stream)
        return {**state.memory, "references": fresh if known is None else np.hstack((known, fresh))}

    def _filled(self, known: Features | None, features: Features, stream: Stream) -> Features:
        """Return the references, with documents of the query in place of missing ones, as far as the query has enough."""
        missing = self.n_references - (0 if known is None else known.shape[1])
        fresh = _columns(features, missing, stream)
        return fresh if known is None else np.hstack((known, fresh))


def _columns(features: Features, n: int, stream: Stream) -> Features:
    """Choose up to n of the documents at random; return them as columns of length 1."""
    rows: Features = features[permutation(stream, features.shape[0])[:n]]
    normalise_rows(rows)
    return np.ascontiguousarray(rows.T)
