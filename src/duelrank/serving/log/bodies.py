"""The bodies of events: one struct per kind, packed as MessagePack, with nothing in it that could be executed."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from duelrank.api import Change, RankerSpec
from duelrank.core.errors import StoreCorrupt
from duelrank.core.memory import flatten, nest
from duelrank.core.registry import Part
from duelrank.core.types import State, frozen
from duelrank.decoding import msgpack_decoder

__all__ = [
    "BASELINE",
    "CLOSED",
    "CONTROL",
    "CREATED",
    "DELETED",
    "EXPLORED",
    "FAILED",
    "FEEDBACK",
    "GREEDY",
    "GUARD",
    "IMPRESSION",
    "LOGGED",
    "OLD",
    "PUBLISHED",
    "PURGED",
    "RANKERS",
    "SALT",
    "SHADOW",
    "Control",
    "Created",
    "Deleted",
    "Evidence",
    "Failed",
    "Published",
    "StoredFeedback",
    "StoredImpression",
    "StoredLog",
    "digest",
    "document_digest",
    "hash63",
    "pack",
    "pack_state",
    "pack_teams",
    "unpack",
    "unpack_state",
    "unpack_teams",
]

T = TypeVar("T")

#: Kinds of events of a ranker. These words are in stores, so they stay, also "ranked".
IMPRESSION, FEEDBACK, CLOSED, PUBLISHED, CONTROL = "ranked", "feedback", "closed", "published", "control"
LOGGED, FAILED = "logged", "failed"
#: The reserved name under which the log tells of rankers that come and go; no ranker can have it.
RANKERS = "_rankers"
#: Kinds of events under that name.
CREATED, DELETED, PURGED, SALT = "created", "deleted", "purged", "salt"
#: How the order of an impression came about; GUARD is a team draft of the learned ranker and the client's order, BASELINE is that
#: order itself. OLD is in no body: the machine calls so what was made by something that is not learned or watched any more.
GREEDY, EXPLORED, SHADOW, GUARD, BASELINE, OLD = 0, 1, 2, 3, 4, 5


class _Body(msgspec.Struct, frozen=True, array_like=True):
    """Fields are packed in order; later versions may add some at the end, with defaults, and never remove one."""


class Created(_Body, frozen=True):
    """A ranker was created (key: its name), with these weights and knots where its spec says where to start from.

    The salt is secret; it is mixed into the draws of its lists. Rankers that were created without one have an empty salt.
    """

    spec: RankerSpec
    weights: bytes | None = None
    knots: bytes | None = None
    salt: bytes = b""


class Deleted(_Body, frozen=True):
    """A ranker was deleted: the one that was created with the event of this number."""

    name: str
    number: int


class StoredImpression(_Body, frozen=True, gc=False):
    """An impression was made (key: its id). The features of its documents are the event's attachment.

    ``ids`` are of the documents that were shown, in order, ``documents`` is a digest of the ids of all. ``features`` is empty.
    """

    version: int
    ids: list[str]
    features: bytes
    order: list[int]
    way: int
    documents: bytes = b""
    teams: bytes = b""  # of a guard list
    missing: int = 0  # feature values
    out_of_range: int = 0
    names: bytes = b""  # a digest of the names of the features; not there in bodies of earlier versions

    @classmethod
    def of(
        cls,
        version: int,
        ids: list[str],
        order: list[int],
        way: int,
        teams: bytes = b"",
        missing: int = 0,
        out_of_range: int = 0,
        names: bytes = b"",
    ) -> StoredImpression:
        """Return the body for documents with these ids, shown in this order."""
        shown, digest = [ids[document] for document in order], document_digest(ids)
        return cls(version, shown, b"", order, way, digest, teams, missing, out_of_range, names)

    @property
    def shown(self) -> list[str]:
        """The ids of the documents that were shown, in order."""
        return self.ids

    def is_of(self, ids: list[str]) -> bool:
        """Whether it was made of documents with these ids, in any order."""
        return document_digest(ids) == self.documents


class StoredFeedback(_Body, frozen=True):
    """A user clicked at positions, from 0, of an impression (key: the event id); the user is a hash, where one is known.

    The action is what was done there, where it was not a click.
    """

    impression: str
    clicks: list[int]
    examined: int | None
    time: float | None
    user: bytes = b""
    action: str = ""


class StoredLog(_Body, frozen=True):
    """Another system showed a list (key: its id), of the first so many documents of the attachment; and what was done where."""

    shown: int
    actions: dict[str, list[int]]
    examined: int | None
    names: bytes


class Published(_Body, frozen=True):
    """All before this event makes a version (key: its number); the digest is of the version before it."""

    version: int
    previous: bytes


class Failed(_Body, frozen=True):
    """Nothing could be learned from an event (key: its number); and why.

    The version is the newest that the leader had announced: what comes behind a newer one says nothing.
    """

    version: int
    reason: str


class Evidence(_Body, frozen=True):
    """What a guard acts on: the detector's statistic, and the decisive lists that were won and lost until then."""

    statistic: float
    wins: int
    losses: int


class Control(_Body, frozen=True):
    """An operator said freeze, resume, rollback, pin, unpin or change; with rollback and pin comes the state of the version.

    Or label, to keep a version under a name, "" to keep it no longer. Or the guard says alarm or promote, with its evidence; or a
    process begins to learn, which is called start.
    """

    action: str
    version: int | None = None
    state: bytes | None = None
    change: Change | None = None
    features: tuple[str, ...] | None = None  # of the state
    evidence: Evidence | None = None
    label: str = ""


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
    decoder = _DECODERS.get(kind) or _DECODERS.setdefault(kind, msgpack_decoder(kind))
    try:
        found: T = decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"an event or snapshot in the store is not a {kind.__name__}: {error}") from None
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


def document_digest(ids: list[str]) -> bytes:
    """Return 8 bytes that hardly fit any other set of document ids."""
    return blake2b("\0".join(sorted(ids)).encode(), digest_size=8).digest()


def hash63(text: str, salt: bytes = b"") -> int:
    """Return a number for a text, the same in every process: that of its random stream. Nobody can predict it without the salt."""
    return int.from_bytes(blake2b(text.encode(), key=salt, digest_size=8).digest(), "little") >> 1


def pack_teams(teams: NDArray[np.int64]) -> bytes:
    """Return who owns each position of a guard list, −1 for nobody, as one byte each."""
    return (teams + 1).astype(np.uint8).tobytes()


def unpack_teams(body: bytes) -> NDArray[np.int64]:
    """Return who owns each position of a guard list."""
    return np.frombuffer(body, np.uint8).astype(np.int64) - 1


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
