"""What stands in the log: one body per kind of event, packed as MessagePack, with nothing in it that could be executed."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from duelrank.api import RankerSpec
from duelrank.errors import StoreCorrupt
from duelrank.memory import flatten, nest
from duelrank.registry import Part
from duelrank.types import Features, State, frozen

__all__ = [
    "EXPLORED",
    "GREEDY",
    "SHADOW",
    "Control",
    "Created",
    "Fed",
    "Published",
    "Shown",
    "digest",
    "hash63",
    "pack",
    "pack_state",
    "unpack",
    "unpack_state",
]

T = TypeVar("T")

#: The reserved name under which all rankers are listed; no ranker can have it.
RANKERS = "_rankers"
#: How a list came about.
GREEDY, EXPLORED, SHADOW = 0, 1, 2


class _Body(msgspec.Struct, frozen=True, array_like=True):
    """Fields are packed in order; later versions may add some at the end, with defaults, and never remove one."""


class Created(_Body, frozen=True):
    """A ranker was made (under the name `RANKERS`, key: its name)."""

    spec: RankerSpec


class Shown(_Body, frozen=True, gc=False):
    """A list was made ("ranked", key: its id) of documents with raw features: float64, little-endian, row by row."""

    version: int
    ids: list[str]
    features: bytes
    order: list[int]
    way: int

    def raw(self) -> Features:
        """Return the features as a read-only table."""
        return np.frombuffer(self.features, "<f8").reshape(len(self.ids), -1)


class Fed(_Body, frozen=True):
    """A user clicked at positions, from 0, of a list ("feedback", key: the event's id)."""

    impression: str
    clicks: list[int]
    examined: int | None
    time: float | None


class Published(_Body, frozen=True):
    """All before this event makes a version ("published", key: its number); the digest is of the version before it."""

    version: int
    previous: bytes


class Control(_Body, frozen=True):
    """Somebody said freeze, resume, rollback, pin or unpin; with rollback and pin comes the state of the version."""

    action: str
    version: int | None = None
    state: bytes | None = None


class _Array(_Body, frozen=True):
    kind: str
    shape: list[int]
    data: bytes


class _State(_Body, frozen=True):
    weights: bytes
    step: int
    updates: int
    memory: dict[str, _Array]


pack = msgspec.msgpack.Encoder().encode
_DECODERS: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {}


def unpack(body: bytes, kind: type[T]) -> T:
    """Return the struct that was packed, or raise where the bytes are of something else."""
    decoder = _DECODERS.get(kind) or _DECODERS.setdefault(kind, msgspec.msgpack.Decoder(kind))
    try:
        found: T = decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"an event or snapshot in the store is no {kind.__name__}: {error}") from None
    return found


def pack_state(state: State) -> bytes:
    """Return a state as bytes; equal states give equal bytes."""
    memory = {name: _packed(array) for name, array in sorted(flatten(state.memory).items())}
    return pack(_State(state.weights.astype("<f8").tobytes(), int(state.step), int(state.updates), memory))


def unpack_state(body: bytes, recipe: Part) -> State:
    """Return the state of a recipe that was packed."""
    found = unpack(body, _State)
    weights = np.frombuffer(found.weights, "<f8").astype(np.float64)
    memory = nest({name: _unpacked(array) for name, array in found.memory.items()}, recipe)
    return State(frozen(weights), found.step, found.updates, memory)


def digest(state: State) -> bytes:
    """Return 16 bytes that hardly fit any other state."""
    return blake2b(pack_state(state), digest_size=16).digest()


def hash63(text: str) -> int:
    """Return a number for a text, the same in every process: that of its random stream."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def _packed(array: NDArray[Any]) -> _Array:
    plain = np.ascontiguousarray(array)
    return _Array(
        plain.dtype.newbyteorder("<").str, list(array.shape), plain.astype(plain.dtype.newbyteorder("<")).tobytes()
    )


def _unpacked(array: _Array) -> NDArray[Any]:
    try:
        kind = np.dtype(array.kind)
        if kind.kind not in "biuf":
            raise TypeError(f"{kind} is not of numbers")
        return np.frombuffer(array.data, kind).reshape(array.shape).astype(kind.newbyteorder("="))
    except (TypeError, ValueError) as error:
        raise StoreCorrupt(f"an array in the store is damaged: {error}") from None
