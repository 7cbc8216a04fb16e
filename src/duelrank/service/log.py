"""The event log: stored bodies and their format, batched appends, the newest events and impressions in memory, and reading.

Bodies of events and snapshots are MessagePack; nothing in them is executed. The fields of a body are packed in order, as an array:
later formats may append fields with defaults, and never remove one. A change that defaults cannot express increments `FORMAT`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from threading import Event as Flag
from threading import local
from typing import Any, Literal, Protocol, TypeVar

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from duelrank.core.decoding import msgpack_decoder
from duelrank.core.errors import InvalidValue, StoreCorrupt
from duelrank.core.memory import flatten, nest
from duelrank.core.registry import Part
from duelrank.core.types import NO_BOOSTS, Boosts, Features, State, frozen
from duelrank.placing import with_placed
from duelrank.service.definition import GUARD, LIST_KINDS, Change, RankerSpec, converted
from duelrank.service.experiments import ExperimentSpec
from duelrank.storage import Event, EventLog, NewEvent, Receipt, Storage
from duelrank.storage.base import checked_text

T = TypeVar("T")

#: Kinds of events of a ranker. Stores contain these words, so they cannot change.
IMPRESSION, FEEDBACK, CLOSED, PUBLISHED, CONTROL = "ranked", "feedback", "closed", "published", "control"
LOGGED, FAILED, PAGE = "logged", "failed", "page"
#: The reserved name under which the log records the creation and deletion of rankers; no ranker can have it.
RANKERS = "_rankers"
#: Kinds of events under that name.
CREATED, DELETED, PURGED, SALT = "created", "deleted", "purged", "salt"
#: Kinds of snapshots. A LAST_ANNOUNCED snapshot has no body: its number is that of the newest announced event of a guard.
CHECKPOINT, VERSION, STATUS, HISTORY, LAST_ANNOUNCED = "checkpoint", "version", "status", "history", "told"
LAST_STEP = "step"
#: The memory of the queries of a ranker, all of it; and what has changed in it since the last snapshot of either kind.
MEMORY, MEMORY_CHANGES = "memory", "memory-changes"

#: The version number of the format of bodies. Bodies without a number were written before there was one: they are of format 1, from
#: which format 2 differs by the number only.
FORMAT = 2
_PREFIX = bytes([0xC1, FORMAT])  # MessagePack never uses the byte 0xC1, so no body without a number begins with it

_encode = msgspec.msgpack.Encoder().encode
_DECODERS: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {}


def pack(body: Any) -> bytes:
    """Return a body as bytes, with the number of its format."""
    return _PREFIX + _encode(body)


def content_of(body: bytes) -> memoryview:
    """Return a body without the number of its format; raise `StoreCorrupt` if the format is not known."""
    if body[:1] != _PREFIX[:1]:
        return memoryview(body)
    if body[1:2] > _PREFIX[1:]:
        raise StoreCorrupt(f"the store has data of format {body[1]}, which a later version of duelrank has written")
    return memoryview(body)[len(_PREFIX) :]


def unpack(body: bytes, kind: type[T]) -> T:
    """Return the value of a body; raise `StoreCorrupt` if the bytes are of something else."""
    decoder = _DECODERS.get(kind) or _DECODERS.setdefault(kind, msgpack_decoder(kind))
    try:
        found: T = decoder.decode(content_of(body))
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"an event or snapshot in the store is not a {kind.__name__}: {error}") from None
    return found


# Specifications


class StoredStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The stored form of `Start`."""

    weights: dict[str, float] | None = None
    model: dict[str, Any] | None = None
    ranker: str | None = msgspec.field(name="from", default=None)
    version: int | None = None


class StoredGuardSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored form of `GuardSpec`. All fields are written; the defaults are those of the first format, not those of the API."""

    share: float = 0.1
    false_alarm_every: float = 1_000_000.0
    margin: float = 0.0
    on_alarm: str = "baseline"
    promote: tuple[float, ...] = (0.1, 0.5, 1.0)
    webhook: str | None = None
    anonymous: str = "count"


class StoredSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored form of `RankerSpec`."""

    name: str
    algorithm: str
    features: tuple[str, ...]
    representation: str | dict[str, Any] | None = None
    length: int = 10
    exploration: float = 1.0
    mode: str = "learn"
    seed: int = 0
    close_after: float = 1800.0
    start: StoredStart | None = None
    precision: str = "float64"
    retired: tuple[str, ...] = ()
    guard: StoredGuardSpec | None = None
    actions: dict[str, float] = msgspec.field(default_factory=lambda: {"click": 1.0})
    imitate: int = 0
    context: dict[str, tuple[str, ...]] = {}

    @classmethod
    def of(cls, spec: RankerSpec) -> StoredSpec:
        """Return the stored form of a specification."""
        return converted(spec, cls)

    def read(self) -> RankerSpec:
        """Return the specification."""
        return _read(self, RankerSpec)


class StoredExperiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored form of `ExperimentSpec`."""

    name: str
    systems: tuple[str, ...]
    rankers: tuple[str, ...] = ()
    multileaver: str = "TeamDraft()"
    length: int = 10
    level: float = 0.05
    close_after: float = 1800.0
    actions: dict[str, float] = msgspec.field(default_factory=lambda: {"click": 1.0})

    @classmethod
    def of(cls, spec: ExperimentSpec) -> StoredExperiment:
        """Return the stored form of a specification."""
        return converted(spec, cls)

    def read(self) -> ExperimentSpec:
        """Return the specification."""
        return _read(self, ExperimentSpec)


class StoredChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The stored form of `Change`."""

    exploration: float | None = None
    close_after: float | None = None
    length: int | None = None
    mode: str | None = None
    add_features: tuple[str, ...] = ()
    retire_features: tuple[str, ...] = ()
    guard: StoredGuardSpec | msgspec.UnsetType | None = msgspec.UNSET
    actions: dict[str, float] | None = None
    representation: str | dict[str, Any] | None = None
    context: dict[str, tuple[str, ...]] | None = None

    @classmethod
    def of(cls, change: Change) -> StoredChange:
        """Return the stored form of a change."""
        return converted(change, cls)

    def read(self) -> Change:
        """Return the change."""
        return _read(self, Change)


def _read(stored: msgspec.Struct, kind: type[T]) -> T:
    try:
        return converted(stored, kind)
    except msgspec.ValidationError as error:
        raise StoreCorrupt(f"the store has a {type(stored).__name__} with an unknown value: {error}") from None


# Bodies of events


class _Body(msgspec.Struct, frozen=True, array_like=True):
    """A body whose fields are packed in order."""


class Created(_Body, frozen=True):
    """A ranker was created (key: its name), with the weights and knots that its specification starts from; or an experiment.

    The salt is secret; it is mixed into the random numbers of the lists. Rankers that were created without one have an empty salt.
    """

    spec: StoredSpec | None
    weights: bytes | None = None
    knots: bytes | None = None
    salt: bytes = b""
    experiment: StoredExperiment | None = None


class Deleted(_Body, frozen=True):
    """A ranker or an experiment was deleted; ``number`` is that of the event that created it."""

    name: str
    number: int


#: The placed documents of a list without any.
NOTHING_PLACED: dict[int, str] = {}


class StoredImpression(_Body, frozen=True, gc=False):
    """An impression was made (key: its id). The features of its documents are the event's attachment.

    The attachment of a list of an experiment has the lists that it was merged from. ``ids`` are those of the shown documents, in
    order, without the placed ones; ``documents`` is a digest of the ids of all other candidates; ``features`` is empty;
    ``names`` is a digest of the names of the features, empty in the oldest bodies.
    """

    version: int
    ids: list[str]
    features: bytes
    order: list[int]
    list_kind: int
    documents: bytes = b""
    teams: bytes = b""  # of a guard list
    missing: int = 0  # feature values
    out_of_range: int = 0
    names: bytes = b""
    frozen: bool = False  # a greedy list of a frozen ranker
    query: str = ""  # as it is remembered
    boosts: bytes = b""  # what the memory of the query has added to the score of each candidate, as float32
    in_order: bool = False  # whether a guard list is counted in the order of showing; early ones were when they closed
    user: bytes = b""  # hash of the user, of a list of an experiment
    placed: dict[int, str] = {}  # by position from 0 the documents that no ranker may move, which are in no other field
    page: int = 0  # number of positions of the first page, with placed documents; 0 if there is one page

    @classmethod
    def of(
        cls,
        version: int,
        ids: list[str],
        order: list[int],
        list_kind: int,
        teams: bytes = b"",
        missing: int = 0,
        out_of_range: int = 0,
        names: bytes = b"",
        frozen: bool = False,
        query: str = "",
        boosts: Boosts = NO_BOOSTS,
        placed: dict[int, str] = NOTHING_PLACED,
        page: int = 0,
    ) -> StoredImpression:
        """Return the body for candidates with these ids, shown in this order."""
        shown, digest = [ids[document] for document in order], document_digest(ids)
        added = boosts.astype("<f4").tobytes() if boosts.size else b""
        rest = (missing, out_of_range, names, frozen, query, added, list_kind == GUARD, b"", placed, page)
        return cls(version, shown, b"", order, list_kind, digest, teams, *rest)

    def only(self, places: list[int]) -> StoredImpression:
        """Return the impression as if only these positions had been shown, without placed documents."""
        order, ids = [self.order[place] for place in places], [self.ids[place] for place in places]
        return msgspec.structs.replace(self, order=order, ids=ids)

    @property
    def known_boosts(self) -> Boosts:
        """What the memory of the query has added to the score of each candidate; empty if there was nothing."""
        if not self.boosts:
            return NO_BOOSTS
        found = np.frombuffer(self.boosts, "<f4").astype(np.float64)
        found.flags.writeable = False
        return found

    @property
    def kind(self) -> str:
        """The kind of the list, as the API names it."""
        return "frozen" if self.frozen else LIST_KINDS[self.list_kind]

    @property
    def shown(self) -> list[str]:
        """The ids of the shown documents, in order."""
        return with_placed(self.ids, self.placed) if self.placed else self.ids

    def is_of(self, ids: list[str]) -> bool:
        """Whether its candidates have these ids, in any order."""
        return document_digest(ids) == self.documents


class StoredFeedback(_Body, frozen=True):
    """Feedback on an impression (key: the event id): clicked positions, from 0; the user is a hash, empty if not known.

    ``action`` is empty for clicks. Positions are those in ``order`` of the impression, without placed documents.
    """

    impression: str
    clicks: list[int]
    examined: int | None
    time: float | None
    user: bytes = b""
    action: str = ""
    seen: int = 0  # positions above a click on a placed document, whose page was shown
    removed: list[int] = []  # positions of documents that were not shown


class StoredPage(_Body, frozen=True):
    """A page of an impression was returned (key: number of the impression/last position): its positions up to ``shown`` are shown.

    They are those in ``order``, without placed documents.
    """

    impression: str
    shown: int


class StoredLog(_Body, frozen=True):
    """A list that another system showed (key: its id): the first ``shown`` documents of the attachment, and actions by position."""

    shown: int
    actions: dict[str, list[int]]
    examined: int | None
    names: bytes
    query: str = ""  # as it is remembered, with the ids of the shown documents
    ids: list[str] = []


class Published(_Body, frozen=True):
    """All events before this one make a version (key: its number); ``previous`` is the digest of the version before it.

    ``for_ranking`` is whether the version has only what ranking needs; versions in early stores also have what learning needs.
    """

    version: int
    previous: bytes
    for_ranking: bool = False


class Failed(_Body, frozen=True):
    """Learning from an event (key: its number) failed, for a reason.

    ``version`` is the newest version that the leader had announced; after a newer version, this event has no effect.
    """

    version: int
    reason: str


class Evidence(_Body, frozen=True):
    """The evidence on which a guard acts: the detector's statistic, and the decisive lists that were won and lost until then."""

    statistic: float
    wins: int
    losses: int


class Fit(_Body, frozen=True):
    """How well weights for another representation were fitted: the number of lists, and of pairs of documents that were compared.

    ``share`` is the share of these pairs, of lists that were left out of the fit, that keep their order.
    """

    lists: int
    pairs: int
    share: float


class Control(_Body, frozen=True):
    """A command: freeze, resume, rollback, pin, unpin, change, label, forget or stop of an operator; alarm or promote; or start.

    Rollback and pin carry the state of the version, the names of its features, and its representation as a change. A change of the
    representation carries a state for it, and how well that was fitted. Label keeps a version under a name; an empty label ends
    that. Forget removes a query, a document or, without both, everything from the memory of queries. Alarm and promote, which a
    guard commands, carry their evidence. Start records that a process begins to learn. Stop ends an experiment.
    """

    action: str
    version: int | None = None
    state: bytes | None = None
    change: StoredChange | None = None
    features: tuple[str, ...] | None = None
    evidence: Evidence | None = None
    label: str = ""
    fit: Fit | None = None
    query: str = ""
    document: str = ""


# States, and digests


class _Array(_Body, frozen=True):
    kind: str
    shape: list[int]
    data: bytes


class _State(_Body, frozen=True):
    weights: bytes
    step: int
    updates: int
    memory: dict[str, _Array]


def pack_state(state: State) -> bytes:
    """Return a state as bytes, a part of bodies; equal states give equal bytes."""
    memory = {name: _packed(array) for name, array in sorted(flatten(state.memory).items())}
    return _encode(_State(state.weights.astype("<f8").tobytes(), int(state.step), int(state.updates), memory))


def unpack_state(body: bytes, recipe: Part) -> State:
    """Return the packed state of a recipe."""
    found = unpack(body, _State)
    weights = np.frombuffer(found.weights, "<f8").astype(np.float64)
    memory = nest({name: _unpacked(array) for name, array in found.memory.items()}, recipe)
    return State(frozen(weights), found.step, found.updates, memory)


def _packed(array: NDArray[Any]) -> _Array:
    plain = np.ascontiguousarray(array)
    kind = plain.dtype.newbyteorder("<")
    return _Array(kind.str, list(array.shape), plain.astype(kind).tobytes())


def _unpacked(array: _Array) -> NDArray[Any]:
    try:
        kind = np.dtype(array.kind)
        if kind.kind not in "biuf":
            raise TypeError(f"{kind} is not numeric")
        found = np.frombuffer(array.data, kind).reshape(array.shape).astype(kind.newbyteorder("="))
    except (TypeError, ValueError) as error:
        raise StoreCorrupt(f"an array in the store is damaged: {error}") from None
    found.flags.writeable = False  # as most arrays of a state: kernels are compiled for each kind of array
    return found


def digest(state: State) -> bytes:
    """Return a digest of a state, of 16 bytes."""
    return body_digest(pack_state(state))


def body_digest(body: bytes) -> bytes:
    """Return a digest of a body, of 16 bytes."""
    return blake2b(body, digest_size=16).digest()


def document_digest(ids: list[str]) -> bytes:
    """Return a digest of a set of document ids, of 8 bytes."""
    return blake2b("\0".join(sorted(ids)).encode(), digest_size=8).digest()


# Attachments: the features of an impression, compressed without loss

#: The fastest level: higher ones save a few percent, and take several times as long.
_LEVEL = 1
#: Smaller tables are not compressed: the compressor releases the GIL, and getting it back takes longer than the compression saves.
_SMALL = 16 << 10
#: The bits of a double that single precision does not have.
_DOUBLE = (1 << 29) - 1
#: A damaged length must not allocate all memory.
_MAX_TABLE_BYTES = 1 << 30

_threads = local()  # a zstandard context may be used by one thread at a time


class _Table(msgspec.Struct, frozen=True, array_like=True):
    kind: Literal["<f4", "<f8"]
    documents: int
    features: int
    data: bytes
    compressed: bool


def pack_features(features: Features) -> bytes:
    """Return a table of features as bytes; in single precision if that loses nothing."""
    single = _as_single(features)
    table = features.astype("<f8", copy=False) if single is None else single
    n_documents, n_features = features.shape
    compressed = table.nbytes > _SMALL
    data = _compress(table.tobytes()) if compressed else table.data
    return pack(("<f8" if single is None else "<f4", n_documents, n_features, data, compressed))  # a _Table


def _as_single(features: Features) -> NDArray[np.float32] | None:
    """Return features in single precision, None if that loses something."""
    if not len(features):
        return None
    first = features[0].view(np.int64)
    if first.item(0) & _DOUBLE or np.bitwise_or.reduce(first) & _DOUBLE:  # the first value decides almost always
        return None
    with np.errstate(over="ignore"):
        single = features.astype("<f4")
    same = single == features
    return single if same.all() or (same | np.isnan(features)).all() else None


def unpack_features(attachment: bytes) -> Features:
    """Return a packed table, in double precision and read-only."""
    found = unpack(attachment, _Table)
    try:
        data = _decompress(found.data) if found.compressed else found.data
        table = np.frombuffer(data, found.kind).reshape(found.documents, found.features)
    except (zstandard.ZstdError, ValueError) as error:
        raise StoreCorrupt(f"the features of an impression are damaged: {error}") from None
    features = table.astype(np.float64)
    features.flags.writeable = False
    return features


class _Lists(msgspec.Struct, frozen=True, array_like=True):
    documents: list[str]
    lists: list[list[int]]


def pack_lists(documents: list[str], lists: Sequence[Sequence[str]]) -> bytes:
    """Return the lists of several systems, of these documents, as bytes."""
    places = {id: place for place, id in enumerate(documents)}
    return pack(_Lists(documents, [[places[id] for id in each] for each in lists]))


def unpack_lists(attachment: bytes) -> list[list[str]]:
    """Return packed lists."""
    found = unpack(attachment, _Lists)
    try:
        return [[found.documents[place] for place in each] for each in found.lists]
    except IndexError as error:
        raise StoreCorrupt(f"the lists of an experiment are damaged: {error}") from None


def _compress(data: bytes) -> bytes:
    if not hasattr(_threads, "compressor"):
        _threads.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    compressed: bytes = _threads.compressor.compress(data)
    return compressed


def _decompress(data: bytes) -> bytes:
    if not hasattr(_threads, "decompressor"):
        _threads.decompressor = zstandard.ZstdDecompressor()
    found: bytes = _threads.decompressor.decompress(data, max_output_size=_MAX_TABLE_BYTES)
    return found


# Reading

#: Number of events that are read at once, backwards, and in all.
READ_EVENTS, MAX_READ_EVENTS = 2000, 20_000


def read_events(log: EventLog, name: str, after: int, up_to: int) -> Iterator[Event]:
    """Yield the events of a ranker with numbers above ``after``, up to ``up_to``."""
    for found in read_chunks(log, name, after, up_to):
        yield from found


def read_chunks(log: EventLog, name: str, after: int, up_to: int, chunk: int = 1000) -> Iterator[list[Event]]:
    """Yield the events of `read_events` in lists."""
    while after < up_to:
        found = log.read(after, chunk, name)
        yield [event for event in found if event.number <= up_to]
        if len(found) < chunk:
            return
        after = found[-1].number


def read_backwards(storage: Storage, name: str) -> Iterator[Event]:
    """Yield the newest events of a ranker, newest first.

    If the ranker has few of the events in a range of numbers, the next range is wider.
    """
    before, width, seen = storage.log.last_number(), READ_EVENTS, 0
    while before > 0 and seen < MAX_READ_EVENTS:
        after = max(0, before - width)
        found = storage.log.read(after, READ_EVENTS, name)
        if len(found) == READ_EVENTS and found[-1].number < before:  # the range has more: try a narrower one
            width = max(READ_EVENTS, width // 4)
            continue
        found = [event for event in found if event.number <= before]
        yield from reversed(found)
        before, seen = after, seen + len(found)
        if len(found) < READ_EVENTS // 4:
            width *= 2


def read_features(storage: Storage, ranker: str, number: int) -> Features | None:
    """Return the features that are attached to an event, None if they were dropped."""
    attachment = storage.log.attachment(ranker, number)
    return None if attachment is None else unpack_features(attachment)


def read_impression(storage: Storage, ranker: str, id: str) -> tuple[Event, StoredImpression, Features] | None:
    """Return an impression and its features from the store; None if one of them is not there."""
    event = storage.log.find(ranker, IMPRESSION, [id]).get(id)
    if event is None or not event.body:
        return None
    body = unpack(event.body, StoredImpression)
    features = read_features(storage, ranker, event.number)
    return None if features is None else (event, body, features)


class ListReader:
    """Reads the lists that the next events of a ranker close: all features that a block of events needs, at once.

    Parameters
    ----------
    storage
        The store.
    ranker
        Name of the ranker.
    known
        Returns an impression that is in memory by its id, None for others.
    read
        Reads the attachment of an impression.
    """

    #: The number of lists whose features are read at once, and of impressions whose bodies wait for their closing in memory.
    block, max_bodies = 64, 10_000

    def __init__(
        self,
        storage: Storage,
        ranker: str,
        known: Callable[[str], CachedImpression | None] = lambda id: None,
        read: Callable[[bytes], Any] = unpack_features,
    ) -> None:
        self._storage, self._ranker, self._known, self._read = storage, ranker, known, read
        self._bodies: dict[str, bytes] = {}
        self._due: dict[int, None] = {}  # numbers of the events whose features the next events need, in order
        self._attachments: dict[int, bytes] = {}

    def expect(self, events: Sequence[Event], has_feedback: Callable[[str], bool]) -> None:
        """Prepare for events that are applied next; ``has_feedback`` says whether an open impression has any.

        Features of impressions without feedback are not read, because nothing is learned from them.
        """
        self._due, self._attachments, clicked = {}, {}, set()
        for event in events:
            if event.kind == IMPRESSION:
                self._bodies[event.key] = event.body
            elif event.kind == FEEDBACK:
                clicked.add(unpack(event.body, StoredFeedback).impression)
            elif event.kind == CLOSED:
                id = unpack(event.body, str)
                known = self._known(id)
                if (id in clicked or has_feedback(id)) and (known is None or not known.attachment):
                    self._due[int(event.key)] = None
            elif event.kind == LOGGED:
                self._due[event.number] = None
        while len(self._bodies) > self.max_bodies:
            del self._bodies[next(iter(self._bodies))]

    def impression(self, id: str, number: int) -> tuple[StoredImpression, Any] | None:
        """Return an impression and its features, or the lists that it was merged from; None if one of them is gone."""
        known, waiting = self._known(id), self._bodies.pop(id, b"")
        if known is not None and known.number == number and known.body is not None:
            body = known.body
            if known.attachment:
                return body, self._read(known.attachment)
        else:
            if not waiting and (event := self._storage.log.find(self._ranker, IMPRESSION, [id]).get(id)) is not None:
                waiting = event.body
            if not waiting:
                return None
            body = unpack(waiting, StoredImpression)
        features = self.features(number)
        return None if features is None else (body, features)

    def features(self, number: int) -> Any | None:
        """Return what is attached to an event, None if it is gone."""
        if number in self._due:
            while number in self._due:  # those before it are not needed any more
                del self._due[next(iter(self._due))]
            if number not in self._attachments:
                wanted = [number, *islice(self._due, self.block - 1)]
                self._attachments = self._storage.log.attachments(self._ranker, wanted)
            attachment = self._attachments.pop(number, None)
        else:
            attachment = self._storage.log.attachment(self._ranker, number)
        return None if attachment is None else self._read(attachment)


def closing_event(name: str, id: str, number: int, time: float, follows: bool = False) -> NewEvent:
    """Return the event that closes an impression; its key is the impression's number, so an impression is closed once."""
    return NewEvent(name, CLOSED, str(number), time, pack(id), follows=follows)


# Appending


class Settable(Protocol):
    """What is set when events were appended, such as a `threading.Event`."""

    def set(self) -> object:
        """Note that there are new events."""


class Tail:
    """The newest events that this process has appended, in memory, until the leader has read them; the store has all events."""

    max_events = 4000
    max_bytes = 32 << 20

    def __init__(self, changed: Settable | None = None) -> None:
        self._events: deque[Event] = deque(maxlen=self.max_events)
        self._bytes = 0
        #: Whether this process leads; otherwise nothing is remembered.
        self.enabled = False
        #: Set when events were appended.
        self.changed: Settable = Flag() if changed is None else changed

    def add(self, events: Sequence[NewEvent], receipts: Sequence[Receipt]) -> None:
        """Remember appended events; called in the order of their numbers."""
        if self.enabled:
            self._remember(events, receipts)
        self.changed.set()

    def _remember(self, events: Sequence[NewEvent], receipts: Sequence[Receipt]) -> None:
        for event, receipt in zip(events, receipts, strict=True):
            self._bytes += len(event.body)
            if receipt.new:
                parts = (event.ranker, event.kind, event.key, event.time, event.body)
                self._events.append(Event(receipt.number, *parts))
        if self._bytes > self.max_bytes:
            self._events.clear()
            self._bytes = 0

    def read(self, log: EventLog, after: int, limit: int) -> list[Event]:
        """Return the next events after a number, without a gap: from memory, or else from the store.

        If other processes append too, the next event is often not in memory. Then up to ``limit`` events are read from the store,
        not only those before the next one in memory: otherwise a busy log would be read in pieces of one or two events.
        """
        found: list[Event] = []
        while self._events and len(found) < limit:
            try:
                event = self._events.popleft()
            except IndexError:  # another thread has cleared it
                break
            if event.number == after + len(found) + 1:
                found.append(event)
            elif event.number > after:
                self._events.appendleft(event)
                break
        if not self._events:
            self._bytes = 0
        return found or log.read(after, limit)


_Waiting = list[tuple[int, "asyncio.Future[list[Receipt]]"]]


class Appender:
    """Appends events in the order of the calls of `append`; belongs to one event loop.

    Events of one iteration of the loop are submitted to the store together.

    Parameters
    ----------
    log
        The event log.
    tail
        Receives the appended events, in order.
    recent
        The newest impressions of this process.
    """

    def __init__(self, log: EventLog, tail: Tail, recent: ImpressionCache) -> None:
        self._log, self._tail, self._recent, self._loop = log, tail, recent, asyncio.get_running_loop()
        self._events: list[NewEvent] = []
        self._waiting: _Waiting = []
        self._newest: asyncio.Future[list[Receipt]] | None = None

    def append(self, events: Sequence[NewEvent]) -> asyncio.Future[list[Receipt]]:
        """Submit events; the future is done when they are durable."""
        future = self._loop.create_future()
        if not events:
            future.set_result([])
            return future
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._events += events
        self._waiting.append((len(events), future))
        self._newest = future
        return future

    def close_impressions(self, name: str, ranker: int, impressions: dict[str, int], time: float) -> None:
        """Close impressions, given by id and number; from any thread.

        It happens in the event loop, so that feedback before it counts, and feedback after it is too late.
        """
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._close, name, ranker, impressions, time)

    def _close(self, name: str, ranker: int, impressions: dict[str, int], time: float) -> None:
        recent = [known for id in impressions if (known := self._recent.get(ranker, id)) is not None]
        closed = [known for known in recent if not known.closed]
        for known in closed:
            known.closed = True
        done = self.append([closing_event(name, id, number, time) for id, number in impressions.items()])

        def settle(future: asyncio.Future[list[Receipt]]) -> None:
            failed = future.cancelled() or future.exception() is not None
            for known in closed:
                known.closed = not failed
            if not failed:
                self._recent.note_closed(ranker, impressions)
            self._tail.changed.set()

        done.add_done_callback(settle)

    async def settled(self) -> None:
        """Wait until all submitted events are durable or have failed."""
        if self._newest is not None:
            await asyncio.wait([self._newest])

    def _flush(self) -> None:
        events, waiting = self._events, self._waiting
        self._events, self._waiting = [], []
        try:
            done = self._log.submit(events)
        except Exception as error:
            self._fail(waiting, error)
        else:
            done.add_done_callback(lambda done: self._done(events, waiting, done))

    def _done(self, events: list[NewEvent], waiting: _Waiting, done: Future[list[Receipt]]) -> None:
        """Completion callback, in a thread of the store; the loop may have been closed by then."""
        if done.exception() is None:
            self._tail.add(events, done.result())
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, waiting, done)

    def _settle(self, waiting: _Waiting, done: Future[list[Receipt]]) -> None:
        error = done.exception()
        if error is not None:
            self._fail(waiting, error)
            return
        receipts, start = done.result(), 0
        for count, future in waiting:
            if not future.done():  # not cancelled by a client that disconnected
                future.set_result(receipts[start : start + count])
            start += count

    def _fail(self, waiting: _Waiting, error: BaseException) -> None:
        for _, future in waiting:
            if not future.done():
                future.set_exception(type(error)(*error.args))
                future.exception()  # marks it as retrieved: a client that disconnected never asks


# Impressions by id


class CachedImpression:
    """An impression: its number in the log, its body (None if it was deleted), its attachment, and whether it is closed."""

    __slots__ = ("attachment", "body", "closed", "number")

    def __init__(
        self, number: int, body: StoredImpression | None, attachment: bytes | None = None, closed: bool = False
    ) -> None:
        self.number, self.body, self.attachment, self.closed = number, body, attachment, closed

    @property
    def size(self) -> int:
        """Estimated bytes in memory."""
        size = 200 + len(self.attachment or b"")
        return size if self.body is None else size + 80 * len(self.body.ids)


class ImpressionCache:
    """A cache of impressions, bounded in number and bytes; the oldest is removed first. One thread writes, any thread reads.

    A ranker is named by the number of the event that created it, so a new ranker of the same name has no impressions here.
    """

    #: The number of the newest closed impressions that are remembered, for those that were being read when they were closed.
    max_closed = 10_000

    def __init__(self, max_count: int, max_bytes: int = 64 << 20) -> None:
        self._max_count, self._max_bytes, self._bytes = max_count, max_bytes, 0
        self._known: dict[tuple[int, str], CachedImpression] = {}
        self._closed: dict[int, None] = {}

    def get(self, ranker: int, id: str) -> CachedImpression | None:
        """Return an impression, None if it is not in the cache."""
        return self._known.get((ranker, id))

    def put(self, ranker: int, id: str, impression: CachedImpression) -> CachedImpression:
        """Cache an impression, or return the cached one."""
        known = self._known.get((ranker, id))
        if known is not None:
            return known
        impression.closed |= impression.number in self._closed
        self._known[ranker, id] = impression
        self._bytes += impression.size
        while len(self._known) > self._max_count or self._bytes > self._max_bytes:
            self._bytes -= self._known.pop(next(iter(self._known))).size
        return impression

    def note_closed(self, ranker: int, impressions: dict[str, int]) -> None:
        """Note that impressions, given by id and number, are closed in the log, also for those that are being read."""
        for id, number in impressions.items():
            self._closed[number] = None
            if (known := self._known.get((ranker, id))) is not None:
                known.closed = True
        while len(self._closed) > self.max_closed:
            del self._closed[next(iter(self._closed))]

    def __len__(self) -> int:
        return len(self._known)


class ImpressionFinder:
    """Finds impressions and feedback events by id, in the thread of an event loop; queries to the store run in threads.

    Parameters
    ----------
    storage
        The store.
    recent
        The newest impressions of this process.
    max_id
        Maximum length of an id.
    """

    def __init__(self, storage: Storage, recent: ImpressionCache, max_id: int) -> None:
        self._storage, self._recent, self._max_id = storage, recent, max_id
        self._readers = ThreadPoolExecutor(4, "duelrank-reader")

    async def find(
        self, name: str, ranker: int, ids: Collection[str], trust_cache: bool
    ) -> dict[str, CachedImpression | None]:
        """Return impressions by id, None for unknown ones.

        Parameters
        ----------
        name, ranker
            Name of the ranker, and number of the event that created it.
        ids
            Ids of the impressions.
        trust_cache
            Whether no other process can have closed an impression that is open in the cache.
        """
        found = {id: self._recent.get(ranker, id) for id in ids}
        asked = [id for id, known in found.items() if known is None or not (trust_cache or known.closed)]
        if asked:
            stored = await self.read(lambda: self._stored(name, {id: found[id] for id in asked}))
            for id, known in stored.items():
                found[id] = None if known is None else self._recent.put(ranker, id, known)
        return found

    async def events(self, name: str, keys: Collection[str]) -> dict[str, Event]:
        """Return the feedback events with these keys."""
        possible = [key for key in keys if self._possible(key)]
        return await self.read(lambda: self._storage.log.find(name, FEEDBACK, possible))

    async def read(self, work: Callable[[], T]) -> T:
        """Read from the store, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def close(self) -> None:
        """Stop the threads."""
        self._readers.shutdown(wait=False)

    def _stored(self, name: str, known: dict[str, CachedImpression | None]) -> dict[str, CachedImpression | None]:
        missing = [id for id, each in known.items() if each is None and self._possible(id)]
        for id, event in self._storage.log.find(name, IMPRESSION, missing).items():
            body = unpack(event.body, StoredImpression) if event.body else None
            known[id] = CachedImpression(event.number, body, closed=body is None)
        unclosed = {str(each.number): each for each in known.values() if each is not None and not each.closed}
        for number in self._storage.log.find(name, CLOSED, list(unclosed)):
            unclosed[number].closed = True
        return known

    def _possible(self, key: str) -> bool:
        """Whether a store could have this key; it refuses queries for others."""
        try:
            checked_text("key", key)
        except InvalidValue:
            return False
        return len(key) <= self._max_id
