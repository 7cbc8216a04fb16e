"""Learns from lists that another system ranked, before a ranker goes live."""

from __future__ import annotations

import math
from dataclasses import replace

from duelrank.algorithms import Algorithm, LogPairs, Represented
from duelrank.core.errors import InvalidRecipe
from duelrank.core.memory import replaced
from duelrank.core.randomness import stream as named_stream
from duelrank.core.registry import spell
from duelrank.core.types import Feedback, Memory, Query, Ranking, State, Stream, Weights, frozen
from duelrank.kernels.projection import norm
from duelrank.representation.base import same_knots

#: The length of the weights that a ranker takes over; how far its exploration goes is relative to it. Longer ones hardly learn any
#: more, shorter ones show what a beginner shows (docs/logs.md).
LENGTH = 10.0
#: From so many lists with a pair on a log is trusted that much; a shorter one in proportion to the square root of its lists.
ENOUGH = 2500


class LogLearner:
    """Learns from lists that another system ranked, for a ranker that goes live later.

    What most algorithms make of clicks supposes that they have made the list, so another one learns from the log, under the same
    representation, and the ranker takes over its weights. All functions are pure: what has been learned is in the states.

    Parameters
    ----------
    algorithm
        Of the ranker; with a representation or without. `InvalidRecipe` is raised where it cannot take over weights.

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
                f"{spell(algorithm)} has a model for each query and no weights, so it cannot take over what a log teaches; use a "
                "recipe with weights, such as wmgd-dsp"
            )
        if algorithm.weights_follow_memory:
            raise InvalidRecipe(
                f"{spell(algorithm)} computes its weights from the pairs that it has seen, so those from a log would be lost "
                "at the first click; use a recipe that moves its weights, such as wmgd-dsp or pdgd"
            )
        self._ranker = algorithm
        learns = LogPairs()
        self.algorithm = replace(algorithm, base=learns) if isinstance(algorithm, Represented) else learns

    def start(self, state: State) -> State:
        """Return the state before the first list of the log: the ranker's weights, and what its representation has seen."""
        return State(state.weights, memory=_seen(state))

    def learn(self, logged: State, query: Query, ranking: Ranking, feedback: Feedback, stream: Stream) -> State:
        """Return the state after one more list of the log.

        Parameters
        ----------
        logged
            The state before it.
        query
            The documents of the list, at least those that were shown.
        ranking
            The indices in the query of the documents that were shown, best first.
        feedback
            What was clicked.
        stream
            The random stream of this list.
        """
        self.algorithm.check_features(logged, query)
        impression = self.algorithm.observe_list(logged, query, ranking, stream)
        return self.algorithm.learn(logged, impression, feedback, stream)

    def handed_over(self, state: State, logged: State) -> State:
        """Return the ranker's state with what the log has taught: the weights, and what the representation has seen.

        The weights get a length that says how much they are trusted: the more lists there were in the log the longer, up to a
        point, and at least as long as the ranker's. The counts stay those of the ranker. What its parts remember stays, too, unless
        it is of other columns. A log without a pair of a click and a skip changes no weights.
        """
        seen = _seen(logged)
        same = same_knots(_seen(state).get("representation", {}), seen.get("representation", {}))
        memory = state.memory if same else self._fresh(len(logged.weights))
        weights = self._ranker.allowed(logged.weights)
        if logged.updates:
            trusted = LENGTH * min(1.0, math.sqrt(logged.updates / ENOUGH))
            weights = _scaled(weights, max(trusted, norm(state.weights)))
        for name, known in seen.items():
            memory = replaced(memory, name, known)
        return State(weights, state.step, state.updates, memory)

    def _fresh(self, n_columns: int) -> Memory:
        """Return what the ranker's parts remember before the first list."""
        base = self._ranker.base if isinstance(self._ranker, Represented) else self._ranker
        return base.start(n_columns, named_stream(0, "start")).memory


def _seen(state: State) -> Memory:
    """Return what a representation has seen, in its place in the memory; nothing where there is none."""
    return {name: known for name, known in state.memory.items() if name == "representation"}


def _scaled(weights: Weights, length: float) -> Weights:
    present = norm(weights)
    return frozen(weights * (length / present)) if present > 0.0 else weights
