"""Twins of inference: the winners of a comparison, and the gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax

from duelrank.inference import BestWinner, CreditWeighted, DifficultQueries, MeanWinner
from duelrank.kernels.inference import MARGIN
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.ranking import shown_ranks
from duelrank.lockstep.twin import RUNS, Array, Clicked, Memory, Numbers, Query, Shown, Sizes, State, Twin, twin


class InferenceTwin(Twin, ABC):
    """The twin of an inference; by default without memory."""

    def start(self, length: int) -> Memory:
        """Return the memory before the first impression."""
        return ()

    @abstractmethod
    def infer(
        self,
        numbers: Numbers,
        delta: Array,
        state: State,
        query: Query,
        shown: Shown,
        directions: Array,
        credit: Array,
        clicked: Clicked,
        draws: Draws,
    ) -> tuple[Array, Memory]:
        """Return the gradient and the memory."""


class MarginTwin(InferenceTwin):
    """The twin of an inference that needs only the margins: the credit of each candidate minus that of the current ranker."""

    def infer(
        self,
        numbers: Numbers,
        delta: Array,
        state: State,
        query: Query,
        shown: Shown,
        directions: Array,
        credit: Array,
        clicked: Clicked,
        draws: Draws,
    ) -> tuple[Array, Memory]:
        """Return the gradient; the memory does not change."""
        return self.combine(numbers, directions, credit[1:] - credit[0]), state.memory

    @abstractmethod
    def combine(self, numbers: Numbers, directions: Array, margin: Array) -> Array:
        """Return the gradient from the directions and their margins."""


@twin(MeanWinner)
class MeanWinnerTwin(MarginTwin):
    """Gives all winners equal weight."""

    def combine(self, numbers: Numbers, directions: Array, margin: Array) -> Array:
        """Return the mean winning direction."""
        return maybe_unit(weighted_mean(directions, (margin > MARGIN).astype(directions.dtype)), numbers["unit"])


def weighted_mean(directions: Array, weights: Array) -> Array:
    """Return the weighted mean of the rows, with absolute weights scaled to sum to 1; zero if all are zero."""
    size = jnp.sum(jnp.abs(weights))
    total = jnp.sum(directions * weights[:, None], axis=0)
    return total / jnp.where(size > 0.0, size, 1.0)


def maybe_unit(vector: Array, unit: Array) -> Array:
    """Return the vector, scaled to length 1 if ``unit`` is positive; zero stays."""
    length = jnp.sqrt(jnp.sum(vector * vector))
    return vector / jnp.where((unit > 0.0) & (length > 0.0), length, 1.0)


@twin(BestWinner)
class BestWinnerTwin(MarginTwin):
    """Selects the best winner, the first one of a tie."""

    def combine(self, numbers: Numbers, directions: Array, margin: Array) -> Array:
        """Return the direction with the most credit if it beats the current ranker."""
        best = jnp.argmax(margin)
        return jnp.where(margin[best] > MARGIN, directions[best], 0.0)


@twin(CreditWeighted)
class CreditWeightedTwin(MarginTwin):
    """Weights all directions by their margins; losers may be excluded."""

    def combine(self, numbers: Numbers, directions: Array, margin: Array) -> Array:
        """Return the mean direction, weighted by margins; those within rounding of zero count as zero."""
        counts = (margin > MARGIN) | ((numbers["losers"] > 0.0) & (margin < -MARGIN))
        weights = jnp.where(counts, margin, 0.0).astype(directions.dtype)
        return maybe_unit(weighted_mean(directions, weights), numbers["unit"])


class Hard(NamedTuple):
    """Remembered queries, one per slot: their step (−1: empty), their ease, their rows, the shown documents, and the clicks."""

    since: Array
    ease: Array
    start: Array
    size: Array
    documents: Array
    clicked: Array


@twin(DifficultQueries)
class DifficultQueriesTwin(InferenceTwin):
    """Replays remembered queries only in impressions in which some run needs it."""

    shaping: ClassVar[tuple[str, ...]] = ("slots",)
    codes: ClassVar[dict[str, dict[str, float]]] = {"when": {"filling": 0.0, "tie": 1.0}}

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of the documents of all slots, and of their scores and comparisons."""
        each = 8 * sizes.columns + (24 + 2 * sizes.length) * sizes.rankers
        return super().room(sizes) + int(self.shaped("slots")) * sizes.widest * each

    def start(self, length: int) -> Hard:
        """Return an empty memory."""
        slots = self.shaped("slots")
        zeros = jnp.zeros(slots, jnp.int32)
        lists = jnp.zeros((slots, length), jnp.int32)
        return Hard(zeros - 1, jnp.zeros(slots), zeros, zeros, lists, lists > 0)

    def infer(
        self,
        numbers: Numbers,
        delta: Array,
        state: State,
        query: Query,
        shown: Shown,
        directions: Array,
        credit: Array,
        clicked: Clicked,
        draws: Draws,
    ) -> tuple[Array, Memory]:
        """Return the direction that won, or the mean of the winners if ties are not broken."""
        memory = remember(state.memory, state.step, numbers["window"], query, shown.ranking, clicked)
        won = credit[1:] > credit[0] + MARGIN
        filling = jnp.sum(memory.since >= 0) < memory.since.shape[0]
        tied = (jnp.sum(won) > 1) & ((numbers["when"] > 0.0) | filling)
        fresh = (memory.since >= 0) & (state.step - memory.since <= numbers["window"])
        candidates = state.weights + delta.astype(directions.dtype) * directions
        sums = lax.cond(
            lax.pmax(tied.astype(jnp.int32), RUNS) > 0,
            lambda: replayed_sums(memory, fresh, candidates, query, draws),
            lambda: jnp.zeros(directions.shape[0]),
        )
        best = jnp.argmax(jnp.where(won, sums, -1.0))
        alone = jnp.arange(won.shape[0]) == best
        return weighted_mean(directions, jnp.where(tied, alone, won).astype(directions.dtype)), memory


def replayed_sums(memory: Hard, fresh: Array, candidates: Array, query: Query, draws: Draws) -> Array:
    """Return Σ 1/position of the remembered clicked documents under each candidate."""
    slots, widest = memory.since.shape[0], query.features.shape[0]
    order = draws.order(Purpose.REPLAY_TIES, (slots, widest))
    rows = jnp.minimum(memory.start[:, None] + jnp.arange(widest), query.table.shape[0] - 1)
    scores = jnp.einsum("skd,nd->snk", query.documents(rows), candidates, precision="highest")
    scores = jnp.where((jnp.arange(widest) < memory.size[:, None])[:, None, :], scores, -jnp.inf)
    shown = jnp.take_along_axis(scores, memory.documents[:, None, :], axis=2)
    places = jnp.take_along_axis(order, memory.documents, axis=1)
    ranks = shown_ranks(scores, order[:, None, :], shown, places[:, None, :])
    counts = (memory.clicked & fresh[:, None])[:, None, :]
    return jnp.sum(jnp.where(counts, 1.0 / (ranks + 1.0), 0.0), axis=(0, 2), dtype=jnp.float64)


def remember(memory: Hard, now: Array, window: Array, query: Query, ranking: Array, clicked: Clicked) -> Hard:
    """Put a query with a click into a free slot, one that is too old, or that of an easier query."""
    ease = jnp.sum(jnp.where(clicked.clicks, 1.0 / jnp.arange(1.0, len(ranking) + 1.0), 0.0))
    empty, old = memory.since < 0, now - memory.since > window
    easiest = jnp.argmax(memory.ease)
    slot = jnp.where(jnp.any(empty), jnp.argmax(empty), jnp.where(jnp.any(old), jnp.argmax(old), easiest))
    takes = (jnp.any(empty) | jnp.any(old) | (memory.ease[easiest] > ease)) & (clicked.last > 0)
    here = (jnp.arange(memory.since.shape[0]) == slot) & takes
    return Hard(
        jnp.where(here, now, memory.since),
        jnp.where(here, ease, memory.ease),
        jnp.where(here, query.start, memory.start),
        jnp.where(here, query.size, memory.size),
        jnp.where(here[:, None], ranking, memory.documents),
        jnp.where(here[:, None], clicked.clicks, memory.clicked),
    )
