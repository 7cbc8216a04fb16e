"""Stage 2: proposes directions in which the ranker may move, from which candidate rankers are made."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.core.memory import replaced
from duelrank.core.registry import Between, Part, register
from duelrank.core.types import (
    Credit,
    Directions,
    Features,
    Feedback,
    Impression,
    Memory,
    Query,
    State,
    Stream,
    Weights,
)
from duelrank.kernels import exploration as kernel
from duelrank.kernels.exploration import normalise_rows, unit_directions
from duelrank.kernels.projection import dot, norm, qr_basis
from duelrank.kernels.random import permutation
from duelrank.kernels.ranking import scores

_IMPRESSIONS = (
    10  # `ReferenceDocuments` uses at least this many impressions: the documents of one query are too similar
)
_TABLES = ("history_since", "history_sources", "history_lengths", "history_lists", "history_clicks")


@dataclass(frozen=True, repr=False)
class Exploration(Part, ABC):
    """Propose unit directions in which the current ranker may move; optionally learn from the results.

    ``state.memory`` is the memory of this part only, and so is the result of `observe`.
    """

    kind: ClassVar[str] = "exploration"

    @abstractmethod
    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw the candidate directions for one query."""

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Return the memory after a comparison with at least one click; by default it does not change."""
        return state.memory


@register
@dataclass(frozen=True, repr=False)
class UniformSphere(Exploration):
    """Try directions drawn uniformly from the unit sphere of all features.

    It is unbiased: the expected winning direction is proportional to the gradient of the smoothed utility.

    Parameters
    ----------
    n_candidates
        Number of directions that are compared with the current ranker at once.

    References
    ----------
    Yue and Joachims, "Interactively optimizing information retrieval systems as a dueling bandits problem" (ICML 2009).

    Examples
    --------
    Four rankers to try, all equally far from the current one:

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import UniformSphere
    >>> from duelrank.core.randomness import stream
    >>> query = Query("shoes", [[0.2, 0.9, 0.1], [0.7, 0.3, 0.4]])
    >>> tried = UniformSphere(n_candidates=4).directions(State(np.zeros(3)), query, stream(1, "draw"))
    >>> np.linalg.norm(tried, axis=1).round(6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    n_candidates: Annotated[int, Between(1, 1000, choices=(4, 9, 19, 49))] = 1

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw n_candidates unit vectors."""
        drawn: Directions = kernel.unit_directions(self.n_candidates, state.weights.shape[0], stream)
        return drawn


@register
@dataclass(frozen=True, repr=False)
class OppositePair(Exploration):
    """Try a direction u drawn uniformly from the unit sphere, and −u.

    If u makes the ranker worse, −u makes it better: one of the two directions of every draw is right.

    References
    ----------
    Zhao and King, "Constructing reliable gradient exploration for online learning to rank" (CIKM 2016).

    Examples
    --------
    Two rankers to try, on opposite sides of the current one:

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import OppositePair
    >>> from duelrank.core.randomness import stream
    >>> query = Query("shoes", [[0.2, 0.9, 0.1], [0.7, 0.3, 0.4]])
    >>> one, other = OppositePair().directions(State(np.zeros(3)), query, stream(1, "draw"))
    >>> (one + other).tolist()
    [0.0, 0.0, 0.0]
    """

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw u; return the rows u and −u."""
        drawn = kernel.unit_directions(1, state.weights.shape[0], stream)
        return np.concatenate((drawn, -drawn))


@register
@dataclass(frozen=True, repr=False)
class InDocumentSpace(Exploration):
    """Project uniform directions onto the span of the query's documents before the comparison: other directions have no effect.

    A direction orthogonal to that span changes no score, hence no list and no click. With all documents, not centred:

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
    >>> from duelrank.core.randomness import stream
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


@register
@dataclass(frozen=True, repr=False)
class NullSpace(Exploration):
    """Try directions that are orthogonal to the recent directions that lost most clearly.

    Of several directions drawn uniformly from that complement, those with the largest absolute product with the mean document of
    the query are kept. A candidate is remembered as a loser if it has less credit than the current ranker and no more than the
    ``n_low``-th smallest of all.

    The published code does not draw uniformly: it weights, by normal numbers, the vectors of the basis that symbolic elimination
    (sympy's ``nullspace``) gives, which have length 1 but are not orthogonal to each other. Directions that several of them share
    are more frequent there. The margins of losers that do not exist yet are uninitialised memory, so it is undefined which of the
    first losers it avoids; here it is all of them.

    Parameters
    ----------
    n_candidates
        Number of directions that are compared with the current ranker at once.
    remembered_losers
        Number of losing directions to remember, the newest ones.
    avoided
        Number of those, with the worst margins, that span the avoided space; fewer if there are fewer features, so that at least
        one dimension is left to explore.
    n_low
        Number of lowest credits that count as low.

    References
    ----------
    Wang et al., "Efficient exploration of gradient space for online learning to rank" (SIGIR 2018).

    Examples
    --------
    A ranker that preferred the first feature has lost clearly; the next candidates do not change that feature:

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import NullSpace
    >>> from duelrank.core.randomness import stream
    >>> lost = State(np.zeros(3), memory={"avoided": np.array([[1.0, 0.0, 0.0]])})
    >>> tried = NullSpace(n_candidates=4).directions(lost, Query("shoes", [[0.2, 0.9, 0.1]]), stream(1, "draw"))
    >>> np.abs(tried).max(axis=0).round(2).tolist()
    [0.0, 0.99, 0.72]
    """

    n_candidates: Annotated[int, Between(1, 1000, choices=(4, 9, 19, 49))] = 9
    remembered_losers: Annotated[int, Between(1, 10_000)] = 60
    avoided: Annotated[int, Between(0, 10_000)] = 25
    n_low: Annotated[int, Between(1, 1001, tuned=(1, 10))] = 4

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw 2 (n_candidates + 1) directions from the complement and keep n_candidates."""
        avoided = state.memory.get("avoided")
        if avoided is None:
            avoided = np.empty((0, state.weights.shape[0]))
        n_drawn = 2 * (self.n_candidates + 1)
        kept: Directions = kernel.null_space_directions(avoided, query.features, n_drawn, self.n_candidates, stream)
        return kept

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Remember the directions that lost, and an orthonormal basis of those to avoid."""
        memory, directions = state.memory, impression.trace["directions"]
        n_features = directions.shape[1]
        old_losers, old_margins = memory.get("losers"), memory.get("loser_margins")
        if old_losers is None or old_margins is None:
            old_losers, old_margins = np.empty((0, n_features)), np.empty(0)
        losers, margins = kernel.remember_losers(
            old_losers, old_margins, directions, credit, self.n_low, self.remembered_losers
        )
        if losers is old_losers:
            return memory
        worst = kernel.worst_rows(losers, margins, min(self.avoided, n_features - 1))
        return {**memory, "losers": losers, "loser_margins": margins, "avoided": qr_basis(worst, -1.0)}


@register
@dataclass(frozen=True, repr=False)
class ReferenceDocuments(Exploration):
    """Explore similarities to m reference documents instead of single features.

    The score of a document d is Σ_j θ_j · (d · r_j)/‖r_j‖ with r_j the references. That is linear in d, the score under the
    weights Σ_j θ_j r_j/‖r_j‖. So a direction is u = Σ_j θ_j r_j/‖r_j‖ with θ uniform on the m-sphere (E‖u‖² is 1), and to move w
    along the winners' u is to move θ along theirs. A similarity is not divided by ‖d‖, as a cosine would be: it would not be linear
    in d. (The published code does not divide by ‖r_j‖ either.)

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
    >>> from duelrank.core.randomness import stream
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


@register
@dataclass(frozen=True, repr=False)
class SpeedThenQuality(Exploration):
    """Explore the space of a few reference documents until the weights stop changing direction, then all features.

    The weights have stopped if their cosine with the weights h clicked impressions before is above 1 − ε; here that is checked
    after every h clicked impressions, in the published code after each. Exploration never switches back. The weights do not change
    at the switch: both spaces share them. (The published code learns θ instead, and also changes the length of the weights.)

    Parameters
    ----------
    fast
        The first exploration; later the same number of directions is drawn uniformly from the unit sphere of all features.
    lookback
        Number of clicked impressions between the weights that are compared (the paper's h).
    least_turn
        1 − cosine below which the weights have stopped changing direction (the paper's ε).

    References
    ----------
    Oosterhuis and de Rijke, "Balancing speed and quality in online learning to rank for information retrieval" (CIKM 2017).

    Examples
    --------
    With documents of two kinds, two dimensions are explored at first; all five once the weights have converged there:

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import SpeedThenQuality
    >>> from duelrank.core.randomness import stream
    >>> query = Query("shoes", [[0.9, 0.1, 0.8, 0.0, 0.3], [0.0, 0.7, 0.1, 0.9, 0.2]])
    >>> first, later = State(np.zeros(5)), State(np.zeros(5), memory={"cascaded": np.array(True)})
    >>> tried = [SpeedThenQuality().directions(state, query, stream(1, "draw")) for state in (first, later)]
    >>> [int(np.linalg.matrix_rank(each)) for each in tried]
    [2, 5]
    """

    fast: ReferenceDocuments = ReferenceDocuments()
    lookback: Annotated[int, Between(1, 1_000_000)] = 10
    least_turn: Annotated[float, Between(0.0, 2.0)] = 0.01

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw from the space that is currently explored."""
        if "cascaded" not in state.memory:
            return self.fast.directions(state.of("fast"), query, stream)
        drawn: Directions = unit_directions(self.fast.n_candidates, state.weights.shape[0], stream)
        return drawn

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Compare the weights with earlier ones; once they have converged, drop the memory of the fast exploration."""
        memory = state.memory
        if "cascaded" in memory:
            return memory
        before, age = memory.get("checkpoint"), int(memory.get("checkpoint_age", 0))
        if before is None or age == self.lookback:
            if before is not None and _direction_change(before, state.weights) < self.least_turn:
                return {"cascaded": np.array(True)}
            before, age = state.weights, 0
        fast = self.fast.observe(state.of("fast"), impression, feedback, credit, stream)
        return {**replaced(memory, "fast", fast), "checkpoint": before, "checkpoint_age": np.array(age + 1)}


def _direction_change(before: Weights, now: Weights) -> float:
    """Return 1 − the cosine between two vectors; infinite if one is zero."""
    lengths = norm(before) * norm(now)
    return 1.0 - dot(before, now) / lengths if lengths > 0.0 else math.inf


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
    Users want the first document. Of 100 random directions, about 50 prefer it; of 100 that win on past clicks:

    >>> from duelrank import Feedback, Learner, Query
    >>> from duelrank.core.randomness import stream
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
        if feedback.weights is not None:  # without weights the table has flags, as in stores of earlier versions
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
