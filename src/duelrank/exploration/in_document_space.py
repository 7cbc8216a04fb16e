"""Draws directions from the span of the query's documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from duelrank.exploration.base import Exploration
from duelrank.kernels import exploration as kernel
from duelrank.registry import Between, register
from duelrank.types import Directions, Query, State, Stream

__all__ = ["InDocumentSpace"]


@register
@dataclass(frozen=True, repr=False)
class InDocumentSpace(Exploration):
    """Project uniform directions onto the span of the query's documents before the comparison: other directions have no effect.

    A direction orthogonal to that span changes no score, hence no list and no click. So with all documents, not centred:

    - ``reach="projected"`` is unbiased: the lists are those of `UniformSphere` for the same random draws, and the expected winning
      direction is (δ/d) ∇F̂, the same as without projection, at rank/d of its variance.
    - ``reach="unit"`` explores the unit sphere of the span and expects (δ/rank) ∇F̂ of the utility smoothed within the span:
      unbiased for each query, but queries with a span of low dimension get more weight than others.

    ``centred`` loses nothing either if a list depends only on differences of scores: moving all documents by the same vector
    changes no ranking. ``top`` is biased if documents further down affect a list: directions that only these documents can
    distinguish are never tried.

    Parameters
    ----------
    n_candidates
        Number of directions that are compared with the current ranker at once.
    top
        Use the span of only this number of documents, the best by the current weights; None for all.
    centred
        Subtract the mean document first.
    reach
        The length of a direction: "projected" keeps the length after the projection, "unit" scales it to 1.

    Examples
    --------
    No document of the query has the third feature: clicks can say nothing about its weight, so it is not tried.

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import InDocumentSpace
    >>> from duelrank.randomness import stream
    >>> query = Query("shoes", [[0.2, 0.9, 0.0], [0.7, 0.3, 0.0]])
    >>> tried = InDocumentSpace(n_candidates=4).directions(State(np.zeros(3)), query, stream(1, "draw"))
    >>> np.abs(tried).max(axis=0).round(1).tolist()
    [1.0, 0.9, 0.0]
    """

    n_candidates: Annotated[int, Between(1, 1000, choices=(4, 9, 19, 49))] = 9
    top: Annotated[int, Between(1, 100_000)] | None = None
    centred: bool = False
    reach: Literal["projected", "unit"] = "unit"

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw n_candidates directions in the span; all zero if all documents are equal."""
        rows = kernel.spanning_rows(query.features, state.weights, self.top or query.n_documents, self.centred)
        drawn: Directions = kernel.span_directions(rows, self.n_candidates, self.reach == "unit", stream)
        return drawn
