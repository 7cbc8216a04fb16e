"""Defines the base classes of click bandits: one model per query, in a bounded memory of queries."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.base import Algorithm
from duelrank.core.memory import QueryMemory
from duelrank.core.registry import Between
from duelrank.core.types import (
    Clicks,
    Feedback,
    Gradient,
    Impression,
    Memory,
    Query,
    Ranking,
    State,
    Stream,
    Trace,
    Weights,
)
from duelrank.kernels import bandits as kernel
from duelrank.kernels.random import permutation
from duelrank.kernels.ranking import sorted_rows

Model: TypeAlias = NDArray[np.int64]  # (rows, n_documents) counts of one query


@dataclass(frozen=True, repr=False)
class ClickBandit(Algorithm):
    """Learn which documents of a query are clicked, for each query separately and without features.

    Queries share nothing: a query that was never shown is ranked at random, and the weights stay zero, so the score on held-out
    queries is that of a random order. A query is identified by its id, and its documents by their rows in the feature table; if
    their number changes, the model of the query starts again.

    It learns probabilities of clicks, so an action with a larger weight also counts as one click.

    Parameters
    ----------
    queries
        Maximum number of queries to remember; then the one whose last feedback is the oldest is forgotten.
    """

    per_query: ClassVar[bool] = True
    rows: ClassVar[int] = 2  # number of rows of a model

    queries: Annotated[int, Between(1, 1_000_000)] = 10_000

    @abstractmethod
    def show(self, model: Model, rounds: int, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list to show for a query with feedback on ``rounds`` lists, and the trace that `count` needs."""

    @abstractmethod
    def count(self, model: Model, impression: Impression, clicks: Clicks) -> Model:
        """Return the model after the clicks on a list."""

    @abstractmethod
    def attraction(self, model: Model) -> NDArray[np.float64]:
        """Return the value by which `best` sorts the documents."""

    def fresh(self, n_documents: int, length: int) -> Model:
        """Return the model of a query that is shown for the first time, in a list of ``length`` documents."""
        return np.zeros((self.rows, n_documents), np.int64)

    def start(self, n_features: int, stream: Stream) -> State:
        """Return zero weights, which never change, and an empty memory."""
        weights = np.zeros(n_features)
        weights.flags.writeable = False
        return State(weights, memory=self._memory.start())

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Return the list that the model of the query selects."""
        model, rounds = self._model(state, query, length)
        ranking, trace = self.show(model, rounds, length, stream)
        return Impression(query, ranking, trace)

    def best(self, state: State, query: Query, stream: Stream) -> Ranking:
        """Rank all documents by the model of the query, without exploration; at random if the query has no model."""
        self.check_features(state, query)
        model, _ = self._model(state, query, query.n_documents)
        return best_first(self.attraction(model), stream)

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return zeros, and the memory in which the model of the query has counted the clicks."""
        query = impression.query
        model, rounds = self._model(state, query, impression.ranking.shape[0])
        model = self.count(model, impression, feedback.clicks)
        memory = self._memory.write(state.memory, query.id, model, rounds + 1, state.step)
        return np.zeros(state.weights.shape[0]), memory

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Return the weights and memory unchanged: there is no gradient."""
        return state.weights, state.memory

    @cached_property
    def _memory(self) -> QueryMemory:
        return QueryMemory(self.queries)

    def _model(self, state: State, query: Query, length: int) -> tuple[Model, int]:
        """Return the model of a query and its number of lists with feedback; a fresh model if the documents are unknown."""
        n_documents = query.features.shape[0]
        model, rounds = self._memory.read(state.memory, query.id)
        if model.shape[0] != self.rows * n_documents:
            return self.fresh(n_documents, length), 0
        return model.reshape(self.rows, n_documents), rounds


@dataclass(frozen=True, repr=False)
class IndexBandit(ClickBandit):
    """Show the documents with the largest upper confidence bounds on their attraction, best first.

    A click model gives the number of shown documents that were examined: those were attractive if clicked, unattractive if not.
    Counts may be added in any order, so late feedback has the same effect. The papers observe every document once before the first
    round; here the bound of a document that was never examined is infinite. The rounds t are those of the query.
    """

    @abstractmethod
    def bounds(self, model: Model, rounds: int) -> NDArray[np.float64]:
        """Return the upper confidence bound of each document."""

    @abstractmethod
    def examined(self, clicks: Clicks) -> int:
        """Return the number of positions, from the top, that the user examined according to the clicks."""

    def show(self, model: Model, rounds: int, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Sort by the bounds, ties at random."""
        return best_first(self.bounds(model, rounds), stream)[:length], {}

    def count(self, model: Model, impression: Impression, clicks: Clicks) -> Model:
        """Count the examined documents and the clicks."""
        after: Model = kernel.count(model, impression.ranking, clicks, self.examined(clicks))
        return after

    def attraction(self, model: Model) -> NDArray[np.float64]:
        """Return the click rate; a document that was never examined counts as never clicked."""
        rates: NDArray[np.float64] = model[1] / np.maximum(model[0], 1)
        return rates


def best_first(values: NDArray[np.float64], stream: Stream) -> Ranking:
    """Sort documents by their values, best first, ties at random."""
    ranking: Ranking = sorted_rows(values[None, :], permutation(stream, values.shape[0]))[0]
    return ranking
