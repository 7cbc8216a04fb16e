"""What the parts of an algorithm remember: nested by part in a state, flat by name where it is stored.

A memory is a mapping of arrays. A part that holds other parts keeps theirs under the names of its fields, so each part reads
and writes a namespace of its own and never sees what another one remembers::

    {"exploration": {"losers": …}, "inference": {"hard_since": …}, "step": {"velocity": …}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from numpy.typing import NDArray

from duelrank.registry import Part, walk
from duelrank.types import Memory

__all__ = ["flatten", "nest", "replaced"]

Path = tuple[str, ...]

_EXPLORATION: tuple[Path, ...] = (("base", "exploration"), ("exploration",))
#: Names from before parts had namespaces, by how they begin, and where their parts are in a recipe. They are still stored without
#: a path, so that stores, snapshots and digests of all versions are alike; every other name is stored with its path.
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
    """Return a memory in which the part in a field remembers something else; the same object where nothing changes."""
    before = memory.get(part)
    if own is before or (before is None and not own):
        return memory
    return {**memory, part: own}


def flatten(memory: Memory) -> dict[str, NDArray[Any]]:
    """Return every array of a memory by one name, such as ``step/velocity``."""
    flat: dict[str, NDArray[Any]] = {}
    for (*parents, name), array in sorted(_arrays(memory), key=lambda item: item[0]):
        short = tuple(parents) in _places(name) and name not in flat
        flat[name if short else "/".join((*parents, name))] = array
    return flat


def nest(flat: Mapping[str, NDArray[Any]], recipe: Part) -> Memory:
    """Return the memory whose arrays `flatten` has named, for the parts of a recipe."""
    parts = {path for path, _ in walk(recipe)}
    memory: dict[str, Any] = {}
    for stored, array in flat.items():
        *path, name = stored.split("/")
        inner = memory
        for part in path or _place(name, parts):
            inner = inner.setdefault(part, {})
        inner[name] = array
    return memory


def _place(name: str, parts: Set[Path]) -> Path:
    """Return where the part is that a name without a path belongs to; the algorithm itself if it is none of the short names."""
    return next((place for place in _places(name) if place in parts), ())


def _places(name: str) -> tuple[Path, ...]:
    return next((places for start, places in _SHORT.items() if name.startswith(start)), ())


def _arrays(memory: Memory, parents: Path = ()) -> Iterator[tuple[Path, NDArray[Any]]]:
    for name, value in memory.items():
        if isinstance(value, Mapping):
            yield from _arrays(value, (*parents, name))
        else:
            yield (*parents, name), value
