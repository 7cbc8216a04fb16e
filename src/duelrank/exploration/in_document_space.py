"""Directions that this query's documents can tell apart."""

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
    """Project uniform directions onto the span of the query's documents before the test: nothing is tried that it cannot show.

    What is outside of that span changes no score, hence no list and no click. So with all documents, in their raw form:

    - ``reach="projected"`` is unbiased: the lists are those of `UniformSphere`, coin for coin, and the expected winning direction
      is (δ/d) ∇F̂, the same as without projection, at rank/d of its variance.
    - ``reach="unit"`` explores the unit sphere of the span and expects (δ/rank) ∇F̂ of the utility smoothed within the span:
      unbiased for each query, but one whose documents span little weighs more than one whose documents span a lot.

    ``centred`` loses nothing either as long as a list depends on differences of scores only: moving all documents by the same
    vector changes no ranking. ``top`` is biased wherever documents further down decide a list: what only they could tell is
    never tried.

    Parameters
    ----------
    n_candidates
        How many directions are compared with the current ranker at once.
    top
        Span only so many documents, the best by the current weights; None is all of them.
    centred
        Subtract the mean document first.
    reach
        How long a direction is: "projected" leaves what the projection left of it, "unit" scales it to 1.
    """

    n_candidates: Annotated[int, Between(1, 1000)] = 9
    top: Annotated[int, Between(1, 100_000)] | None = None
    centred: bool = False
    reach: Literal["projected", "unit"] = "unit"

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw n_candidates directions in the span; all zero where the documents are all alike."""
        rows = kernel.spanning_rows(query.features, state.weights, self.top or query.n_documents, self.centred)
        drawn: Directions = kernel.span_directions(rows, self.n_candidates, self.reach == "unit", stream)
        return drawn
