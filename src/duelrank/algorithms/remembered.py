"""Counts what the users of each query chose, in addition to the weights that all queries share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.base import Algorithm, StepExplanation, Wrapper
from duelrank.algorithms.dbgd import DBGD
from duelrank.algorithms.projected import Projected
from duelrank.algorithms.represented import Represented
from duelrank.algorithms.thompson_pairs import ThompsonPairs
from duelrank.core.errors import InvalidRecipe
from duelrank.core.memory import QueryMemory, query_key, replaced
from duelrank.core.registry import Between, Part, alias, register, spell
from duelrank.core.types import (
    NO_BOOSTS,
    Boosts,
    Features,
    Feedback,
    Gradient,
    Impression,
    Memory,
    Query,
    Ranking,
    State,
    Stream,
    Weights,
    frozen,
)
from duelrank.kernels import remembered as kernel
from duelrank.kernels.elementary import power
from duelrank.projection import DependentClick, Examination
from duelrank.representation import Representation

#: Factor on the earlier clicks and views of all queries, with each list.
RATE_KEPT = 0.999

_USERS = DependentClick(attraction=0.21, forgetting=1.0, after_click=0.32)
_NO_RATE = np.zeros(2)
_NOTHING = np.empty(0, np.int64)


class Remembrance(NamedTuple):
    """The documents of one query, least recently seen first: their keys, and clicks and views, (2, n).

    ``names`` are the query and the ids of the documents, if they have ids. The packed form is a flat array of int64: the number of
    documents, their keys, the bits of clicks and views, and the names.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.float64]
    names: Sequence[str] = ()

    @classmethod
    def unpacked(cls, model: NDArray[np.int64]) -> Remembrance:
        """Return the documents in a packed form; none if it is empty."""
        if not model.size:
            return cls(model, np.empty((2, 0)))
        n = int(model[0])
        names = json.loads(model[1 + 3 * n :].tobytes()) if model.size > 1 + 3 * n else ()
        return cls(model[1 : 1 + n], cls.counts_in(model), names)

    @staticmethod
    def counts_in(model: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the clicks and views in a packed form that is not empty."""
        n = int(model[0])
        return model[1 + n : 1 + 3 * n].view(np.float64).reshape(2, n)

    def without(self, key: int) -> Remembrance:
        """Return the documents without the one with this key."""
        kept = self.keys != key
        names = (
            [self.names[0], *(name for name, stays in zip(self.names[1:], kept, strict=True) if stays)]
            if self.names
            else ()
        )
        return self if kept.all() else Remembrance(self.keys[kept], self.counts[:, kept], names)

    def packed(self) -> NDArray[np.int64]:
        """Return the packed form."""
        text = json.dumps(self.names, ensure_ascii=False, separators=(",", ":")) if self.names else ""
        letters = text.encode("utf-8", "surrogatepass")
        names = np.frombuffer(letters.ljust(-(-len(letters) // 8) * 8), np.int64)
        head = np.array([len(self.keys)])
        return np.concatenate((head, self.keys, self.counts.ravel().view(np.int64), names))


class RememberedDocument(NamedTuple):
    """What is remembered of a document for one query: its id, or its row if it has none; its clicks and views, and its boost."""

    document: str | int
    clicks: float
    views: float
    boost: float


def document_keys(ids: Sequence[str]) -> NDArray[np.int64]:
    """Return a key for each id: a 64-bit hash that is the same in every process.

    Examples
    --------
    >>> from duelrank.algorithms.remembered import document_keys
    >>> first, second, again = document_keys(["d1", "d2", "d1"])
    >>> bool(first == again), bool(first == second)
    (True, False)
    """
    joined = "".join(ids)
    sizes: Iterable[int] = map(len, ids)
    if not joined.isascii():  # a letter may have several bytes
        sizes = (len(id.encode("utf-8", "surrogatepass")) for id in ids)
    letters = np.frombuffer(joined.encode("utf-8", "surrogatepass"), np.uint8)
    keys: NDArray[np.int64] = kernel.text_keys(letters, np.fromiter(sizes, np.int64, len(ids)))
    return keys


def keys_of(query: Query) -> NDArray[np.int64]:
    """Return the keys of the documents of a query: hashes of their ids, or their rows if they have none."""
    return document_keys(query.documents) if query.documents else np.arange(query.n_documents)


@register
@dataclass(frozen=True, repr=False)
class Remember(Part):
    """Count the clicks and views of each document of each query, and boost documents that were clicked more often than usual.

    A view counts P(seen) by an examination model, so a document at a low position is not blamed for clicks that it could not get; a
    click is a view, too. With clicks c and views v of a document for this query, and the clicks per view r of all queries, its
    boost is strength · (c − r·v) / (v + doubt). A document that was never shown for this query has none: it starts from its
    features. A query is identified by its id; without an id nothing is remembered. Actions with a larger weight count as one click.

    Parameters
    ----------
    strength
        Factor on the boosts, in the units of scores; 0 remembers without an effect.
    doubt
        Number of views without evidence that each document starts with: more makes first clicks count less.
    half_life
        Number of lists of a query after which its clicks and views count half, for tastes and documents that change; None: they
        count forever.
    curious
        Share of the lists of known queries in which one document that was hardly seen yet, chosen at random, gets the largest boost
        of the list, so that a new document that is better than all known ones is found.
    examination
        The model of which unclicked documents were seen.
    queries
        Maximum number of queries to remember; then the one whose last feedback is the oldest is forgotten.
    documents
        Maximum number of documents of a query to remember; then the least recently seen one is forgotten.

    Examples
    --------
    The two shoes have the same features, so no weights can distinguish them. The users of this query want the second one:

    >>> from duelrank import Feedback, Learner, Query
    >>> learner = Learner("remember >> mgd-dsp", n_features=2)
    >>> query = Query("red shoes", [[0.5, 0.5], [0.5, 0.5]], documents=["runner", "hiker"])
    >>> for _ in range(20):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 1))
    >>> learner.best(query).tolist()
    [1, 0]
    """

    kind: ClassVar[str] = "remember"
    learning_only: ClassVar[tuple[str, ...]] = ("*",)
    lasting: ClassVar[tuple[str, ...]] = ("queries_*", "rate", "lists")

    strength: Annotated[float, Between(0.0, 1e6, tuned=(0.3, 30.0), log=True)] = 5.0
    doubt: Annotated[float, Between(1e-6, 1e6, tuned=(0.1, 30.0), log=True)] = 2.0
    half_life: Annotated[float, Between(1.0, 1e12, tuned=(10.0, 1e4), log=True)] | None = None
    curious: Annotated[float, Between(0.0, 1.0, tuned=(0.0, 0.2))] = 0.05
    examination: Examination = _USERS
    queries: Annotated[int, Between(1, 10_000_000)] = 10_000
    documents: Annotated[int, Between(1, 10_000)] = 100

    def __rshift__(self, then: object) -> Algorithm | _Before:
        """Return an algorithm with this memory; a representation stays before the memory."""
        if isinstance(then, Represented):
            return Represented(Remembered(then.base, self), then.representation)
        if isinstance(then, Representation):
            return _Before(then, self)
        return Remembered(then, self) if isinstance(then, Algorithm) else NotImplemented

    def __rrshift__(self, representation: object) -> _Before:
        """Return what becomes an algorithm after another ``>>``: a representation, then this memory."""
        return _Before(representation, self) if isinstance(representation, Representation) else NotImplemented

    @cached_property
    def table(self) -> QueryMemory:
        """Reads and writes the documents of queries."""
        return QueryMemory(self.queries)

    @cached_property
    def _kept(self) -> float:
        return 1.0 if self.half_life is None else power(2.0, -1.0 / self.half_life)

    def start(self) -> Memory:
        """Return the memory before the first list."""
        return {**self.table.start(), "rate": _NO_RATE, "lists": np.zeros(1, np.int64)}

    def boosts(self, memory: Memory, query: Query, stream: Stream | None = None) -> Boosts:
        """Return the boosts of the documents of a query, with a stream those of a list that explores; empty if nothing is known."""
        model = self.model(memory, query.id)
        return self.boosts_of(model, click_rate(memory), keys_of(query), stream) if model.size else NO_BOOSTS

    def model(self, memory: Memory, query: str) -> NDArray[np.int64]:
        """Return the packed form of a query; empty if nothing is known about it, or if that has no effect."""
        return self.table.read(memory, query)[0] if query and self.strength > 0.0 else _NOTHING

    def boosts_of(
        self, model: NDArray[np.int64], rate: float, documents: NDArray[np.int64], stream: Stream | None = None
    ) -> Boosts:
        """Return the boosts of documents, given by their keys, from the packed form of a query; empty if all are 0.

        With a stream they are those of a list that explores: in a share of the lists, one document that was hardly seen is raised.
        They are rounded to single precision, in which a service stores them.
        """
        parts = (model, rate, documents, self.strength, self.doubt)
        found: Boosts = kernel.boosts(*parts) if stream is None else kernel.drawn(*parts, self.curious, stream)
        if not found.size:
            return NO_BOOSTS
        found.flags.writeable = False
        return found

    def remembered(self, memory: Memory, query: str) -> list[RememberedDocument]:
        """Return the documents that are remembered for a query, those with the largest boosts first."""
        return self.documents_of(self.table.read(memory, query)[0], click_rate(memory))

    def documents_of(self, model: NDArray[np.int64], rate: float) -> list[RememberedDocument]:
        """Return the documents in the packed form of a query, those with the largest boosts first."""
        known = Remembrance.unpacked(model)
        boosts = self.boosts_of(model, rate, known.keys) if model.size else NO_BOOSTS
        columns = (
            known.names[1:] if known.names else known.keys.tolist(),
            *known.counts.tolist(),
            boosts.tolist() if boosts.size else [0.0] * len(known.keys),
        )
        documents = [RememberedDocument(*row) for row in zip(*columns, strict=True)]
        return sorted(documents, key=lambda each: -each.boost)

    def count(self, memory: Memory, impression: Impression, feedback: Feedback) -> Memory:
        """Return the memory after a list."""
        query, users = impression.query, memory.get("examination", {})
        if not query.id:
            return memory
        if "queries_known" not in memory:  # a state that was stored without its queries
            memory = {**self.start(), **memory}
        seen = self.examination.weights(users, impression, feedback)
        clicks = feedback.clicks.astype(np.float64)
        model, rounds = self.table.read(memory, query.id)
        after = self._counted(Remembrance.unpacked(model), impression, clicks, seen)
        memory = self.table.write(memory, query.id, after.packed(), rounds + 1, int(memory["lists"][0]))
        views = float(np.maximum(clicks, seen).sum())
        rate = RATE_KEPT * memory["rate"] + np.array([clicks.sum(), views])
        users = self.examination.observe(users, impression, feedback)
        return replaced({**memory, "rate": rate, "lists": memory["lists"] + 1}, "examination", users)

    def _counted(
        self, known: Remembrance, impression: Impression, clicks: NDArray[np.float64], seen: NDArray[np.float64]
    ) -> Remembrance:
        query, ranking = impression.query, impression.ranking
        ids = [query.documents[row] for row in ranking.tolist()] if query.documents else []
        shown = document_keys(ids) if ids else ranking
        if bool(ids) != bool(known.names):  # ids cannot be compared with the rows that were counted before
            known = Remembrance.unpacked(_NOTHING)
        places, counts = kernel.count(known.keys, known.counts, shown, clicks, seen, self._kept, self.documents)
        keys = np.concatenate((known.keys, shown))[places]
        if not ids:
            return Remembrance(keys, counts)
        names = [*known.names[1:], *ids]
        return Remembrance(keys, counts, [query.id, *(names[place] for place in places)])

    def without(self, memory: Memory, query: str = "", document: str = "") -> Memory:
        """Return the memory without a query, or without a document in all queries; without both, it is empty."""
        if not query and not document:
            return {**self.start(), "lists": memory["lists"]}
        wanted, key = query_key(query) if query else None, document_keys([document])[0]

        def change(found: int, model: NDArray[np.int64]) -> NDArray[np.int64] | None:
            if query:
                return None if found == wanted else model
            return Remembrance.unpacked(model).without(key).packed()

        return self.table.mapped(memory, change)


def click_rate(memory: Memory) -> float:
    """Return the clicks per view of all queries; 0 before the first view."""
    clicks, views = memory.get("rate", _NO_RATE).tolist()
    return clicks / views if views > 0.0 else 0.0


class _Before(NamedTuple):
    """A representation and a memory, which become a recipe with an algorithm behind them: ``query-scaled >> remember >> mgd``."""

    representation: Representation
    remember: Remember

    def __rshift__(self, then: object) -> Algorithm | _Before:
        if isinstance(then, Representation):
            return _Before(self.representation >> then, self.remember)
        return (
            Represented(Remembered(then, self.remember), self.representation)
            if isinstance(then, Algorithm)
            else NotImplemented
        )


@register
@dataclass(frozen=True, repr=False)
class Remembered(Wrapper):
    """Run an algorithm with a memory of each query, which boosts documents; written ``remember(strength=3) >> mgd-dsp``.

    The boosts are added to the scores of every ranker that makes a list. An algorithm that learns from pairs adds them to both
    documents of a pair: it learns by its weights only what the memory does not explain, so that the weights for other queries
    suffer less; `PairRank` does not. A dueling bandit compares candidates without boosts if its multileaver can judge any list;
    with `TeamDraft`, as in `NSGD`, it cannot, and learns little about other queries. The weights are those of the algorithm; a
    query that was never seen is ranked by them alone.

    Parameters
    ----------
    base
        The algorithm.
    remember
        The memory.

    Examples
    --------
    >>> from duelrank import simulate
    >>> for recipe in ("mgd-dsp", "remember >> mgd-dsp"):
    ...     record = simulate(recipe, "synthetic(n_queries=20)", "perfect", impressions=1000)
    ...     print(record.online[-100:].mean().round(2), recipe)
    0.76 mgd-dsp
    0.96 remember >> mgd-dsp
    """

    base: Algorithm = DBGD()
    remember: Remember = Remember()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.base, (Remembered, Represented)) or self.base.per_query:
            reason = (
                "learns a model for each query" if self.base.per_query else "has a memory or a representation already"
            )
            raise InvalidRecipe(f"{self.base!r} {reason}; a memory comes last before a plain algorithm")

    @property
    def spelling(self) -> str:
        """The memory, ``>>`` and the algorithm."""
        return f"{spell(self.remember)} >> {spell(self.base)}"

    def start(self, n_features: int, stream: Stream) -> State:
        """Start as the base does, with an empty memory."""
        begun = self.base.start(n_features, stream)
        memory = replaced({"remember": self.remember.start()}, "base", begun.memory)
        return State(begun.weights, begun.step, begun.updates, memory)

    def n_features(self, state: State) -> int:
        """Return the number of features of the base."""
        return self.base.n_features(state.of("base"))

    def n_weights(self, n_features: int, memory: Memory) -> int:
        """Return the number of weights of the base."""
        return self.base.n_weights(n_features, memory.get("base", {}))

    def scores(self, state: State, features: Features, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores by features alone."""
        return self.base.scores(state.of("base"), features, offsets)

    def deviations(self, state: State) -> NDArray[np.float64] | None:
        """Return the standard deviations of the base."""
        return self.base.deviations(state.of("base"))

    def carry_memory(
        self, memory: Memory, n_features: int, carry: Callable[[Weights], Weights], stream: Stream
    ) -> Memory:
        """Keep what was remembered, which does not depend on the columns; the examination model starts again."""
        base = self.base.carry_memory(memory.get("base", {}), n_features, carry, stream)
        kept = {name: array for name, array in memory["remember"].items() if name != "examination"}
        return replaced({"remember": kept}, "base", base)

    def recalled(self, state: State, query: Query) -> Query:
        """Return a query with the boosts that are remembered; one that has boosts keeps them."""
        return (
            query if query.boosts.size else query.with_boosts(self.remember.boosts(state.of("remember").memory, query))
        )

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Explore as the base does, with boosts; a query that has boosts keeps them."""
        if not query.boosts.size:
            query = query.with_boosts(self.remember.boosts(state.of("remember").memory, query, stream))
        return self.base.explore(state.of("base"), query, length, stream)

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Observe a list as the base does, with boosts."""
        return self.base.observe_list(state.of("base"), self.recalled(state, query), ranking, stream)

    def best(self, state: State, query: Query, stream: Stream) -> Ranking:
        """Rank as the base does, with boosts."""
        return self.base.best(state.of("base"), self.recalled(state, query), stream)

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the gradient of the base, and the memory after counting the list."""
        gradient, learned = self.base.gradient(state.of("base"), impression, feedback, stream)
        counted = self.remember.count(state.of("remember").memory, impression, feedback)
        return gradient, replaced(replaced(state.memory, "base", learned), "remember", counted)

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move as the base does."""
        weights, memory = self.base.update(state.of("base"), gradient)
        return weights, replaced(state.memory, "base", memory)

    def explain_step(self, state: State, impression: Impression, feedback: Feedback, stream: Stream) -> StepExplanation:
        """Return the components of the step of the base."""
        return self.base.explain_step(state.of("base"), impression, feedback, stream)


def memory_of(algorithm: Algorithm) -> Remember | None:
    """Return the memory of queries of a recipe; None if it has none."""
    base = algorithm.base if isinstance(algorithm, Represented) else algorithm
    return base.remember if isinstance(base, Remembered) else None


def base_of(algorithm: Algorithm) -> Algorithm | None:
    """Return the recipe that one is compared with: the same without its projection or its memory; None if it has neither.

    Examples
    --------
    >>> from duelrank import parse
    >>> from duelrank.algorithms.remembered import base_of
    >>> base_of(parse("query-scaled >> remember >> pdgd"))
    Represented(base=PDGD())
    """
    if isinstance(algorithm, Projected):
        return algorithm.base
    if isinstance(algorithm, Represented) and isinstance(algorithm.base, Remembered):
        return replace(algorithm, base=algorithm.base.base)
    return algorithm.base if isinstance(algorithm, Remembered) else None


def counted(algorithm: Algorithm, state: State, query: Query, ranking: Ranking, feedback: Feedback) -> State:
    """Return a state that remembers a list of another system, if the recipe has a memory; the weights do not change."""
    remember = memory_of(algorithm)
    if remember is None or not query.id:
        return state
    columns = frozen(algorithm.columns(state, query.features, np.array([0, query.n_documents])))
    known = remember.count(state.of("remember").memory, Impression(query.with_features(columns), ranking), feedback)
    return State(state.weights, state.step, state.updates, replaced(state.memory, "remember", known))


alias("remember", Remember())
alias(
    "thompson-pairs-remembered",
    Remembered(ThompsonPairs(_USERS, prior=5.0, width=0.169, balance=0.25), Remember()),
)
