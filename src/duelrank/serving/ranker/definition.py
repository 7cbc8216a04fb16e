"""A ranker as it was defined: its spec, checked, and what follows from it."""

from __future__ import annotations

import math
import re

import numpy as np

from duelrank.algorithms import Algorithm
from duelrank.api import RankerSpec
from duelrank.errors import InvalidRecipe, InvalidValue, LimitExceeded
from duelrank.export import LinearModel, NoNormalisation, Normalisation
from duelrank.grammar import parse
from duelrank.kernels.random import derive, uniform
from duelrank.randomness import stream, stream_key
from duelrank.serving.log.bodies import EXPLORED, GREEDY, SHADOW, Shown, hash63
from duelrank.serving.settings import Settings
from duelrank.types import Features, Feedback, Impression, Query, Ranking, State
from duelrank.validation import whole_number

__all__ = ["Definition"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class Definition:
    """A spec with its parts made; refuses what cannot be served.

    Parameters
    ----------
    spec
        What was asked for.
    created
        When, in seconds.
    """

    def __init__(self, spec: RankerSpec, created: float) -> None:
        _check(spec)
        self.spec, self.created = spec, created
        self.algorithm = parse(spec.algorithm, Algorithm)
        if self.algorithm.per_query:
            raise InvalidRecipe(
                f"{spec.algorithm} learns each query by itself, and a service knows only lists and features"
            )
        self.normalisation: Normalisation = Normalisation.from_dict(spec.normalisation, spec.features)
        self._plain = isinstance(self.normalisation, NoNormalisation)
        self.columns = {name: column for column, name in enumerate(spec.features)}
        self._rank_key, self._coin_key = stream_key(spec.seed, "rank"), stream_key(spec.seed, "explore")
        self.learn_key = stream_key(spec.seed, "learn")
        self.start: State = self.algorithm.start(len(spec.features), stream(spec.seed, "start"))
        self.model(1, self.start)  # checks the names
        if spec.mode == "shadow":
            two = Query("", np.zeros((2, len(spec.features))))
            self.algorithm.observe_list(self.start, two, np.arange(2), derive(self._rank_key, 0))

    def warm(self) -> None:
        """Rank and learn once, for nothing: what is compiled on the first call is compiled before anybody waits for it."""
        raw = np.frombuffer(np.eye(3, len(self.spec.features)).tobytes()).reshape(3, -1)
        query, fresh = self.query(raw), derive(self._rank_key, 0)
        self.algorithm.best(self.start, query, fresh)
        made = [self.algorithm.rank(self.start, query, 2, fresh)]
        if self.spec.mode == "shadow":
            made.append(self.algorithm.observe_list(self.start, query, np.arange(2), fresh))
        for impression in made:
            feedback = Feedback.trusted(np.array([False, True]), None)
            self.algorithm.learn(self.start, impression, feedback, derive(self.learn_key, 0))

    def check_limits(self, settings: Settings) -> None:
        """Raise where it is larger than a service is set up for."""
        for what, found, most in (
            ("features", len(self.spec.features), settings.max_features),
            ("documents in a list", self.spec.length, settings.max_documents),
        ):
            if found > most:
                raise LimitExceeded(f"a ranker may have at most {most:,} {what} here, got {found:,}")

    def same_as(self, other: Definition) -> bool:
        """Whether two specs mean the same."""
        return (self.algorithm, self.normalisation) == (other.algorithm, other.normalisation) and all(
            getattr(self.spec, name) == getattr(other.spec, name)
            for name in ("name", "features", "length", "exploration", "mode", "seed", "close_after")
        )

    def query(self, raw: Features) -> Query:
        """Return documents as the algorithm sees them."""
        if self._plain:
            return Query.trusted("", raw)
        with np.errstate(over="ignore", invalid="ignore"):
            features = np.ascontiguousarray(self.normalisation.apply(raw))
            total = features.sum()
        if not math.isfinite(total) and not np.isfinite(features).all():
            raise InvalidValue("features are beyond the largest number after their normalisation")
        features.flags.writeable = False
        return Query.trusted("", features)

    def show(
        self, state: State, frozen: bool, key: str, raw: Features, length: int, pin: State | None = None
    ) -> tuple[list[int], int]:
        """Return the order to show, and how it came about; a shadow shows that of the pinned state, or the client's."""
        number, n_documents = hash63(key), raw.shape[0]
        query = self.query(raw)
        if self.spec.mode == "shadow":
            if pin is None:
                return list(range(min(length, n_documents))), SHADOW
            return self.algorithm.best(pin, query, derive(self._rank_key, number))[:length].tolist(), SHADOW
        rate = 0.0 if frozen else self.spec.exploration
        if rate < 1.0 and uniform(derive(self._coin_key, number)) >= rate:
            best = self.algorithm.best(state, query, derive(self._rank_key, number))
            return best[:length].tolist(), GREEDY
        order: list[int] = self.algorithm.rank(state, query, length, derive(self._rank_key, number)).ranking.tolist()
        return order, EXPLORED

    def rebuild(self, state: State, key: str, shown: Shown) -> Impression:
        """Return the impression as it was when the list was made, with its trace."""
        query, fresh = self.query(shown.raw()), derive(self._rank_key, hash63(key))
        if shown.way == SHADOW:
            ranking: Ranking = np.array(shown.order, np.int64)
            return self.algorithm.observe_list(state, query, ranking, fresh)
        return self.algorithm.rank(state, query, len(shown.order), fresh)

    def model(self, version: int, state: State) -> LinearModel:
        """Return a version as a model that can be taken elsewhere."""
        return LinearModel(self.spec.name, version, self.spec.features, state.weights, self.normalisation)


def _check(spec: RankerSpec) -> None:
    if not _NAME.fullmatch(spec.name):
        raise InvalidValue(
            f"a ranker's name has letters, digits and _ . - and begins with one of the first two, got {spec.name!r}"
        )
    whole_number("length", spec.length)
    if not 0.0 <= spec.exploration <= 1.0:
        raise InvalidValue(f"the exploration rate is from 0 to 1, got {spec.exploration!r}")
    if not 0.0 < spec.close_after <= 1e9:
        raise InvalidValue(f"close_after is a number of seconds above 0, got {spec.close_after!r}")
    if spec.mode not in ("learn", "shadow", "frozen"):
        raise InvalidValue(f"the mode is learn, shadow or frozen, got {spec.mode!r}")
    whole_number("seed", spec.seed, 0, (1 << 63) - 1)
