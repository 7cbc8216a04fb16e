"""Converts the memory of an algorithm between its nested form in a `State` and its flat form in storage; a memory of queries.

A memory is a mapping from names to arrays. A part that contains other parts stores their memories under the names of its fields,
so each part has its own namespace and never sees the memory of another part::

    {"exploration": {"losers": …}, "inference": {"hard_since": …}, "step": {"velocity": …}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.core.registry import Part, walk
from duelrank.core.types import Memory
from duelrank.kernels.remembered import HEAD, newer_records, recall

Path = tuple[str, ...]

_EMPTY = np.empty(0, np.int64)
_NEVER = np.iinfo(np.int64).max

_EXPLORATION: tuple[Path, ...] = (("base", "exploration"), ("exploration",))
#: Prefixes of names from before parts had namespaces, and the location of their parts in a recipe. These names are still stored
#: without a path, so that stores, snapshots and digests of all versions stay compatible; all others are stored with their path.
_SHORT: dict[str, tuple[Path, ...]] = {
    "avoided": _EXPLORATION,
    "loser": _EXPLORATION,
    "history_": _EXPLORATION,
    "checkpoint": _EXPLORATION,
    "cascaded": _EXPLORATION,
    "references": (("base", "exploration", "fast"), ("exploration", "fast"), *_EXPLORATION),
    "hard_": (("base", "inference"), ("inference",)),
    "examined": (("projection",),),
    "examination_": (("projection", "examination"), ("examination",)),
    "inverse": (("base",), ()),
    "queries_": (("base",), ()),
}


def replaced(memory: Memory, part: str, own: Memory) -> Memory:
    """Return the memory with a new memory for the part in the field ``part``; the same object if nothing changes."""
    before = memory.get(part)
    if own is before or (before is None and not own):
        return memory
    return {**memory, part: own}


def for_ranking(memory: Memory, recipe: Part) -> Memory:
    """Return the memory of a recipe without the entries that only learning needs (`Part.learning_only`).

    Examples
    --------
    >>> from duelrank import parse
    >>> from duelrank.core.memory import for_ranking
    >>> memory = {"representation": {"knots": 1, "sample": 2}, "base": {"step": {"velocity": 3}}}
    >>> for_ranking(memory, parse("curves >> mgd-dsp"))
    {'representation': {'knots': 1}}
    """
    kept: dict[str, Any] = {}
    for name, value in memory.items():
        owner = recipe if name == "representation" else _inside(recipe)
        if any(fnmatchcase(name, pattern) for pattern in owner.learning_only):
            continue
        part = getattr(owner, name, None)
        if isinstance(value, Mapping) and isinstance(part, Part):
            value = for_ranking(value, part)
        if not isinstance(value, Mapping) or value:
            kept[name] = value
    return kept


def completed(memory: Memory, other: Memory) -> Memory:
    """Return the memory with those entries of another memory that it lacks.

    Examples
    --------
    >>> from duelrank.core.memory import completed
    >>> completed({"representation": {"knots": 1}}, {"representation": {"knots": 5, "sample": 2}})
    {'representation': {'knots': 1, 'sample': 2}}
    """
    found = {**other, **memory}
    for name in memory.keys() & other.keys():
        if isinstance(memory[name], Mapping) and isinstance(other[name], Mapping):
            found[name] = completed(memory[name], other[name])
    return found


def flatten(memory: Memory) -> dict[str, NDArray[Any]]:
    """Return all arrays of a nested memory by flat names, such as ``step/velocity``."""
    flat: dict[str, NDArray[Any]] = {}
    for (*parents, name), array in sorted(_arrays(memory), key=lambda item: item[0]):
        short = tuple(parents) in _places(name) and name not in flat
        flat[name if short else "/".join((*parents, name))] = array
    return flat


def nest(flat: Mapping[str, NDArray[Any]], recipe: Part) -> Memory:
    """Return the nested memory of a recipe from the flat names of `flatten`."""
    parts = {path for path, _ in walk(_inside(recipe))}
    memory: dict[str, Any] = {}
    for stored, array in flat.items():
        *path, name = stored.split("/")
        inner = memory
        for part in path or _location(name, parts):
            inner = inner.setdefault(part, {})
        inner[name] = array
    return memory


def _inside(recipe: Part) -> Part:
    """Return the algorithm behind representations, which share its namespace."""
    while recipe.kind == "algorithm" and hasattr(recipe, "representation"):
        recipe = recipe.base  # type: ignore[attr-defined]
    return recipe


def _location(name: str, parts: Set[Path]) -> Path:
    """Return the location of the part that a name without a path belongs to; by default the algorithm itself."""
    return next((place for place in _places(name) if place in parts), ())


def _places(name: str) -> tuple[Path, ...]:
    return next((places for start, places in _SHORT.items() if name.startswith(start)), ())


def _arrays(memory: Memory, parents: Path = ()) -> Iterator[tuple[Path, NDArray[Any]]]:
    for name, value in memory.items():
        if isinstance(value, Mapping):
            yield from _arrays(value, (*parents, name))
        else:
            yield (*parents, name), value


class QueryMemory:
    """Reads and writes models, flat int64 arrays, in a `Memory` of limited size; the least recently written one is forgotten.

    A query is identified by a 64-bit hash of its id; the probability that two of 10,000 collide is 3e-12. A state is replaced and
    never changed, and copying all models for every impression would be slow: models are in buckets, of which only one is copied.
    The number of buckets is such that this takes about as long as copying the mapping of all buckets.

    Parameters
    ----------
    queries
        Maximum number of queries to remember.
    """

    def __init__(self, queries: int) -> None:
        self.queries = queries
        self.n_buckets = 4 * isqrt(queries)

    def start(self) -> Memory:
        """Return the memory before the first query."""
        return {"queries_oldest": np.full(self.n_buckets, _NEVER), "queries_known": np.zeros(1, np.int64)}

    def read(self, memory: Memory, query: str) -> tuple[NDArray[np.int64], int]:
        """Return the model of a query and the number of times it was written; an empty model if the query is unknown."""
        key = query_key(query)
        bucket = memory.get(f"queries_{key % self.n_buckets}", _EMPTY)
        rounds, start, stop = recall(bucket, key)
        return bucket[start:stop], rounds

    def write(self, memory: Memory, query: str, model: NDArray[np.int64], rounds: int, now: int) -> Memory:
        """Return the memory with the model added; ``now`` must not be earlier than any previous write."""
        head = np.array((query_key(query), now, rounds, model.size), np.int64)
        return self.merged(memory, np.concatenate((head, model.ravel())))

    def records(self, memory: Memory, since: int = -1, before: Memory | None = None) -> NDArray[np.int64]:
        """Return the records that were written after a time, as one flat array, the oldest of each bucket first.

        ``before`` is the memory at that time; buckets that are the same arrays in both are skipped.
        """
        known = before or {}
        buckets = (memory.get(name) for name in self._names if memory.get(name) is not known.get(name))
        found = [newer_records(bucket, since) for bucket in buckets if bucket is not None]
        return np.concatenate(found) if found else _EMPTY

    def pieces(self, memory: Memory, size: int) -> Iterator[NDArray[np.int64]]:
        """Yield all records, in arrays of at least ``size`` bytes, except the last one."""
        found, n_bytes = list[NDArray[np.int64]](), 0
        for bucket in (memory[name] for name in self._names if name in memory):
            found.append(bucket)
            n_bytes += bucket.nbytes
            if n_bytes >= size:
                yield np.concatenate(found)
                found, n_bytes = [], 0
        if n_bytes:
            yield np.concatenate(found)

    def merged(self, memory: Memory, records: NDArray[np.int64]) -> Memory:
        """Return the memory with records of `records` in place of older ones; the least recently written ones are forgotten."""
        after, known = {**memory, "queries_oldest": memory["queries_oldest"].copy()}, int(memory["queries_known"][0])
        for record in _each(records):
            number = int(record[0]) % self.n_buckets
            bucket = after.get(f"queries_{number}", _EMPTY)
            _, start, stop = recall(bucket, record[0])
            # The latest write goes to the end, so that the first record of a bucket is its oldest.
            bucket = np.concatenate((bucket[: max(start - HEAD, 0)], bucket[stop:], record))
            after[f"queries_{number}"], after["queries_oldest"][number] = bucket, bucket[1]
            known += stop == 0
        for _ in range(known - self.queries):
            _forget_oldest(after)
        after["queries_known"] = np.array([min(known, self.queries)])
        return after

    def models(self, memory: Memory) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield the key of each query, the number of times it was written, and its model."""
        for name in self._names:
            for record in _each(memory.get(name, _EMPTY)):
                yield int(record[0]), int(record[2]), record[HEAD:]

    def n_bytes(self, memory: Memory) -> int:
        """Return the number of bytes of all records."""
        return sum(memory[name].nbytes for name in self._names if name in memory)

    def mapped(self, memory: Memory, change: Callable[[int, NDArray[np.int64]], NDArray[np.int64] | None]) -> Memory:
        """Return the memory with each model replaced by what a function returns for its key and itself; None forgets the query."""
        after, oldest, known = {**memory}, np.full(self.n_buckets, _NEVER), 0
        for number, name in enumerate(self._names):
            kept = [_EMPTY]
            for record in _each(memory.get(name, _EMPTY)):
                if (model := change(int(record[0]), record[HEAD:])) is not None:
                    kept += [record[: HEAD - 1], np.array([model.size]), model]
                    known += 1
            if name in memory:
                after[name] = rest = np.concatenate(kept)
                oldest[number] = rest[1] if rest.shape[0] else _NEVER
        return {**after, "queries_oldest": oldest, "queries_known": np.array([known])}

    @cached_property
    def _names(self) -> list[str]:
        return [f"queries_{number}" for number in range(self.n_buckets)]


def lasting(memory: Memory, recipe: Part) -> Memory:
    """Return the entries of a memory that stay after a rollback or a change of features (`Part.lasting`)."""
    owner, kept = _inside(recipe), dict[str, Any]()
    for name, value in memory.items():
        part = getattr(owner, name, None)
        if isinstance(value, Mapping) and isinstance(part, Part):
            value = lasting(value, part)
            if value:
                kept[name] = value
        elif any(fnmatchcase(name, pattern) for pattern in owner.lasting):
            kept[name] = value
    return kept


def _each(records: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the records of a bucket, the oldest first."""
    at = 0
    while at < records.shape[0]:
        stop = at + HEAD + int(records[at + 3])
        yield records[at:stop]
        at = stop


def _forget_oldest(memory: dict[str, NDArray[Any]]) -> None:
    """Drop, in place, the least recently written model."""
    number = int(memory["queries_oldest"].argmin())
    bucket = memory[f"queries_{number}"]
    memory[f"queries_{number}"] = rest = bucket[HEAD + int(bucket[3]) :].copy()
    memory["queries_oldest"][number] = rest[1] if rest.shape[0] else _NEVER


def query_key(query: str) -> int:
    """Return a 64-bit hash that is the same in every process."""
    digest = blake2b(str(query).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
