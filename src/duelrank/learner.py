"""Learner: the one mutable object, and two verbs: rank, learn."""

from __future__ import annotations

from duelrank.algorithms import Algorithm
from duelrank.errors import InvalidValue
from duelrank.grammar import as_part
from duelrank.kernels.random import derive
from duelrank.randomness import stream, stream_key
from duelrank.snapshot import Snapshot
from duelrank.types import Feedback, Impression, Query, Ranking, State, Weights

__all__ = ["Learner"]


class Learner:
    """A ranker that learns: shows lists with `rank`, learns from what users did with them in `learn`.

    Each impression has its own random stream, made from the seed and its number, so what one draws never changes another.

    Parameters
    ----------
    algorithm
        A recipe, or its text, such as ``"mgd-dsp"``.
    n_features
        How many features every document has.
    seed
        A whole number; the same seed and the same calls give the same results, to the bit.
    length
        How many documents a list has where `rank` is not told otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank import Feedback, Learner, Query
    >>> learner = Learner("mgd-dsp", n_features=3, seed=7)
    >>> impression = learner.rank(Query("shoes", [[0.1, 0.9, 0.0], [0.8, 0.2, 0.5], [0.3, 0.3, 1.0]]))
    >>> sorted(impression.ranking.tolist())
    [0, 1, 2]
    >>> learner.learn(impression, Feedback([False, True, False]))
    >>> learner.state.step
    1
    """

    def __init__(self, algorithm: Algorithm | str, n_features: int, seed: int = 0, length: int = 10) -> None:
        self.algorithm: Algorithm = as_part(algorithm, Algorithm)
        if isinstance(n_features, bool) or not isinstance(n_features, int) or n_features < 1:
            raise InvalidValue(f"n_features must be a whole number from 1 up, got {n_features!r}")
        self.n_features = n_features
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise InvalidValue(f"the length of a list is a whole number from 1 up, got {length!r}")
        self.length = length
        self.ranked = 0  # how many lists were made: the number of the next impression
        self._plant(seed)
        self.state: State = self.algorithm.start(n_features, stream(seed, "start"))

    def _plant(self, seed: int) -> None:
        self._rank_key, self._learn_key = stream_key(seed, "rank"), stream_key(seed, "learn")
        self.seed = seed

    @property
    def weights(self) -> Weights:
        """The current weights, read-only."""
        return self.state.weights

    def rank(self, query: Query, length: int | None = None) -> Impression:
        """Return the list to show, with exploration; keep the impression until its feedback is there."""
        fresh = derive(self._rank_key, self.ranked)
        impression = self.algorithm.rank(self.state, query, self.length if length is None else length, fresh)
        self.ranked += 1
        return impression

    def learn(self, impression: Impression, feedback: Feedback) -> None:
        """Learn from what a user did with a list; impressions may come in any order, late, or never."""
        fresh = derive(self._learn_key, self.state.step)
        self.state = self.algorithm.learn(self.state, impression, feedback, fresh)

    def best(self, query: Query) -> Ranking:
        """Return all documents, best first, by the current weights and without exploration."""
        return self.algorithm.best(self.state, query, derive(self._rank_key, self.ranked))

    def snapshot(self) -> Snapshot:
        """Return all that is needed to go on from here."""
        return Snapshot(repr(self.algorithm), self.n_features, self.seed, self.length, self.ranked, self.state)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of the same recipe, as if nothing had happened since."""
        snapshot.check()
        own = (repr(self.algorithm), self.n_features)
        if own != (snapshot.algorithm, snapshot.n_features):
            taken = f"{snapshot.algorithm} with {snapshot.n_features} features"
            raise InvalidValue(f"a snapshot of {taken} does not fit {own[0]} with {own[1]}")
        self._plant(snapshot.seed)
        self.length, self.ranked, self.state = snapshot.length, snapshot.ranked, snapshot.state

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> Learner:
        """Make the learner that a snapshot was taken of."""
        learner = cls(snapshot.algorithm, snapshot.n_features)
        learner.restore(snapshot)
        return learner
