"""The service: rank, feedback, learn. Everything it has promised is in the store before it answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Literal, TypeVar, get_args

from duelrank.api import (
    FeedbackCounts,
    FeedbackEvent,
    RankAnswer,
    RankerInfo,
    RankerSpec,
    RankRequest,
    VersionInfo,
)
from duelrank.errors import Conflict, InvalidValue, LimitExceeded, NotReady, UnknownName
from duelrank.export import LinearModel
from duelrank.serving.clock import Clock
from duelrank.serving.feedback import Intake, Rejected, closing
from duelrank.serving.leader.election import Background
from duelrank.serving.log.appender import Appender
from duelrank.serving.log.bodies import RANKERS, Control, Created, Shown, pack, pack_state
from duelrank.serving.log.lookup import Lookup
from duelrank.serving.log.recent import Entry
from duelrank.serving.observer import Observer
from duelrank.serving.presenting import answer, info
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.documents import Reader
from duelrank.serving.ranker.rankers import Board, Ranker
from duelrank.serving.ranker.versions import Versions
from duelrank.serving.settings import Settings
from duelrank.storage import NewEvent, Receipt, Storage
from duelrank.storage.values import checked_text
from duelrank.types import State
from duelrank.validation import whole_number

__all__ = ["Service"]

T = TypeVar("T")

Action = Literal["freeze", "resume", "rollback", "pin", "unpin"]

# Seconds that a change of a ranker may take until a leader has applied it.
PATIENCE = 15.0


class Service:
    """Rankers in a store, served and taught. All coroutines belong to the event loop that `start` was called in.

    Errors: `NotReady` before everything was restored, `UnknownName` for a ranker that nobody made, `Conflict` for a name that
    is taken by another spec, `LimitExceeded` for too much of something, `InvalidValue`, `ShapeMismatch` and `InvalidRecipe` for
    what makes no sense, `StorageFailure` (whose ``retryable`` says whether to try again) where the store does not do its part.

    Parameters
    ----------
    storage
        The store, which the service does not close.
    settings
        Limits and times.
    clock
        For tests.
    """

    def __init__(self, storage: Storage, settings: Settings | None = None, clock: Clock | None = None) -> None:
        self.storage, self.settings, self._clock = storage, settings or Settings(), clock or Clock()
        self._board = Board(self.settings.recent)
        self._background: Background | None = None
        self._readers: dict[str, Reader] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._appender: Appender | None = None
        self._lookup = Lookup(storage, self._board.recent, self.settings.max_id, lambda: self.leads)

    @property
    def observer(self) -> Observer:
        """Who is told what happens; set it before `start`."""
        return self._board.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._board.observer = observer

    @property
    def ready(self) -> bool:
        """Whether all rankers were restored, so that requests can be answered."""
        return self._background is not None and self._background.ready

    @property
    def leads(self) -> bool:
        """Whether this process is the one that learns."""
        return self._background is not None and self._background.leads

    @property
    def failure(self) -> Exception | None:
        """What keeps the background from going on, None where nothing does; it is tried again every second."""
        return None if self._background is None else self._background.failure

    async def start(self) -> None:
        """Begin to restore, to serve and to learn in the background; returns at once, see `wait_ready`."""
        if self._background is not None:
            return
        self._loop, self._appender = asyncio.get_running_loop(), Appender(self.storage, self._board.feed.tell)
        self._background = Background(self.storage, self.settings, self._clock, self._board, self._ask_to_close)
        self._background.start()

    async def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until it is ready; raises what keeps it from that (`NotReady` where it is only time)."""
        end = None if timeout is None else self._clock.monotonic() + timeout
        while not self.ready:
            if self.failure is not None and not getattr(self.failure, "retryable", False):
                raise self.failure
            if self._background is None or (end is not None and self._clock.monotonic() >= end):
                raise self.failure or NotReady("the service has not restored its rankers yet")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """End the background, having saved what was learned; may be called twice."""
        background, self._background = self._background, None
        if background is not None:
            assert self._appender is not None
            await self._appender.settled()
            await asyncio.to_thread(background.stop)

    async def create(self, spec: RankerSpec) -> RankerInfo:
        """Make a ranker; the same spec again gives the same answer, another one under its name is a `Conflict`."""
        self._check_ready()
        definition = await asyncio.to_thread(Definition, spec, self._clock.time())
        if spec.name not in self._board.rankers:
            definition.check_limits(self.settings)
            if len(self._board.rankers) >= self.settings.max_rankers:
                raise LimitExceeded(f"there may be at most {self.settings.max_rankers:,} rankers")
            event = NewEvent(RANKERS, "created", spec.name, definition.created, pack(Created(spec)))
            await self._append([event])
            await asyncio.to_thread(self._board.refresh, self.storage)
            self._wake()
        known = self._board[spec.name]
        if not known.definition.same_as(definition):
            raise Conflict(f"there is a ranker {spec.name!r} already, with another spec; choose another name")
        return info(known)

    def rankers(self) -> list[RankerInfo]:
        """Return all rankers, by name."""
        self._check_ready()
        return [info(self._board.rankers[name]) for name in sorted(self._board.rankers)]

    def ranker(self, name: str) -> RankerInfo:
        """Return one ranker."""
        self._check_ready()
        if name not in self._board.rankers and not self._lookup.local:
            self._board.refresh(self.storage)
        return info(self._board[name])

    async def rank(self, name: str, request: RankRequest) -> RankAnswer:
        """Return the list to show; when it returns, the list is in the store."""
        ranker = await self._ranker(name)
        key = self._checked_id(request.impression_id)
        entry = self._board.recent.get(name, key)
        if entry is None or entry.shown is None:
            entry = await self._show(name, ranker, key, request)
        assert entry.shown is not None
        state = await self._state(name, ranker, entry.shown.version) if request.explain else None
        return answer(ranker.definition, key, entry.shown, state)

    async def _show(self, name: str, ranker: Ranker, key: str, request: RankRequest) -> Entry:
        """Make a list and append it; where there is one under this id already, that is the list."""
        length = ranker.definition.spec.length if request.length is None else request.length
        whole_number("length", length)
        reader = self._readers.get(name) or self._readers.setdefault(name, Reader(ranker.definition, self.settings))
        ids, features, raw = reader.read(request.documents, self.observer)
        model = ranker.model
        pin = None if model.pin is None else model.pin[1]
        order, way = ranker.definition.show(model.state, model.frozen, key, raw, length, pin)
        shown = Shown(model.version, ids, features, order, way)
        receipt = (await self._append([NewEvent(name, "ranked", key, self._clock.time(), pack(shown))]))[0]
        self._wake()
        if receipt.new:
            self.observer.ranked(name, len(ids))
            return self._board.recent.put(name, key, Entry(receipt.number, shown))
        found = (await self._lookup.lists(name, [key]))[key]
        if found is None or found.shown is None:
            raise Conflict(f"the list {key!r} was made long ago and is gone; use a new impression_id")
        return found

    async def feedback(self, name: str, events: Sequence[FeedbackEvent | Rejected]) -> FeedbackCounts:
        """Take what users did; when it returns, the accepted events are in the store."""
        await self._ranker(name)
        if len(events) > self.settings.max_events:
            raise LimitExceeded(f"a request has at most {self.settings.max_events:,} events, got {len(events):,}")
        keys = {event.impression_id for event in events if isinstance(event, FeedbackEvent)}
        entries = await self._lookup.lists(name, keys)
        intake = Intake(name, events, entries, self._clock.time(), self.settings)
        try:
            receipts = await self._append(intake.new) if intake.new else []
        except Exception:
            for entry in intake.closing:
                entry.closed = False  # whether it is, is asked again
            raise
        again = await self._count_known(name, intake.late) if intake.late else 0
        counts = intake.count(receipts, again)
        self._wake()
        for outcome in ("accepted", "duplicate", "unknown", "expired"):
            if count := getattr(counts, outcome):
                self.observer.fed(name, outcome, count)
        if counts.invalid:
            self.observer.fed(name, "invalid", len(counts.invalid))
        return counts

    async def _count_known(self, name: str, keys: list[str]) -> int:
        """Return how many of these events are in the store, when all that came before is."""
        assert self._appender is not None
        await self._appender.settled()
        return await self._lookup.known_events(name, keys)

    async def control(self, name: str, action: Action, version: int | None = None) -> RankerInfo:
        """Change how a ranker goes on; returns when it has happened.

        Parameters
        ----------
        name
            Of the ranker.
        action
            "freeze" stops to learn and to explore, "resume" goes on; "rollback" goes back to a version, which becomes a new
            one; "pin" makes a shadow serve a version, in place of the client's order, "unpin" ends that.
        version
            To go back to, or to serve.
        """
        ranker = await self._ranker(name)
        if action not in get_args(Action):
            raise InvalidValue(f"a ranker can {', '.join(get_args(Action))}; got {action!r}")
        if action in ("pin", "unpin") and ranker.definition.spec.mode != "shadow":
            raise InvalidValue(
                f"{name!r} is no shadow, so it has no version to pin: it serves what it has learned, until you freeze it"
            )
        state = None
        if action in ("rollback", "pin"):
            if version is None:
                raise InvalidValue(f"to {action}, name the version")
            state = await self._state(name, ranker, version)
            if state is None:
                raise UnknownName(f"version {version} of {name!r} is not there (any more); see its versions")
        body = pack(Control(action, version, None if state is None else pack_state(state)))
        event = NewEvent(name, "control", os.urandom(12).hex(), self._clock.time(), body)
        number = (await self._append([event]))[0].number
        self._wake()
        end = self._clock.monotonic() + PATIENCE
        while ranker.model.number <= number:
            if self._clock.monotonic() >= end:
                raise NotReady(f"the change of {name!r} is noted, and happens as soon as a process learns again")
            await asyncio.sleep(0.005)
        return info(ranker)

    def versions(self, name: str) -> list[VersionInfo]:
        """Return the versions that one can go back to, oldest first; reads the store."""
        self._check_ready()
        ranker = self._board[name]
        start = VersionInfo(1, ranker.definition.created, 0, ranker.model.version == 1)
        stored = Versions(self.storage, ranker.definition)
        found = [stored.load(each.number) for each in stored.list()[-self.settings.keep_versions :]]
        current = ranker.model.version
        return [start] + [
            VersionInfo(m.version, m.time, m.number, m.version == current) for m in found if m is not None
        ]

    def model(self, name: str, version: int | None = None) -> LinearModel:
        """Return the model of a version, or the current one; an earlier one is read from the store."""
        self._check_ready()
        ranker = self._board[name]
        wanted = ranker.model.version if version is None else version
        state = self._stored_state(name, ranker, wanted)
        if state is None:
            raise UnknownName(f"version {version} of {name!r} is not there (any more); see its versions")
        return ranker.definition.model(wanted, state)

    def _stored_state(self, name: str, ranker: Ranker, version: int) -> State | None:
        if version == ranker.model.version:
            return ranker.model.state
        if version == 1:
            return ranker.definition.start
        return Versions(self.storage, ranker.definition).state(version) if version > 1 else None

    async def _state(self, name: str, ranker: Ranker, version: int) -> State | None:
        if version in (1, ranker.model.version):
            return self._stored_state(name, ranker, version)
        return await self._lookup.read(lambda: self._stored_state(name, ranker, version))

    async def _ranker(self, name: str) -> Ranker:
        """Return a ranker, also one that another process has made a moment ago."""
        self._check_ready()
        if name not in self._board.rankers and not self._lookup.local:
            await asyncio.to_thread(self._board.refresh, self.storage)
        return self._board[name]

    def _check_ready(self) -> None:
        if not self.ready:
            raise NotReady("the service has not restored its rankers yet, or was stopped")

    def _checked_id(self, given: str | None) -> str:
        if given is None:
            return os.urandom(12).hex()
        if not 0 < len(given) <= self.settings.max_id:
            raise InvalidValue(f"an impression_id has from 1 to {self.settings.max_id} characters, got {len(given)}")
        return checked_text("key", given)

    async def _append(self, events: Sequence[NewEvent]) -> list[Receipt]:
        assert self._appender is not None
        return await self._appender.append(events)

    def _wake(self) -> None:
        if self._background is not None:
            self._background.wake()

    def _ask_to_close(self, name: str, lists: dict[str, int]) -> None:
        """Close lists, from the learner's thread; in the loop, so that feedback before it counts and none after it does."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close, name, lists)

    def _close(self, name: str, lists: dict[str, int]) -> None:
        time, closed = self._clock.time(), []
        for key in lists:
            entry = self._board.recent.get(name, key)
            if entry is not None and not entry.closed:
                entry.closed = True
                closed.append(entry)
        assert self._appender is not None
        done = self._appender.append([closing(name, key, number, time) for key, number in lists.items()])

        def settle(future: asyncio.Future[list[Receipt]]) -> None:
            failed = future.cancelled() or future.exception() is not None
            for entry in closed:
                entry.closed = not failed
            self._wake()

        done.add_done_callback(settle)
