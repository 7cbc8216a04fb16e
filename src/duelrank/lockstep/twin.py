"""Defines twins, the lockstep forms of parts, and the values that they exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import jax

from duelrank.core.errors import InvalidValue
from duelrank.core.registry import Part

#: The name of the axis of all runs; a reduction over it finds computations that no run needs.
RUNS = "runs"

Array: TypeAlias = jax.Array
DType: TypeAlias = Any  # the type of features, weights and scores: single or double precision
Numbers: TypeAlias = dict[str, Any]  # the numeric parameters of a part by name; those of its inner parts are nested
Shape: TypeAlias = tuple[object, ...]  # the parameters that decide the program
Memory: TypeAlias = Any  # the memory of a part: a tuple of arrays, () for none

_UNKNOWN = 4 << 30  # bytes, if a device does not report its memory
_SHARE = 0.6  # of the memory, for arrays that can be counted before compiling


def _identity(rows: Array) -> Array:
    return rows


class Sizes(NamedTuple):
    """Sizes that determine the memory of a run.

    Parameters
    ----------
    columns
        Number of weights of a ranker.
    widest
        Number of documents of the largest query.
    length
        Number of documents of a list.
    rankers
        Number of rankers that are compared in a list.
    rows
        Number of training documents of the largest fold.
    """

    columns: int
    widest: int
    length: int
    rankers: int
    rows: int = 0


class Query(NamedTuple):
    """A query, without labels.

    Parameters
    ----------
    table
        (rows, features) all documents of all queries, before a representation that learns.
    start, size
        Its first row in the table, and its number of documents.
    features
        (widest, columns) its documents; rows from ``size`` on belong to other queries.
    present
        (widest,) flags of the rows of ``features`` that belong to the query.
    places
        (length,) flags of the positions of a list that are used: a query may have fewer documents than a list.
    columns
        Flags of the columns of this run: of the features of its data set or, before a representation, one row of them for each
        column of a feature.
    represent
        Converts rows of the table into columns.
    own
        Its first row among the training documents of its fold.
    boosts
        (widest,) what every ranker adds to the score of each document; None: nothing.
    """

    table: Array
    start: Array
    size: Array
    features: Array
    present: Array
    places: Array
    columns: Array
    represent: Callable[[Array], Array] = _identity
    own: Array | int = 0
    boosts: Array | None = None

    def documents(self, rows: Array) -> Array:
        """Return the columns of the documents in these rows of the table."""
        return self.represent(self.table[rows])

    def boosted(self, scores: Array, documents: Array | None = None) -> Array:
        """Return scores with the boosts: of all documents, or of some of them, by their numbers within the query."""
        if self.boosts is None:
            return scores
        found = self.boosts if documents is None else self.boosts[documents]
        return scores + found.astype(scores.dtype)


class State(NamedTuple):
    """The learned state, as `duelrank.core.types.State`.

    What is remembered of every training document is apart, because it is large: it is updated in place, never selected or copied.
    """

    weights: Array
    step: Array
    updates: Array
    memory: Memory
    documents: Memory = ()


class Shown(NamedTuple):
    """A list: the numbers of the documents within the query, and the trace for learning."""

    ranking: Array
    trace: Any


class Clicked(NamedTuple):
    """The feedback on a list: flags of clicked positions, the lowest click (from 1, 0 for none), number of examined positions."""

    clicks: Array
    last: Array
    examined: Array


def usable() -> int:
    """Return the number of bytes on the device that a batch may use."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return int(stats.get("bytes_limit", _UNKNOWN) * _SHARE)


@contextmanager
def within_memory() -> Iterator[None]:
    """Convert JAX's error for a lack of memory into one with advice."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise InvalidValue(
            "the batch does not fit in the memory of the device; end other programs that use it, run fewer algorithms in one "
            "command, or leave --device out"
        ) from error


T = TypeVar("T", bound="type[Twin]")

_TWINS: dict[type[Part], type[Twin]] = {}


class Twin:
    """The lockstep form of a part.

    Fields of the part that decide the shape of arrays are in ``shaping``: parts that differ in them have different programs. All
    other fields are numbers, which may differ from run to run in one program.

    Parameters
    ----------
    part
        The part. Runs that share a program share only its shaping fields, so twins must not read any other field.
    """

    #: Fields that decide shapes.
    shaping: ClassVar[tuple[str, ...]] = ()
    #: Fields without effect in lockstep.
    ignored: ClassVar[tuple[str, ...]] = ()
    #: By field, the number that represents None.
    absent: ClassVar[Mapping[str, float]] = {}
    #: By field, the numbers that represent texts.
    codes: ClassVar[Mapping[str, Mapping[str, float]]] = {}

    def __init__(self, part: Part) -> None:
        self.part = part
        for name, inner in _inner(part, self.ignored):
            setattr(self, name, twin_of(inner))

    @classmethod
    def refuses(cls, part: Part) -> str | None:
        """Return the reason why a part cannot run in lockstep; None if it can."""
        return None

    @property
    def shape(self) -> Shape:
        """The key of the program: two parts of equal shape differ only in numbers."""
        own = tuple(self.shaped(name) for name in self.shaping)
        inner = tuple((name, getattr(self, name).shape) for name, _ in _inner(self.part, self.ignored))
        return (type(self.part).__name__, own, inner)

    def shaped(self, name: str) -> Any:
        """Return the value of a shaping field; a twin may round it up so that more parts share a program."""
        return getattr(self.part, name)

    def room(self, sizes: Sizes) -> int:
        """Return the bytes that a run needs for this part and its inner parts, in addition to those that every run needs.

        Features, weights and scores count as single precision.
        """
        return sum(int(getattr(self, name).room(sizes)) for name, _ in _inner(self.part, self.ignored))

    def numbers(self) -> Numbers:
        """Return the numeric parameters, nested as the parts are."""
        found: Numbers = {name: getattr(self, name).numbers() for name, _ in _inner(self.part, self.ignored)}
        for item in fields(self.part):
            value = getattr(self.part, item.name)
            if not isinstance(value, Part) and item.name not in self.ignored:
                found[item.name] = self._number(item.name, value)
        return found

    def _number(self, name: str, value: Any) -> float:
        if isinstance(value, str):
            if name in self.codes:
                return self.codes[name][value]
            if name not in self.shaping:
                raise TypeError(
                    f"{type(self).__name__} has no number for the text {name}: see codes, shaping and ignored"
                )
            return 0.0  # it is part of the shape
        return self.absent.get(name, float("inf")) if value is None else float(value)


def twin(*parts: type[Part]) -> Callable[[T], T]:
    """Class decorator: make a class the twin of parts of exactly these classes; subclasses may behave differently."""

    def decorate(cls: T) -> T:
        _TWINS.update(dict.fromkeys(parts, cls))
        return cls

    return decorate


def twin_of(part: Part) -> Twin:
    """Return the twin of a part, which must have one."""
    return _TWINS[type(part)](part)


def obstacles(part: Part) -> Iterator[str]:
    """Yield the reasons why a part cannot run in lockstep: every inner part without a twin or with unsupported settings."""
    found = _TWINS.get(type(part))
    if found is None:
        yield f"{type(part).__name__} has no lockstep twin"
        return
    if reason := found.refuses(part):
        yield reason
    for _, inner in _inner(part, found.ignored):
        yield from obstacles(inner)


def _inner(part: Part, ignored: tuple[str, ...]) -> list[tuple[str, Part]]:
    values = ((item.name, getattr(part, item.name)) for item in fields(part) if item.name not in ignored)
    return [(name, value) for name, value in values if isinstance(value, Part)]
