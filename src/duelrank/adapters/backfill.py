"""Learns from the logs of another system, or from its order alone, before a ranker goes live."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from duelrank.algorithms import Algorithm, LogPairs, Represented
from duelrank.core.errors import InvalidRecipe
from duelrank.core.memory import completed, lasting, replaced
from duelrank.core.randomness import stream as named_stream
from duelrank.core.registry import spell
from duelrank.core.types import Feedback, Memory, Query, Ranking, State, Stream, Weights, frozen
from duelrank.kernels.projection import norm
from duelrank.representation.base import same_knots

#: Norm of the weights that a ranker starts with after a full log. Exploration is relative to it: with a larger norm a ranker hardly
#: learns from clicks, with a smaller one it shows the lists of an untrained ranker (docs/logs.md).
LENGTH = 10.0
#: Number of lists with a pair of a click and a skip in a full log; a shorter log gets a norm in proportion to its square root.
ENOUGH = 2500
#: Default number of lists whose order a guarded ranker without start weights imitates first (docs/guard.md).
IMITATE = 300
#: Number of documents at the top of a list whose order is imitated: the time for a list grows with the square.
IMITATED_DOCUMENTS = 100
#: Number of logged lists that one imitated list is worth for the norm of the weights: an order has no noise (docs/guard.md).
IMITATED_WORTH = 3


class LogLearner:
    """Learns from lists that another system ranked, for a ranker that goes live later.

    Most algorithms can learn only from lists that they ranked themselves. So another algorithm, `LogPairs`, learns from the log
    with the same representation, and the ranker takes over its weights. All functions are pure: the states hold what has been
    learned.

    Parameters
    ----------
    algorithm
        Algorithm of the ranker, with or without a representation. `InvalidRecipe` is raised if it cannot take over weights.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank import Feedback, Query, parse
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.adapters.backfill import LogLearner
    >>> ranker = parse("mgd-dsp")
    >>> state = ranker.start(2, stream(1, "start"))
    >>> log = LogLearner(ranker)
    >>> shown, clicked = Query("shoes", [[0.1, 0.9], [0.8, 0.2]]), Feedback([False, True])
    >>> logged = log.learn(log.start(state), shown, np.array([1, 0]), clicked, stream(1, "log"))
    >>> log.handed_over(state, logged).weights.round(2).tolist()
    [-0.14, 0.14]
    """

    algorithm: Algorithm

    def __init__(self, algorithm: Algorithm) -> None:
        if algorithm.per_query:
            raise InvalidRecipe(
                f"{spell(algorithm)} has a model for each query and no weights, so it cannot learn from a log; use a "
                "recipe with weights, such as wmgd-dsp"
            )
        if algorithm.weights_follow_memory:
            raise InvalidRecipe(
                f"{spell(algorithm)} computes its weights from the pairs that it has seen, so the weights from a log would be lost "
                "at the first click; use a recipe that updates its weights, such as wmgd-dsp or pdgd"
            )
        algorithm.check_linear("it cannot take over the weights that a log teaches; use a linear recipe, such as pdgd")
        self._ranker = algorithm
        learns = LogPairs()
        self.algorithm = replace(algorithm, base=learns) if isinstance(algorithm, Represented) else learns

    @staticmethod
    def supports(algorithm: Algorithm) -> bool:
        """Whether an algorithm can take over weights."""
        return algorithm.linear and not (algorithm.per_query or algorithm.weights_follow_memory)

    def start(self, state: State) -> State:
        """Return the state before the first list of the log: the weights and the representation of the ranker."""
        return State(state.weights, memory=_seen(state))

    def learn(self, logged: State, query: Query, ranking: Ranking, feedback: Feedback, stream: Stream) -> State:
        """Return the state after one more list of the log.

        Parameters
        ----------
        logged
            The state before the list.
        query
            The documents of the list, at least those that were shown.
        ranking
            The indices of the shown documents, best first.
        feedback
            The clicks on the list.
        stream
            The random stream of this list.
        """
        self.algorithm.check_features(logged, query)
        impression = self.algorithm.observe_list(logged, query, ranking, stream)
        return self.algorithm.learn(logged, impression, feedback, stream)

    def imitate(self, logged: State, query: Query, ranking: Ranking, stream: Stream) -> State:
        """Return the state after one more list that is imitated: each document is better than all below it, clicked or not.

        A pair counts by its distance in the list, and the list as `IMITATED_WORTH` updates. What is known of users does not change,
        unless the columns of the representation do: it is about these.

        Parameters
        ----------
        logged
            The state before the list.
        query, ranking
            The documents, and the order to imitate, best first.
        stream
            The random stream of this list.
        """
        order = ranking[:IMITATED_DOCUMENTS]
        gains = np.arange(len(order), 0.0, -1.0)
        after = self.learn(logged, query, order, Feedback.trusted(gains > 0.0, None, gains), stream)
        known = after.memory
        if _same_columns(logged, after):  # else the examination model, which has a number for each column, starts again
            known = replaced(known, "examination", logged.of("examination").memory)
        return replace(after, memory=known, updates=logged.updates + IMITATED_WORTH * (after.updates - logged.updates))

    def handed_over(self, state: State, logged: State) -> State:
        """Return the ranker's state with the weights and the representation that were learned from the log.

        The norm of the weights grows with the number of lists in the log, up to `LENGTH`, and is at least that of the ranker's
        weights. The counts of the ranker do not change, nor does the memory of its parts, unless its columns changed; what it
        remembers of queries stays. A log without a pair of a click and a skip does not change the weights.
        """
        memory = state.memory if _same_columns(state, logged) else self._fresh(state, len(logged.weights))
        weights = self._ranker.allowed(logged.weights)
        if logged.updates:
            trusted = LENGTH * min(1.0, math.sqrt(logged.updates / ENOUGH))
            weights = _scaled(weights, max(trusted, norm(state.weights)))
        for name, known in _seen(logged).items():
            memory = replaced(memory, name, known)
        return State(weights, state.step, state.updates, memory)

    def _fresh(self, state: State, n_columns: int) -> Memory:
        """Return the memory of the ranker's parts before the first list, with what it remembers of queries."""
        base = self._ranker.base if isinstance(self._ranker, Represented) else self._ranker
        return completed(lasting(state.memory, self._ranker), base.start(n_columns, named_stream(0, "start")).memory)


def _seen(state: State) -> Memory:
    """Return the memory of the representation, by its name; empty if there is none."""
    return {name: known for name, known in state.memory.items() if name == "representation"}


def _same_columns(one: State, other: State) -> bool:
    return same_knots(one.memory.get("representation", {}), other.memory.get("representation", {}))


def _scaled(weights: Weights, length: float) -> Weights:
    present = norm(weights)
    return frozen(weights * (length / present)) if present > 0.0 else weights
