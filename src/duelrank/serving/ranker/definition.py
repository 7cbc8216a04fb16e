"""A ranker as it is defined: its spec, checked, and what follows from it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cached_property

import msgspec
import numpy as np

from duelrank.algorithms import Algorithm
from duelrank.api import Change, RankerSpec
from duelrank.errors import InvalidRecipe, InvalidValue, LimitExceeded, UnknownName
from duelrank.export import LinearModel
from duelrank.grammar import parse
from duelrank.kernels.random import derive, uniform
from duelrank.normalisation import NoNormalisation, Normalisation
from duelrank.randomness import stream, stream_key
from duelrank.serving.log.bodies import EXPLORED, GREEDY, SHADOW, StoredImpression, hash63
from duelrank.serving.settings import Settings
from duelrank.types import Features, Feedback, Impression, Query, Ranking, State, Weights, frozen
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
    weights
        What to start with, where that is not what the algorithm starts with.
    number
        Of the event that created the ranker; earlier events are of another ranker, which had the same name.
    """

    def __init__(self, spec: RankerSpec, created: float, weights: bytes | None = None, number: int = 0) -> None:
        _check(spec)
        self.spec, self.created, self.number, self._start_weights = spec, created, number, weights
        self.algorithm = parse(spec.algorithm, Algorithm)
        if self.algorithm.per_query:
            raise InvalidRecipe(
                f"{spec.algorithm} learns a model for each query, but a service knows only documents and features"
            )
        self.normalisation: Normalisation = Normalisation.from_dict(spec.normalisation, spec.features)
        self._plain = isinstance(self.normalisation, NoNormalisation)
        self.columns = {name: column for column, name in enumerate(spec.features)}
        self._rank_key, self._coin_key = stream_key(spec.seed, "rank"), stream_key(spec.seed, "explore")
        self.learn_key = stream_key(spec.seed, "learn")
        self.model(1, self.start)  # checks the names
        if spec.mode == "shadow":
            two = Query("", np.zeros((2, len(spec.features))))
            self.algorithm.observe_list(self.start, two, np.arange(2), derive(self._rank_key, 0))

    @cached_property
    def start(self) -> State:
        """The state before the first impression."""
        state = self.algorithm.start(len(self.spec.features), stream(self.spec.seed, "start"))
        if self._start_weights is None:
            return state
        if self.algorithm.weights_follow_memory:
            raise InvalidRecipe(
                f"{self.spec.algorithm} computes its weights from all it has seen, so it cannot start from other weights"
            )
        weights = frozen(np.frombuffer(self._start_weights, "<f8").astype(np.float64))
        if weights.shape != state.weights.shape or not np.isfinite(weights).all():
            raise InvalidValue("start has one finite weight per feature")
        return State(weights, state.step, state.updates, state.memory)

    def warm_up(self) -> None:
        """Rank and learn once, for nothing: kernels are compiled before anybody waits for them."""
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
            ("documents in an impression", self.spec.length, settings.max_documents),
        ):
            if found > most:
                raise LimitExceeded(f"a ranker may have at most {most:,} {what} here, got {found:,}")

    def same_as(self, other: Definition) -> bool:
        """Whether two specs mean the same."""
        return (self.algorithm, self.normalisation) == (other.algorithm, other.normalisation) and all(
            getattr(self.spec, name) == getattr(other.spec, name)
            for name in self.spec.__struct_fields__
            if name not in ("algorithm", "normalisation")
        )

    def changed(self, change: Change) -> Definition:
        """Return the definition after a change, the same again where it was made before; raise where it makes no sense."""
        spec, own = self.spec, ("exploration", "close_after", "length", "mode")
        given = {name: value for name in own if (value := getattr(change, name)) is not None}
        for name in change.retire_features:
            if name in change.add_features:
                raise InvalidValue(f"the feature {name!r} cannot be added and retired at once")
            if name not in self.columns and name not in spec.retired:
                raise UnknownName.among("feature", name, spec.features)
        kept = [name for name in spec.features if name not in change.retire_features]
        features = tuple(dict.fromkeys((*kept, *change.add_features)))
        retired = tuple(dict.fromkeys((*spec.retired, *change.retire_features)))
        spec = msgspec.structs.replace(
            spec,
            **given,
            features=features,
            retired=tuple(name for name in retired if name not in features),
            normalisation=_normalisation_without(spec.normalisation, change.retire_features),
        )
        if features != self.spec.features and self.algorithm.weights_follow_memory:
            raise InvalidRecipe(
                f"{spec.algorithm} computes its weights from all it has seen: its features cannot change"
            )
        return self.with_spec(spec)

    def with_spec(self, spec: RankerSpec) -> Definition:
        """Return the same ranker with another spec; it starts where its weights of the same name start."""
        weights = None
        if self._start_weights is not None:
            weights = _by_name(self.spec.features, self.start.weights, spec.features)
        return Definition(spec, self.created, weights, self.number)

    def carried(self, state: State, names: tuple[str, ...]) -> State:
        """Return a state for features of these names as one of this ranker: weights by name; what parts remember starts anew."""
        if names == self.spec.features:
            return state
        weights = np.frombuffer(_by_name(names, state.weights, self.spec.features), "<f8").astype(np.float64)
        memory = self.algorithm.start(len(self.spec.features), stream(self.spec.seed, "start")).memory
        return State(frozen(weights), state.step, state.updates, memory)

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

    def order(
        self, state: State, frozen: bool, id: str, raw: Features, length: int, pinned: State | None = None
    ) -> tuple[list[int], int]:
        """Return the order to show, and how it came about; a shadow shows that of the pinned state, or the client's."""
        number, n_documents = hash63(id), raw.shape[0]
        query = self.query(raw)
        if self.spec.mode == "shadow":
            if pinned is None:
                return list(range(min(length, n_documents))), SHADOW
            return self.algorithm.best(pinned, query, derive(self._rank_key, number))[:length].tolist(), SHADOW
        rate = 0.0 if frozen else self.spec.exploration
        if rate < 1.0 and uniform(derive(self._coin_key, number)) >= rate:
            best = self.algorithm.best(state, query, derive(self._rank_key, number))
            return best[:length].tolist(), GREEDY
        order: list[int] = self.algorithm.rank(state, query, length, derive(self._rank_key, number)).ranking.tolist()
        return order, EXPLORED

    def rebuild(self, state: State, id: str, stored: StoredImpression, raw: Features) -> Impression:
        """Return an impression as it was when it was made, with its trace."""
        query, fresh = self.query(raw), derive(self._rank_key, hash63(id))
        if stored.way == SHADOW:
            ranking: Ranking = np.array(stored.order, np.int64)
            return self.algorithm.observe_list(state, query, ranking, fresh)
        return self.algorithm.rank(state, query, len(stored.order), fresh)

    def model(self, version: int, state: State) -> LinearModel:
        """Return a version as a model that can be taken elsewhere."""
        return LinearModel(self.spec.name, version, self.spec.features, state.weights, self.normalisation)

    def checked_weights(self, given: Mapping[str, float]) -> bytes:
        """Return weights by name as bytes, in the order of the features."""
        for name in given:
            if name not in self.columns:
                raise InvalidValue(f"start: {UnknownName.among('feature', name, self.spec.features)}")
        return np.array([given.get(name, 0.0) for name in self.spec.features], "<f8").tobytes()


def _by_name(names: tuple[str, ...], weights: Weights, wanted: tuple[str, ...]) -> bytes:
    """Return weights of some features as those of others, by name; 0 where there is none of the name."""
    given = dict(zip(names, weights.tolist(), strict=True))
    return np.array([given.get(name, 0.0) for name in wanted], "<f8").tobytes()


def _normalisation_without(normalisation: dict[str, object], names: tuple[str, ...]) -> dict[str, object]:
    features = normalisation.get("features")
    if not isinstance(features, Mapping):
        return normalisation
    return {**normalisation, "features": {name: each for name, each in features.items() if name not in names}}


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
    if twice := set(spec.retired) & set(spec.features):
        raise InvalidValue(f"a feature is either retired or not, and {sorted(twice)[0]!r} is both")
