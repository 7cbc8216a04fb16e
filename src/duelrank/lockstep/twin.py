"""Twins: the forms of parts that the lockstep engine runs, and the values that pass between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax

from duelrank.core.errors import InvalidValue
from duelrank.core.registry import Part

#: The name of the axis of all runs: what no run needs is not computed for any.
RUNS = "runs"

Array = Any  # a JAX array
Numbers = Any  # the numeric parameters of a recipe, nested as its parts
Memory = Any  # what a part remembers: a tuple of arrays, () for nothing


def _as_they_are(rows: Array) -> Array:
    return rows


class Sizes(NamedTuple):
    """What decides how much memory a run takes: weights of a ranker, documents of a query, length of a list, rankers of a list."""

    columns: int
    widest: int
    length: int
    rankers: int


class Query(NamedTuple):
    """A query; as everywhere, without labels.

    Parameters
    ----------
    table
        (rows, features) all documents of all queries, as they are before a representation that learns.
    start, size
        Its first row, and how many documents it has.
    features
        (widest, columns) its documents; rows from ``size`` on belong to other queries.
    present
        (widest,) flags of its documents.
    places
        (length,) flags of the positions of a list: a query may have fewer documents.
    columns
        Flags of the columns that this run has: of the features of its data set or, before a representation, a row of them for each
        column of a feature.
    represent
        Turns rows of the table into columns.
    """

    table: Array
    start: Array
    size: Array
    features: Array
    present: Array
    places: Array
    columns: Array
    represent: Callable[[Array], Array] = _as_they_are

    def documents(self, rows: Array) -> Array:
        """Return the columns of documents, from the numbers of their rows in the table."""
        return self.represent(self.table[rows])


class State(NamedTuple):
    """What was learned: as `duelrank.core.types.State`."""

    weights: Array
    step: Array
    updates: Array
    memory: Memory


class Shown(NamedTuple):
    """A list: numbers of documents within the query, and how it was made."""

    ranking: Array
    trace: Any


class Clicked(NamedTuple):
    """The feedback on a list: flags of the clicked positions, the lowest click (from 1, 0 for none), positions examined."""

    clicks: Array
    last: Array
    examined: Array


_UNKNOWN = 4 << 30  # where a device does not say how much it has
_SHARE = 0.6  # for what can be counted before compiling


def usable() -> int:
    """Return how many bytes may be planned for."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return int(stats.get("bytes_limit", _UNKNOWN) * _SHARE)


@contextmanager
def within_memory() -> Iterator[None]:
    """Turn JAX's error for a lack of memory into one that says what to do."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise InvalidValue(
            "the batch did not fit in the device's memory; end what else uses it, run fewer algorithms in one command, or leave "
            "--device out"
        ) from error


T = TypeVar("T", bound="type[Twin]")

_TWINS: dict[type[Part], type[Twin]] = {}


class Twin:
    """The lockstep form of a part.

    Fields of the part that decide the shape of arrays are in ``shaping``: parts that differ in them need programs of their own. All
    others are numbers, which may differ from run to run in one program.

    Parameters
    ----------
    part
        The part; runs that share a program share its shaping fields, so twins must not read any other from it.
    """

    #: Fields that decide shapes.
    shaping: ClassVar[tuple[str, ...]] = ()
    #: Fields without influence on results here.
    ignored: ClassVar[tuple[str, ...]] = ()
    #: The number for a None.
    absent: ClassVar[Mapping[str, float]] = {}
    #: The numbers for texts.
    codes: ClassVar[Mapping[str, Mapping[str, float]]] = {}

    def __init__(self, part: Part) -> None:
        self.part = part
        for name, inner in _inner(part, self.ignored):
            setattr(self, name, twin_of(inner))

    @classmethod
    def refuses(cls, part: Any) -> str | None:
        """Return why a part of this class cannot run in lockstep; None where it can."""
        return None

    @property
    def shape(self) -> tuple[Any, ...]:
        """What decides the program: two parts of equal shape differ in numbers only."""
        own = tuple(self.shaped(name) for name in self.shaping)
        inner = tuple((name, getattr(self, name).shape) for name, _ in _inner(self.part, self.ignored))
        return (type(self.part).__name__, own, inner)

    def shaped(self, name: str) -> Any:
        """Return the value of a shaping field; twins may round it up so that more parts share a program."""
        return getattr(self.part, name)

    def room(self, sizes: Sizes) -> int:
        """Return how many bytes a run needs for this part and those within it, beside what every run needs.

        Features, weights and scores count as single precision.
        """
        return sum(int(getattr(self, name).room(sizes)) for name, _ in _inner(self.part, self.ignored))

    def numbers(self) -> dict[str, Any]:
        """Return the numeric parameters, nested as the parts are."""
        found: dict[str, Any] = {name: getattr(self, name).numbers() for name, _ in _inner(self.part, self.ignored)}
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
            return 0.0  # the program is made for this text
        return self.absent.get(name, float("inf")) if value is None else float(value)


def twin(*parts: type[Part]) -> Callable[[T], T]:
    """Class decorator: make a class the twin of parts; of these classes exactly, as a subclass may do anything."""

    def decorate(cls: T) -> T:
        _TWINS.update(dict.fromkeys(parts, cls))
        return cls

    return decorate


def twin_of(part: Part) -> Any:
    """Return the twin of a part that has one."""
    return _TWINS[type(part)](part)


def obstacles(part: Part) -> Iterator[str]:
    """Yield what keeps a part from running in lockstep: every inner part without a twin, or one that refuses its settings."""
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
