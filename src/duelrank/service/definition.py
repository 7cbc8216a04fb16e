"""A ranker's definition: its specification, checked, with its algorithm and representation; and where a new ranker starts.

`duelrank.service.http.schema` has the structs of the API, and `duelrank.service.log` those of the store; `converted` turns one kind
into another.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from duelrank.adapters.backfill import IMITATE, LogLearner
from duelrank.algorithms import Algorithm
from duelrank.algorithms.remembered import Remember, Remembrance, click_rate, document_keys, memory_of
from duelrank.algorithms.represented import Represented
from duelrank.core.errors import InvalidRecipe, InvalidValue, LimitExceeded, UnknownName
from duelrank.core.grammar import parse
from duelrank.core.memory import completed, for_ranking, lasting, replaced
from duelrank.core.randomness import stream, stream_key
from duelrank.core.registry import spell, walk
from duelrank.core.types import (
    NO_BOOSTS,
    Boosts,
    Features,
    Feedback,
    Impression,
    Memory,
    Query,
    Ranking,
    State,
    Stream,
    Weights,
    frozen,
)
from duelrank.core.validation import printable_name, whole_number
from duelrank.evidence import GuardSpec
from duelrank.evidence.guard import check_guard, draw_kind, guard_list
from duelrank.exploration import Exploration
from duelrank.export import LinearModel, Model, supported_formats
from duelrank.kernels.exploration import unit_directions
from duelrank.kernels.projection import norm
from duelrank.kernels.random import derive, uniform
from duelrank.multileaving import Multileaver
from duelrank.representation import Chain, Fixed, Interactions, QueryScaled, Raw, Representation
from duelrank.representation.base import by_feature, knots_of, split_missing, with_knots, with_missing
from duelrank.representation.curves import Knotted, ShownCurve, column_curves, rise_of, shown_curves, with_curves
from duelrank.representation.fixed import read_representation, write_representation
from duelrank.service.settings import DEFAULT_REPRESENTATION, Settings
from duelrank.storage import Event

if TYPE_CHECKING:
    from duelrank.service.log import Created, StoredImpression
    from duelrank.service.rankers import Version

T = TypeVar("T")

#: The action of a feedback event that names none.
CLICK = "click"
#: The maximum number of characters in the name of an action.
MAX_ACTION_NAME = 100

#: How the order of a list was made. A GUARD list is a team draft of the learned ranker and the client's order, a BASELINE list has
#: the client's order. The machine uses OLD for lists that are no longer learned from or counted; it is never stored.
GREEDY, EXPLORED, SHADOW, GUARD, BASELINE, OLD = 0, 1, 2, 3, 4, 5
#: The names of these kinds in the API.
LIST_KINDS = {
    GREEDY: "greedy",
    EXPLORED: "explored",
    SHADOW: "shadow",
    GUARD: "guard",
    BASELINE: "baseline",
    OLD: "old",
}

Mode = Literal["learn", "shadow", "frozen"]
Precision = Literal["float32", "float64"]
Step = Literal["minute", "hour", "day"]
#: The outcome of a closed impression.
Outcome = Literal["learned", "no_feedback", "skipped", "failed"]
#: What a guard reports: an alarm, a promotion to the next rung, or the end of an alarm by an operator.
GuardEvent = Literal["alarm", "promotion", "resume"]

#: The maximum number of lists that warm a ranker up.
WARM_UP_LISTS = 20
#: The maximum number of lists that are imitated.
MAX_IMITATE = 1_000_000
#: The maximum number of actions with a weight.
MAX_ACTIONS = 100
#: The number of features whose weights are recorded in the history.
HISTORY_FEATURES = 50
#: The maximum number of characters in the name of a feature.
MAX_FEATURE_NAME = 200

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

#: Returns a version of a ranker, or its current one.
VersionOf: TypeAlias = "Callable[[str, int | None], Version]"


def converted(value: msgspec.Struct, kind: type[T]) -> T:
    """Convert a struct to another struct type with the same fields; fields that are not set stay unset.

    The fields of the outer struct must be encoded under their own names.
    """
    fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
    given = {
        name: each for name, each in fields if each is not msgspec.UNSET
    }  # `msgspec.convert` does not accept UNSET
    return msgspec.convert(given, kind, from_attributes=True)


class Start(msgspec.Struct, frozen=True):
    """The source of the first weights: weights by name, an exported model, or a version of another ranker."""

    weights: dict[str, float] | None = None
    model: dict[str, Any] | None = None
    ranker: str | None = None
    version: int | None = None


class RankerSpec(msgspec.Struct, frozen=True):
    """The specification of a ranker; `duelrank.service.http.schema.RankerSpec` explains the fields."""

    name: str
    algorithm: str
    features: tuple[str, ...]
    representation: str | dict[str, Any] | None = None
    length: int = 10
    exploration: float = 1.0
    mode: Mode = "learn"
    seed: int = 0
    close_after: float = 1800.0
    start: Start | None = None
    precision: Precision = "float64"
    retired: tuple[str, ...] = ()
    guard: GuardSpec | None = None
    actions: dict[str, float] = msgspec.field(default_factory=lambda: {CLICK: 1.0})
    imitate: int | None = None  # None only before `normalized`
    context: dict[str, tuple[str, ...]] = {}

    def imitates(self, imitated: int, learned: int) -> bool:
        """Whether a ranker still shows the client's order and learns to imitate it.

        Parameters
        ----------
        imitated
            Number of lists that it has imitated, lists of a log included.
        learned
            Number of its own lists that it has learned from.
        """
        return imitated < (self.imitate or 0) and not learned and self.mode != "shadow"


class Change(msgspec.Struct, frozen=True):
    """A change of a specification; fields that are not given stay as they are."""

    exploration: float | None = None
    close_after: float | None = None
    length: int | None = None
    mode: Mode | None = None
    add_features: tuple[str, ...] = ()
    retire_features: tuple[str, ...] = ()
    guard: GuardSpec | msgspec.UnsetType | None = msgspec.UNSET
    actions: dict[str, float] | None = None
    representation: str | dict[str, Any] | None = None
    context: dict[str, tuple[str, ...]] | None = None

    @property
    def given(self) -> list[str]:
        """The names of the fields that change something."""
        return [name for name in self.__struct_fields__ if getattr(self, name) != getattr(_NO_CHANGE, name)]


_NO_CHANGE = Change()


class Definition:
    """A specification with its parts; raises if it cannot be served.

    Parameters
    ----------
    spec
        The specification.
    created
        Time of the creation, in seconds.
    weights, knots
        Initial weights and knots; None for those of the algorithm and its representation.
    number
        Number of the event that created the ranker; earlier events belong to another ranker of the same name.
    salt
        Bytes that are mixed into the random stream of each impression, so that an id does not predict its list.
    """

    def __init__(
        self,
        spec: RankerSpec,
        created: float,
        weights: bytes | None = None,
        number: int = 0,
        knots: bytes | None = None,
        salt: bytes = b"",
    ) -> None:
        _check(spec)
        self.spec = spec = normalized(spec)
        self.created, self.number, self._start_weights, self._start_knots = created, number, weights, knots
        self._salt = salt
        self._base = _servable(spec.algorithm)
        self.representation = read_representation(spec.representation, spec.features)
        self.missing, rest = split_missing(self.representation)
        if isinstance(rest, Chain) and any(isinstance(part, Fixed) for _, part in walk(rest)):
            raise InvalidRecipe(
                f"{spec.representation} has scalings by position, but the features of a ranker have names; representations that "
                "learn need no scalings, and fixed scalings by name cannot be combined with other representations"
            )
        plain = isinstance(self.representation, Raw)
        self.algorithm = self._base if plain else Represented(self._base, self.representation)
        self.first_stage = _first(rest)
        self._bounded = isinstance(rest, Raw) or self.first_stage.within_unit
        self._scaling = with_missing(self.missing, self.first_stage)
        self.columns = {name: column for column, name in enumerate(spec.features)}
        self._rank_key, self._coin_key = stream_key(spec.seed, "rank"), stream_key(spec.seed, "explore")
        self.learn_key, self._guard_key = stream_key(spec.seed, "learn"), stream_key(spec.seed, "guard")
        self.log_key, self._memory_key = stream_key(spec.seed, "log"), stream_key(spec.seed, "memory")
        self.model(1, self.start)  # checks the names
        if spec.imitate and not LogLearner.supports(self.algorithm):
            raise InvalidRecipe(
                f"{spec.algorithm} does not learn by changing its weights, so it cannot imitate your order first; give imitate=0, "
                "or a recipe that updates its weights, such as wmgd-dsp or pdgd"
            )
        if spec.mode == "shadow":
            two = Query("", np.zeros((2, len(spec.features))))
            self.algorithm.observe_list(self.start, two, np.arange(2), derive(self._rank_key, 0))

    @classmethod
    def read(cls, event: Event, created: Created) -> Definition:
        """Return the definition of a ranker that an event has created."""
        assert created.spec is not None
        return cls(created.spec.read(), event.time, created.weights, event.number, created.knots, created.salt)

    @cached_property
    def start(self) -> State:
        """The state before the first impression."""
        n_features = len(self.spec.features)
        if self._start_weights is None:
            return self.algorithm.start(n_features, stream(self.spec.seed, "start"))
        if self.algorithm.weights_follow_memory:
            raise InvalidRecipe(
                f"{self.spec.algorithm} computes its weights from all lists it has seen, so it cannot start from given weights"
            )
        weights, seen = _numbers(self._start_weights), self.representation.start(n_features)
        if self._start_knots is not None:
            seen = with_knots(seen, _numbers(self._start_knots).reshape(n_features, -1))
        if weights.shape != (self.representation.n_columns(n_features, seen),) or not np.isfinite(weights).all():
            raise InvalidValue("start has one finite weight per feature")
        return self.state_with(weights, seen)

    @cached_property
    def log_learner(self) -> LogLearner:
        """Learns from logged lists of other systems; raises if the algorithm cannot start from what they teach."""
        return LogLearner(self.algorithm)

    def state_with(self, weights: Weights, seen: Memory, step: int = 0, updates: int = 0) -> State:
        """Return a state with a memory of the representation; the memory of other parts is reset."""
        fresh = self._base.start(len(weights), stream(self.spec.seed, "start"))
        return State(weights, step, updates, replaced(fresh.memory, "representation", seen))

    def warm_up(self, learning: bool = True) -> None:
        """Rank and learn once, so that kernels are compiled before the first request; without learning, only rank.

        It continues until the weights have moved, because a list without a winner does not reach the kernels of an update; the
        leader would then compile them while requests wait.
        """
        query, fresh = self._example(), derive(self._rank_key, 0)
        if learning:
            self._warm_up_backwards(fresh)
        self.try_out(self.start)
        if self.spec.guard is not None:
            draw_kind(fresh, 0.5, 0.5)
            guard_list(np.arange(3), np.arange(3), 2, fresh)
        for number in range(WARM_UP_LISTS):
            draws = derive(self._rank_key, number)
            if self.spec.mode == "shadow":
                impression = self.algorithm.observe_list(self.start, query, np.array([0, 1]), draws)
            else:
                impression = self.algorithm.rank(self.start, query, 2, draws)
            if not learning:
                break
            feedback = Feedback.trusted(np.array([number % 2 == 1, number % 2 == 0]), None)
            after = self.algorithm.learn(self.start, impression, feedback, derive(self.learn_key, number))
            if after.weights.shape != self.start.weights.shape or (after.weights != self.start.weights).any():
                break
        self._warm_up_memory(learning)
        if learning:
            self._warm_up_log(query)
        supported_formats(self.representation)  # every answer about the ranker needs it
        if learning and self.representation.learns:  # it may begin without knots
            knots = frozen(np.tile([0.0, 0.5, 1.0], (len(self.spec.features), 1)))  # read-only, as all knots are
            self.representation.apply(query.features, with_knots(self.start.memory["representation"], knots))

    def _example(self) -> Query:
        """Return a query of three documents."""
        return self.query(np.frombuffer(np.eye(3, len(self.spec.features)).tobytes()).reshape(3, -1))

    def try_out(self, state: State) -> None:
        """Rank once with a state, so that its kernels are compiled before a request needs them."""
        self.algorithm.best(state, self._example(), derive(self._rank_key, 0))

    def _warm_up_backwards(self, draws: Stream) -> None:
        """Compile the last kernels of a list first: a process that serves begins with the first ones at the same time."""
        for _, part in walk(self.algorithm):
            if isinstance(part, Multileaver):
                part.leave(np.array([[0, 1, 2], [0, 2, 1]]), 2, draws)
            elif isinstance(part, Exploration):
                unit_directions(1, len(self.spec.features), draws)

    def _warm_up_memory(self, learning: bool) -> None:
        """Rank a query that is known, and count a list of it, if the algorithm remembers queries."""
        if (remember := self.remember) is None:
            return
        names = ("a", "b", "c")
        model = Remembrance(document_keys(names), np.ones((2, len(names)))).packed()
        known = remember.table.write(remember.start(), "q", model, 1, 0)
        for explore in (False, True):
            self.boosts(known, "", "q", names, explore)
        if learning:
            shown = Impression(self.query(self._example().features, id="q", documents=names), np.arange(2))
            counted = remember.count(known, shown, Feedback.trusted(np.array([False, True]), None))
            remember.table.records(counted)

    def _warm_up_log(self, query: Query) -> None:
        """Learn from a logged list of another system, if the algorithm supports that."""
        with suppress(InvalidRecipe):
            teacher, clicks = self.log_learner, Feedback.trusted(np.array([False, True]), None)
            draws = derive(self.log_key, 0)
            logged = teacher.learn(teacher.start(self.start), query, np.arange(2), clicks, draws)
            teacher.handed_over(self.start, logged)

    def check_limits(self, settings: Settings) -> None:
        """Raise if it exceeds a limit of the service."""
        largest = max((part.pieces for _, part in walk(self.algorithm) if isinstance(part, Knotted)), default=1)
        queries, documents = (0, 0) if self.remember is None else (self.remember.queries, self.remember.documents)
        for what, found, limit in (
            ("features", len(self.spec.features), settings.max_features),
            ("features × pieces", len(self.spec.features) * largest, 8 * settings.max_features),
            ("weights", len(self.start.weights), 20 * settings.max_features),
            ("documents in an impression", self.spec.length, settings.max_documents),
            ("queries to remember", queries, settings.remember_queries),
            ("documents of a query to remember", documents, settings.remember_documents),
        ):
            if found > limit:
                raise LimitExceeded(f"a ranker may have at most {limit:,} {what} here, got {found:,}")

    def check_new(self) -> None:
        """Raise if a new ranker has invalid names or scalings; existing rankers are not checked again."""
        check_names((*self.spec.features, *self.spec.context), self.spec.actions)
        self.check_scalings()

    def check_scalings(self) -> None:
        """Raise if a fixed scaling maps every value to 0."""
        scalings = self.first_stage.scalings if isinstance(self.first_stage, Fixed) else ()
        for name, scaling in zip(self.spec.features, scalings, strict=False):
            if scaling.scale == 0.0:
                raise InvalidValue(
                    f"the fixed scaling of {name!r}, {scaling!r}, maps every value to 0; give it a maximum above its minimum, or "
                    "a standard deviation above 0, or leave the feature out"
                )

    def same_as(self, other: Definition) -> bool:
        """Whether two specifications have the same meaning."""
        return self.algorithm == other.algorithm and all(
            getattr(self.spec, name) == getattr(other.spec, name)
            for name in self.spec.__struct_fields__
            if name not in ("algorithm", "representation")
        )

    def changed(self, change: Change) -> Definition:
        """Return the definition after a change; applying a change twice is the same as once. Raise if the change is invalid."""
        spec, plain = self.spec, ("exploration", "close_after", "length", "mode", "actions")
        given: dict[str, Any] = {name: value for name in plain if (value := getattr(change, name)) is not None}
        if not isinstance(change.guard, msgspec.UnsetType):
            given["guard"] = change.guard
        found = self._changed_features(change)
        kept = [name for name in spec.features if name in found.names]
        features = tuple(dict.fromkeys((*kept, *found.names)))
        given["context"] = found.context  # also names without features: clients may go on sending them
        retired = tuple(dict.fromkeys((*spec.retired, *change.retire_features)))
        spec = msgspec.structs.replace(
            spec,
            **given,
            features=features,
            retired=tuple(name for name in retired if name not in features),
            representation=_restricted(spec.representation, kept),
        )
        if change.representation is not None:
            if features != self.spec.features:
                raise InvalidValue("features and representation cannot change at once; change one after the other")
            try:
                represented = read_representation(
                    change.representation, features, split_missing(self.representation)[1]
                )
            except UnknownName as error:  # the ranker exists: the request is wrong
                raise InvalidRecipe(str(error)) from None
            spec = msgspec.structs.replace(spec, representation=write_representation(represented, features))
        same = (spec.features, spec.representation) == (self.spec.features, self.spec.representation)
        if not same:
            self.algorithm.check_linear(
                "neither its features nor their representation can change; create another ranker"
            )
        if not same and self.algorithm.weights_follow_memory:
            raise InvalidRecipe(
                f"{spec.algorithm} computes its weights from all lists it has seen: neither its features nor their representation "
                "can change"
            )
        return self.with_spec(spec)

    def _changed_features(self, change: Change) -> Interactions:
        """Return the features after a change, and their products with contexts; raise if the change is invalid."""
        spec, own = self.spec, Interactions(self.spec.features, self.spec.context).given
        for name in change.retire_features:
            if name in change.add_features:
                raise InvalidValue(f"the feature {name!r} cannot be added and retired at once")
            if name not in self.columns and name not in spec.retired:
                raise UnknownName.among("feature", name, spec.features)
            if name in self.columns and name not in own:
                raise InvalidValue(f"{name!r} is a product with a context; change context to remove it")
        context = spec.context if change.context is None else change.context
        left = {one: tuple(each for each in of if each not in change.retire_features) for one, of in context.items()}
        return Interactions([each for each in (*own, *change.add_features) if each not in change.retire_features], left)

    def with_spec(self, spec: RankerSpec) -> Definition:
        """Return the same ranker with another specification, without its initial weights."""
        return Definition(spec, self.created, number=self.number, salt=self._salt)

    def carry(self, state: State, names: tuple[str, ...]) -> State:
        """Return a state for features of these names as a state of this ranker.

        Curves, and what the representation has seen, are kept by name; the memory of other parts is reset.
        """
        if names == self.spec.features:
            return state
        weights, seen = self.select(state.weights, _seen(state), names)
        return self.with_lasting(state, self.state_with(weights, seen, state.step, state.updates))

    def with_lasting(self, before: State, after: State) -> State:
        """Return a state with what its predecessor remembers of queries, which depends neither on weights nor on features."""
        return replace(after, memory=completed(lasting(before.memory, self.algorithm), after.memory))

    def select(self, weights: Weights, seen: Memory, names: tuple[str, ...]) -> tuple[Weights, Memory]:
        """Return weights and memory of the representation, given for features of these names, for those of this ranker."""
        places = {name: place for place, name in enumerate(names)}
        features = np.array([places.get(name, -1) for name in self.spec.features])
        return self.representation.selected(weights, seen, features)

    def represented_as(self, other: Definition) -> Definition:
        """Return this definition with the representation of another one."""
        written = _restricted(other.spec.representation, self.spec.features)
        if written == self.spec.representation:
            return self
        return self.with_spec(msgspec.structs.replace(self.spec, representation=written))

    def roll_back(self, state: State, old: State) -> State:
        """Return an earlier state as the successor of another one.

        Weights and knots are the earlier ones. Documents that were seen since then, and the counts, are kept: the counts number the
        random streams of learning, each of which is used once. Other entries of memory that only learning needs, such as a
        velocity, start again, because versions do not have them. What is remembered of queries is kept, too.
        """
        memory = old.memory
        if (knots := knots_of(_seen(old))) is not None:
            memory = {**memory, "representation": with_knots(_seen(state), knots)}
        return self.with_lasting(state, self.for_learning(State(old.weights, state.step, state.updates, memory)))

    def for_ranking(self, state: State) -> State:
        """Return a state without the memory that only learning needs, as versions have it."""
        return replace(state, memory=for_ranking(state.memory, self.algorithm))

    def for_learning(self, state: State) -> State:
        """Return a state, such as that of a version, with the entries of memory that only learning needs as at the start."""
        n_features = len(self.spec.features)
        seen = completed(_seen(state), self.representation.start(n_features))
        n_columns = self.representation.n_columns(n_features, seen)
        fresh = self._base.start(n_columns, stream(self.spec.seed, "start")).memory
        return replace(state, memory=completed(replaced(state.memory, "representation", seen), fresh))

    def fits(self, state: State) -> bool:
        """Whether a state has as many features as this ranker."""
        return self.algorithm.n_features(state) == len(self.spec.features)

    def distance(self, before: State, after: State) -> float:
        """Return the distance between the weights of two states."""
        weights = before.weights
        if weights.shape != after.weights.shape:
            weights = self.algorithm.carry(before, after)  # there are more columns now, for the same curves
        return norm(after.weights - weights)

    @cached_property
    def remember(self) -> Remember | None:
        """The memory of queries in the algorithm, None if it has none."""
        return memory_of(self._base)

    def boosts(self, memory: Memory, id: str, query: str, documents: Sequence[str], explore: bool) -> Boosts:
        """Return the boosts of the documents of an impression; empty if there are none, or if its list is made without them.

        Parameters
        ----------
        memory
            What is remembered of queries.
        id, query
            Id of the impression, and its query.
        documents
            Ids of the documents.
        explore
            Whether a document that was hardly seen may be raised.
        """
        if (remember := self.remember) is None or not (model := remember.model(memory, query)).size:
            return NO_BOOSTS
        draws = derive(self._memory_key, self._stream_number(id)) if explore else None
        return remember.boosts_of(model, click_rate(memory), document_keys(documents), draws)

    def query(self, raw: Features, boosts: Boosts = NO_BOOSTS, id: str = "", documents: tuple[str, ...] = ()) -> Query:
        """Return documents as a query of the algorithm; raise if scaled features are beyond the largest number."""
        if not self._bounded:
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = self._scaling.apply(raw, {})
                total = scaled.sum()
            if not math.isfinite(total) and not np.isfinite(scaled).all():
                raise InvalidValue("features are beyond the largest number after they are scaled")
        return Query.trusted(id, raw, documents, boosts)

    def contributions(self, state: State, raw: Features) -> NDArray[np.float64]:
        """Return what each feature adds to the score of each document, (n_documents, n_features)."""
        columns = self.algorithm.columns(state, raw, np.array([0, len(raw)])) * state.weights
        added: NDArray[np.float64] = by_feature(columns, raw.shape[1]).sum(axis=2)
        return added

    def score_deviations(self, state: State, raw: Features) -> NDArray[np.float64] | None:
        """Return the standard deviation of each score, as if weights were independent; None if the algorithm has no belief."""
        belief = self.algorithm.deviations(state)
        if belief is None:
            return None
        columns = self.algorithm.columns(state, raw, np.array([0, len(raw)]))
        found: NDArray[np.float64] = np.sqrt(((columns * belief) ** 2).sum(axis=1))
        return found

    def list_kind(self, id: str, frozen: bool, learned_share: float = 1.0, imitates: bool = False) -> int:
        """Return the kind of the list of an impression.

        A ranker that imitates shows the client's order. A guarded ranker decides a share of the lists that are not guard lists.
        """
        if imitates:
            return BASELINE
        number = self._stream_number(id)
        if self.spec.guard is not None:
            kind = draw_kind(derive(self._guard_key, number), self.spec.guard.share, learned_share)
            if kind != "learned":
                return GUARD if kind == "guard" else BASELINE
        if self.spec.mode == "shadow":
            return SHADOW
        rate = 0.0 if frozen else self.spec.exploration
        greedy = rate < 1.0 and uniform(derive(self._coin_key, number)) >= rate
        return GREEDY if greedy else EXPLORED

    def order(
        self,
        kind: int,
        state: State,
        id: str,
        raw: Features,
        length: int,
        pinned: State | None = None,
        boosts: Boosts = NO_BOOSTS,
    ) -> tuple[list[int], bytes]:
        """Return the order to show in a list of a kind, and the teams of a guard list.

        A shadow shows the order of the pinned state, or the client's.
        """
        if not length:
            return [], b""  # nothing is left to decide
        query = self.query(raw, boosts)  # raises for every kind of list: what is refused must not depend on chance
        own, number = list(range(len(raw))), self._stream_number(id)
        draws = derive(self._rank_key, number)
        if kind == EXPLORED:
            return self.algorithm.rank(state, query, length, draws).ranking.tolist(), b""
        if kind == GUARD:
            # Without a preference it is a tie with the client's order, not a random order that would lose.
            best = self.algorithm.best(state, query, draws) if self._prefers(state, query) else np.array(own)
            drafting = derive(self._guard_key, number)
            uniform(drafting)  # which `list_kind` has used
            ranking, teams = guard_list(np.array(own), best, length, drafting)
            return ranking.tolist(), pack_teams(teams)
        shown = pinned if kind == SHADOW else state
        if kind == BASELINE or shown is None:
            return own[:length], b""
        return self.algorithm.best(shown, query, draws)[:length].tolist(), b""

    def own_order(self, version: Version, id: str, raw: Features, boosts: Boosts = NO_BOOSTS) -> bool:
        """Whether a version shows documents in the client's order, or would have no reason for another one."""
        kind = self.list_kind(id, version.frozen, version.learned_share, version.imitates)
        if kind == BASELINE or (kind == SHADOW and version.pin is None):
            return True
        state = version.state if version.pin is None else version.pin[1]
        return not self._prefers(state, self.query(raw, boosts))

    def _prefers(self, state: State, query: Query) -> bool:
        """Whether a state has any preference: weights that are not zero, or different scores if it is not linear."""
        if self.algorithm.linear or query.boosts.size:
            return bool(query.boosts.size) or bool(state.weights.any())
        return bool(np.ptp(self.algorithm.scores(state, query.features, np.array([0, query.n_documents]))))

    def _stream_number(self, id: str) -> int:
        """Return the number of the random streams of an impression."""
        return hash63(id, self._salt)

    def best(self, state: State, id: str, raw: Features, boosts: Boosts = NO_BOOSTS) -> list[int]:
        """Return all documents of an impression in the order of a state, without exploring."""
        if not len(raw):
            return []
        draws = derive(self._rank_key, self._stream_number(id))
        best: list[int] = self.algorithm.best(state, self.query(raw, boosts), draws).tolist()
        return best

    def rebuild(
        self, state: State, id: str, stored: StoredImpression, raw: Features, remembered: bool = True
    ) -> Impression:
        """Return an impression as it was shown, with the trace that `learn` needs; its query has an id if it is remembered.

        If the ranker would now show another order, such as after an update of a library, the stored one counts, because users
        saw it: the same draws give the same candidates, and these are compared on that order. Raises `InvalidRecipe` if the
        algorithm learns only from lists that it has made itself.
        """
        documents = [""] * len(raw)  # ids of documents that were not shown are not stored, and not needed
        for row, document in zip(stored.order, stored.ids, strict=True):
            documents[row] = document
        own = (stored.query, tuple(documents)) if remembered and stored.query else ("", ())
        query, number = self.query(raw, stored.known_boosts, *own), self._stream_number(id)
        if stored.list_kind != SHADOW:
            made = self.algorithm.rank(state, query, len(stored.order), derive(self._rank_key, number))
            if made.ranking.tolist() == stored.order:
                return made
        ranking: Ranking = np.array(stored.order, np.int64)
        return self.algorithm.observe_list(state, query, ranking, derive(self._rank_key, number))

    def model(self, version: int, state: State) -> Model:
        """Return a version as a model for export."""
        return Model.of(self.algorithm, self.spec.name, version, self.spec.features, state)

    def curves(self, state: State) -> list[ShownCurve]:
        """Return what each feature adds to the score, as curves, the most important first; raise if it is not linear."""
        self.algorithm.check_linear("features do not add to the score one by one, so there are no curves")
        belief = self.algorithm.deviations(state)
        return shown_curves(self.representation, state.weights, _seen(state), self.spec.features, belief)

    @cached_property
    def names_digest(self) -> bytes:
        """The CRC-32 of the names of the features, in order."""
        return zlib.crc32("\0".join(self.spec.features).encode()).to_bytes(4, "little")

    def rises(self, state: State) -> bytes:
        """Return how much the curve of each feature rises over its domain, as float32 after the digest of their names.

        Only the first features are included; a ranker that is not linear has no such curves, so there are no bytes. The standard
        deviations of the rises follow, if the algorithm has a belief.
        """
        if not self.algorithm.linear:
            return b""
        seen, belief = _seen(state), self.algorithm.deviations(state)
        first = with_curves(self.representation, seen)
        rises = [rise_of(curve) for curve in first.curves(state.weights, seen)[:HISTORY_FEATURES]]
        if belief is not None:
            alone = column_curves(first, belief, seen, len(self.spec.features))[:HISTORY_FEATURES]
            rises += [math.hypot(*map(rise_of, columns)) for columns in alone]
        return self.names_digest + np.array(rises, "<f4").tobytes()

    def packed_weights(self, given: Mapping[str, float]) -> bytes:
        """Return weights by name as bytes, in the order of the features; raise if a feature is unknown."""
        self.check_known(given)
        return np.array([given.get(name, 0.0) for name in self.spec.features], "<f8").tobytes()

    def check_known(self, names: Iterable[str]) -> None:
        """Raise if a start has a feature that the ranker does not have."""
        for name in names:
            if name not in self.columns:
                raise InvalidValue(f"start: {UnknownName.among('feature', name, self.spec.features)}")


# Random streams and teams of lists


def hash63(text: str, salt: bytes = b"") -> int:
    """Return a hash of a text as the number of a random stream; it cannot be predicted without the salt."""
    return int.from_bytes(blake2b(text.encode(), key=salt, digest_size=8).digest(), "little") >> 1


def pack_teams(teams: NDArray[np.int64]) -> bytes:
    """Return the owners of the positions of a guard list, −1 for none, as one byte each."""
    return (teams + 1).astype(np.uint8).tobytes()


def unpack_teams(body: bytes) -> NDArray[np.int64]:
    """Return the owners of the positions of a guard list."""
    return np.frombuffer(body, np.uint8).astype(np.int64) - 1


# Checks of specifications


def check_names(features: Iterable[str], actions: Iterable[str]) -> None:
    """Raise if the name of a feature or of an action is empty, too long, or cannot be printed."""
    for name in features:
        printable_name("the name of a feature", name, MAX_FEATURE_NAME)
    for name in actions:
        stored_action(name)


def stored_action(name: str) -> str:
    """Return the name of an action in its stored form, which is empty for a click; raise if it is invalid."""
    printable_name("the name of an action", name, MAX_ACTION_NAME)
    return "" if name == CLICK else name


def normalized(spec: RankerSpec, default: str | dict[str, Any] = "raw") -> RankerSpec:
    """Return a specification whose representation is given in that field only, and not in the recipe; it has no other defaults.

    Parameters
    ----------
    spec
        The specification.
    default
        Representation of a specification that gives none.
    """
    algorithm = parse(spec.algorithm, Algorithm)
    own = algorithm.representation if isinstance(algorithm, Represented) else None
    given = spec.representation
    missing = given if _is_missing_alone(given) else None
    given = given if missing is None else None
    if own is not None and given is not None:
        raise InvalidRecipe(
            f"the representation of the features of {spec.name!r} is given twice, in the recipe and in the field "
            "representation; give it once"
        )
    found = own or read_representation(default if given is None else given, spec.features)
    never_change = algorithm.weights_follow_memory or not algorithm.linear  # the columns of such an algorithm
    if own is None and given is None and found.learns and never_change:
        found = QueryScaled()
    text = spec.algorithm if own is None else spell(algorithm.base)  # type: ignore[attr-defined]  # it has one
    if missing is not None:
        if own is not None and own.fills:
            raise InvalidRecipe(
                f"what replaces missing values is given twice, in {spell(own)} and in the field missing"
            )
        found = read_representation(missing, spec.features, split_missing(found)[1])
    written = write_representation(found, spec.features)
    imitate = spec.imitate
    if imitate is None:
        new = spec.guard is not None and spec.start is None and spec.mode == "learn"
        imitate = IMITATE if new and LogLearner.supports(algorithm) else 0
    return msgspec.structs.replace(spec, algorithm=text, representation=written, imitate=imitate)


def with_products(spec: RankerSpec) -> RankerSpec:
    """Return a specification whose features include their products with contexts."""
    names = Interactions(spec.features, spec.context).names
    return msgspec.structs.replace(spec, features=names) if spec.context else spec


def _gives_representation(spec: RankerSpec) -> bool:
    """Whether a specification gives a representation, in its recipe or in its own field."""
    given = spec.representation is not None and not _is_missing_alone(spec.representation)
    return given or isinstance(parse(spec.algorithm, Algorithm), Represented)


def declared_missing(
    given: str | dict[str, Any] | None, missing: Sequence[str] | Mapping[str, str | float] | msgspec.UnsetType
) -> str | dict[str, Any] | None:
    """Return a representation, None for the default or the present one, that also replaces missing values."""
    if not missing:
        return given
    values = missing if isinstance(missing, Mapping) else dict.fromkeys(missing, "neutral")
    return {"kind": "missing", "features": dict(values)} | ({} if given is None else {"then": given})


def _is_missing_alone(given: Any) -> bool:
    """Whether a representation only replaces missing values, before the default or the present one."""
    return isinstance(given, Mapping) and given.get("kind") == "missing" and "then" not in given


def _servable(recipe: str) -> Algorithm:
    algorithm = parse(recipe, Algorithm)
    if algorithm.per_query:
        raise InvalidRecipe(
            f"{recipe} learns a model for each query, but the service receives only documents and features"
        )
    if any(isinstance(part, Represented) for _, part in walk(algorithm)):
        raise InvalidRecipe(f"{recipe} has a representation in its middle; put it before the whole algorithm")
    return algorithm


def _first(representation: Representation) -> Representation:
    """Return the part of a representation that receives the features of the request."""
    return _first(representation.first) if isinstance(representation, Chain) else representation


def _seen(state: State) -> Memory:
    """Return the memory of the representation."""
    seen: Memory = state.memory.get("representation", {})
    return seen


def _numbers(body: bytes) -> NDArray[np.float64]:
    return frozen(np.frombuffer(body, "<f8").astype(np.float64))


def _restricted(representation: Any, kept: Collection[str]) -> Any:
    """Return a written representation; of fixed scalings by name, only those of the kept features."""
    if not isinstance(representation, Mapping):
        return representation
    features = {name: each for name, each in representation["features"].items() if name in kept}
    then = {"then": _restricted(representation["then"], kept)} if "then" in representation else {}
    return {**representation, "features": features, **then}


def check_name(what: str, name: str) -> None:
    """Raise if the name of a ranker or an experiment is invalid."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(
            f"{what}'s name has letters, digits and _ . - and begins with a letter or digit, got {name!r}"
        )


def check_closing(close_after: float, actions: Mapping[str, float]) -> None:
    """Raise if the time after which impressions are closed, or the weight of an action, is invalid."""
    if not 0.0 < close_after <= 1e9:
        raise InvalidValue(f"close_after is a number of seconds above 0, got {close_after!r}")
    if len(actions) > MAX_ACTIONS:
        raise LimitExceeded(f"there may be weights for at most {MAX_ACTIONS} actions, got {len(actions):,}")
    for name, weight in actions.items():
        if not 0.0 < weight <= 1e6:
            raise InvalidValue(
                f"the weight of an action is above 0 and at most 1,000,000, got {weight!r} for {name!r}; leave out an action "
                "that should have no effect"
            )


def _check(spec: RankerSpec) -> None:
    check_name("a ranker", spec.name)
    check_closing(spec.close_after, spec.actions)
    if not spec.features:
        raise InvalidValue("a ranker needs at least one feature, got none")
    whole_number("length", spec.length)
    if not 0.0 <= spec.exploration <= 1.0:
        raise InvalidValue(f"the exploration rate is from 0 to 1, got {spec.exploration!r}")
    if spec.mode not in ("learn", "shadow", "frozen"):
        raise InvalidValue(f"the mode is learn, shadow or frozen, got {spec.mode!r}")
    if spec.guard is not None:
        check_guard(spec.guard)
    if spec.guard is not None and spec.mode == "shadow":
        raise InvalidValue(
            "a shadow shows your own order, so there is nothing to guard; give it no guard, or the mode learn"
        )
    whole_number("seed", spec.seed, 0, (1 << 63) - 1)
    whole_number("imitate", spec.imitate or 0, 0, MAX_IMITATE)
    if twice := set(spec.retired) & set(spec.features):
        raise InvalidValue(f"the feature {sorted(twice)[0]!r} is both in features and in retired; name it once")


# Where a new ranker starts


class InitialState(NamedTuple):
    """The initial weights of a ranker, in the order of its columns, and its initial knots; None for those of the algorithm."""

    weights: bytes | None = None
    knots: bytes | None = None


def default_representation(spec: RankerSpec, version_of: VersionOf) -> str | dict[str, Any]:
    """Return the representation of a specification that gives none: that of its start, or the default of the service."""
    if spec.start is None or _gives_representation(spec):
        return DEFAULT_REPRESENTATION
    _check_start(spec.start)
    if spec.start.weights is not None:
        raise InvalidValue(
            "start: weights have a meaning only together with the representation that they were made for, so give that, too: "
            '"raw" for the values of the request, "query-scaled" for their place in the range of the query'
        )
    model, _ = _start_model(spec.start, version_of)
    return _written(model.representation, model.features, spec.features)


def initial_state(spec: RankerSpec, version_of: VersionOf) -> InitialState:
    """Return the initial weights and knots of a specification.

    Parameters
    ----------
    spec
        Specification of the new ranker.
    version_of
        Returns a version of another ranker, or its current one.
    """
    start = spec.start
    if start is None:
        return InitialState()
    _check_start(start)
    definition = Definition(spec, 0.0)
    definition.algorithm.check_linear("it cannot start from weights, a model or another ranker")
    if start.weights is not None:
        found = InitialState(definition.packed_weights(start.weights))
    else:
        found = _state_of_model(*_start_model(start, version_of), definition)
    definition.algorithm.check_allowed(np.frombuffer(found.weights or b"", "<f8"), spec.features)
    return found


def _check_start(start: Start) -> None:
    if sum(each is not None for each in (start.weights, start.model, start.ranker)) != 1:
        raise InvalidValue('start has exactly one of "weights", "model" and "from"')
    if start.version is not None and start.ranker is None:
        raise InvalidValue('start has a "version" only together with "from"')


def _start_model(start: Start, version_of: VersionOf) -> tuple[LinearModel, str]:
    """Return the model that a ranker starts from, and its name in messages."""
    if start.ranker is None:
        return LinearModel.from_json(json.dumps(start.model)), "the model"
    other = version_of(start.ranker, start.version)
    model = other.definition.model(other.version, other.state)
    if not isinstance(model, LinearModel):
        raise InvalidValue(f"start: the ranker {start.ranker!r} is not linear, so no other ranker can start from it")
    return model, f"the ranker {start.ranker!r}"


def _state_of_model(model: LinearModel, source: str, definition: Definition) -> InitialState:
    """Return the weights and knots of a model, which must have been made for features with the same representation.

    Most representations with curves begin with lines over the range of a query, so they can start from a model of such lines.
    """
    definition.check_known(model.features)
    seen = definition.representation.start(len(definition.spec.features))
    if _are_lines(model.representation, model.memory) and _are_lines(definition.representation, seen):
        return InitialState(definition.packed_weights(dict(zip(model.features, model.weights.tolist(), strict=True))))
    given = _written(model.representation, model.features, definition.spec.features)
    own = _written(definition.representation, definition.spec.features, model.features)
    if given != own:
        raise InvalidValue(
            f"start: {source} has the representation {given}, and this ranker {own}; weights have the same meaning only if both "
            "are equal"
        )
    weights, seen = definition.select(model.weights, model.memory, model.features)
    knots = knots_of(seen)
    return InitialState(weights.astype("<f8").tobytes(), None if knots is None else knots.astype("<f8").tobytes())


def _are_lines(representation: Representation, memory: Memory) -> bool:
    """Whether each weight is the rise of a straight line over the range of a query, from the least value to the largest."""
    knots = knots_of(memory)
    if knots is None:
        return representation == QueryScaled()
    if np.isnan(knots[0, 0]):
        return representation.domain != "query rank"
    return representation.domain == "query range" and np.array_equal(knots, np.tile([0.0, 1.0], (len(knots), 1)))


def _written(representation: Representation, names: tuple[str, ...], kept: tuple[str, ...]) -> str | dict[str, Any]:
    """Return a representation in JSON; of fixed scalings by name, only those of the kept features."""
    found: str | dict[str, Any] = _restricted(write_representation(representation, names), kept)
    return found
