"""Selects one of many directions by a tournament on past clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from duelrank.exploration.base import Exploration
from duelrank.kernels import history as kernel
from duelrank.kernels.exploration import unit_directions
from duelrank.kernels.random import permutation
from duelrank.registry import Between, register
from duelrank.types import Credit, Directions, Feedback, Impression, Memory, Query, State, Stream

__all__ = ["CandidatePreselection"]

_TABLES = ("history_since", "history_sources", "history_lengths", "history_lists", "history_clicks")


@register
@dataclass(frozen=True, repr=False)
class CandidatePreselection(Exploration):
    """Draw several uniform directions, and try the one that wins a tournament on remembered impressions.

    Random pairs of candidates compete, and the loser is removed, until one is left; ties are broken at random. In a match
    some remembered impressions, drawn with replacement, are replayed as if the pair had been interleaved there: the outcome
    is the expected one over all the ways in which the clicks may be assigned to the two, times the importance weight
    P(list | the pair) / P(list | the rankers that made it). On average that is the outcome that users would have given.

    A replay needs to know how the list was drawn: the ranks and the τ of probabilistic multileaving, and δ, from the trace. `CPS`
    provides them; an impression without them is not remembered. Without remembered impressions, a random direction is tried.
    Defaults and the way to draw pairs are those of the authors' published framework.

    Parameters
    ----------
    n_drawn
        Number of directions in the tournament.
    remembered_impressions
        Number of clicked impressions to remember, the newest ones.
    repetitions
        Number of remembered impressions, drawn with replacement, on which a pair is compared.

    References
    ----------
    Hofmann et al., "Reusing historical interaction data for faster online learning to rank for IR" (WSDM 2013).

    Examples
    --------
    Users want the first document. Of 100 directions drawn blindly about 50 prefer it; of those that win on past clicks:

    >>> from duelrank import Feedback, Learner, Query
    >>> from duelrank.randomness import stream
    >>> learner, query = Learner("cps", n_features=2), Query("shoes", [[1.0, 0.0], [0.0, 1.0]])
    >>> for _ in range(10):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 0))
    >>> choose, state = learner.algorithm.exploration.directions, learner.state.of("exploration")
    >>> sum(bool(u[0] > u[1]) for n in range(100) for u in choose(state, query, stream(1, "draw", n)))
    99
    """

    n_drawn: Annotated[int, Between(1, 1000)] = 6
    remembered_impressions: Annotated[int, Between(1, 1000)] = 10
    repetitions: Annotated[int, Between(1, 10_000)] = 10

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw n_drawn unit vectors and return the one that wins."""
        drawn: Directions = unit_directions(self.n_drawn, state.weights.shape[0], stream)
        best = self._champion(state, drawn, stream) if "history_since" in state.memory else 0
        return drawn[best : best + 1].copy()

    def _champion(self, state: State, drawn: Directions, stream: Stream) -> int:
        """Replay all remembered impressions with all candidates, then run the tournament."""
        memory, n = state.memory, int(np.count_nonzero(state.memory["history_since"] >= 0))
        queries = [memory[f"history_features_{slot}"] for slot in range(n)]
        rankers, tau = state.weights + float(memory["history_delta"]) * drawn, float(memory["history_tau"])
        place = permutation(stream, max(map(len, queries)))  # the order of ties, the same for all rankers
        lists, lengths = memory["history_lists"], memory["history_lengths"].tolist()
        gains = memory["history_clicks"].astype(np.float64, copy=False)
        chances = np.ones((n, self.n_drawn, lists.shape[1]))
        for slot, features in enumerate(queries):
            kernel.replay(rankers, features, lists[slot, : lengths[slot]], place, tau, chances[slot])
        return int(kernel.tournament(chances, gains, memory["history_sources"], self.repetitions, stream))

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Remember the impression in place of the oldest one."""
        trace, features, length = impression.trace, impression.query.features, impression.ranking.shape[0]
        if not trace.keys() >= {"ranks", "tau", "delta"}:
            return state.memory
        tables, tau, delta = self._tables(state.memory, length), float(trace["tau"]), float(trace["delta"])
        slot = int(tables["history_since"].argmin())
        tables["history_since"][slot] = state.step
        tables["history_sources"][slot] = kernel.log_probability(trace["ranks"], len(features), tau)
        tables["history_lengths"][slot] = length
        tables["history_lists"][slot, :length] = impression.ranking
        if feedback.weights is not None:  # until then flags, as stores of earlier versions have
            tables["history_clicks"] = tables["history_clicks"].astype(np.float64, copy=False)
        tables["history_clicks"][slot] = 0
        tables["history_clicks"][slot, :length] = feedback.gains
        how = {"history_tau": np.array(tau), "history_delta": np.array(delta)}
        return {**state.memory, **tables, **how, f"history_features_{slot}": features}

    def _tables(self, memory: Memory, length: int) -> dict[str, NDArray[Any]]:
        """Return copies of the tables of all slots, for lists of at least that length; an empty slot counts as the oldest."""
        slots = self.remembered_impressions
        if "history_since" not in memory:
            memory = {
                "history_since": np.full(slots, -1),
                "history_sources": np.zeros(slots),
                "history_lengths": np.zeros(slots, np.int64),
                "history_lists": np.zeros((slots, length), np.int64),
                "history_clicks": np.zeros((slots, length), np.bool_),
            }
        tables = {name: memory[name].copy() for name in _TABLES}
        missing = length - tables["history_lists"].shape[1]
        if missing > 0:
            for name in ("history_lists", "history_clicks"):
                tables[name] = np.pad(tables[name], ((0, 0), (0, missing)))
        return tables
