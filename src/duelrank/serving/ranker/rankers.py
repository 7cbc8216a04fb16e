"""The rankers of a store, as this process knows them; shared by all threads of a service."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from threading import Lock

from duelrank.api import GuardInfo, History, RankerInfo
from duelrank.core.errors import NotReady, UnknownName
from duelrank.serving.log.bodies import CREATED, DELETED, RANKERS, SALT, Created, Deleted, unpack
from duelrank.serving.observer import Observer
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.guarding import alarm_sentence, guard_info, guard_warnings
from duelrank.serving.ranker.history import (
    HISTORY,
    MOST_POINTS,
    Block,
    HistoryState,
    Step,
    block_kind,
    history_of,
)
from duelrank.serving.ranker.machine import Machine
from duelrank.serving.ranker.versions import Status, Version
from duelrank.storage import Event, Storage

__all__ = ["SHADOW_WARNING", "Ranker", "Rankers", "read_history"]

logger = logging.getLogger("duelrank.serving")

SHADOW_WARNING = (
    "a shadow learns from impressions in your order: users look at the top first, so its weights are biased for or against what "
    "you sort by; do not judge features by them, and let a ranker learn from its own rankings before you trust it"
)


COLD_WARNING = (
    "it starts from nothing, so at first it is worse than a good order of yours, and on a low rung it learns slowly: the guard may "
    "raise an alarm before it has learned enough; better give it weights to start from, close to what you sort by, or teach it "
    "with the lists of your log"
)


class Ranker:
    """One ranker: how it was created, the version that impressions are made from, its machine if this process leads."""

    __slots__ = ("created", "machine", "status", "version")

    def __init__(self, created: Definition) -> None:
        self.created = created
        self.version = Version.first(created)  # swapped, never changed
        self.status: Status = self.version.status
        self.machine: Machine | None = None

    def info(self) -> RankerInfo:
        """Return the ranker as it is now; where this process leads, to the last event that was applied."""
        version, status = self.version, self.newest_status()
        spec, tally = version.definition.spec, status.tally
        return RankerInfo(
            **{name: getattr(spec, name) for name in spec.__struct_fields__},
            impressions=tally.impressions,
            learned=tally.learned,
            no_feedback=tally.no_feedback,
            skipped=tally.skipped,
            failed=tally.failed,
            open=status.open,
            model_version=version.version,
            updates=status.updates,
            created=self.created.created,
            frozen=version.frozen,
            pinned=None if version.pin is None else version.pin[0],
            backfilled=tally.backfilled,
            unused=tally.unused,
            warnings=tuple(self._warnings(status)),
        )

    def guard(self) -> GuardInfo | None:
        """Return how the ranker does against its baseline, None where it has no guard."""
        guard = self.newest_status().guard
        return None if guard is None else guard_info(self.created.spec.name, self.version.version, guard)

    def newest_status(self) -> Status:
        """Return how far the ranker has come, as far as this process knows."""
        if (machine := self.machine) is not None:
            return Status.of(machine)
        return max(self.status, self.version.status, key=lambda each: each.number)

    def _warnings(self, status: Status) -> Iterator[str]:
        spec, guard = self.version.definition.spec, status.guard
        if spec.mode == "shadow":
            yield SHADOW_WARNING
        cold = spec.start is None and not status.tally.backfilled
        if guard is not None and cold and not guard.promotions and not guard.raised:
            yield COLD_WARNING
        if guard is not None:
            yield from guard_warnings(guard)
        if status.guard is not None and status.guard.raised and status.guard.last_alarm is not None:
            yield f"the guard has raised an alarm: {alarm_sentence(status.guard.last_alarm, status.guard.spec.false_alarm_every)}"


def read_history(
    storage: Storage, ranker: Ranker, step: Step, start: float | None = None, end: float | None = None
) -> History:
    """Return what a ranker did over time; from its machine, or from what the leader has noted for others."""
    name, definition = ranker.created.spec.name, ranker.version.definition
    machine, state, pending = ranker.machine, HistoryState(0), list[Block]()
    if machine is not None:  # in this order, and the store last: what moves on meanwhile is found twice, and not never
        state = machine.history.copy(machine.end())
        pending = [block for of, block in list(machine.history.done) if of == step]
    elif (found := storage.snapshots.load(name, HISTORY)) is not None:
        state = unpack(found.body, HistoryState)
    kind, kept, count = block_kind(step), dict[int, Block](), 0
    for info in reversed(storage.snapshots.list(name, kind)):
        if count >= MOST_POINTS:
            break
        body = storage.snapshots.load(name, kind, info.number)
        if body is not None:
            kept[info.number] = unpack(body.body, Block)
            count += len(kept[info.number].points)
        if start is not None and info.time <= start:  # those before it begin before it, and end before it begins
            break
    kept |= {block.number: block for block in pending}
    blocks = [block for _, block in sorted(kept.items())]
    names = (definition.spec.features, definition.names_digest)
    return history_of(name, step, blocks, state, *names, start, end)


class Rankers:
    """The rankers of a store by name.

    Parameters
    ----------
    storage
        The store.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.by_name: dict[str, Ranker] = {}
        #: Rankers that cannot be served, with the number of their creation, and why.
        self.broken: dict[str, tuple[int, str]] = {}
        self.observer = Observer()
        #: Is called when another version of a ranker is served (None), or with the name of a ranker that is gone.
        self.tell: Callable[[str | None], None] = lambda deleted: None
        self._read, self._defining = 0, Lock()
        #: What ids of users are hashed with; None until the first one comes.
        self.salt: bytes | None = None

    def __getitem__(self, name: str) -> Ranker:
        found = self.by_name.get(name)
        if name in self.broken:
            raise NotReady(f"the ranker {name!r} cannot be served: {self.broken[name][1]}")
        if found is None:
            raise UnknownName.among("ranker", name, self.by_name)
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def refresh(self) -> None:
        """Take the rankers that were created or deleted meanwhile."""
        with self._defining:
            while found := self._storage.log.read(self._read, 1000, RANKERS):
                for event in found:
                    self._apply(event)
                    self._read = event.number

    def _apply(self, event: Event) -> None:
        if event.kind == CREATED:
            body = unpack(event.body, Created)
            try:
                definition = Definition(body.spec, event.time, body.weights, event.number, body.knots, body.salt)
                definition.warm_up()
            except Exception as error:  # such as a recipe of an extension that is not loaded: the others go on
                logger.error("the ranker %r cannot be served: %s", event.key, error)
                self.broken[event.key] = event.number, str(error)
            else:
                self.by_name[event.key] = Ranker(definition)
        elif event.kind == DELETED:
            deleted = unpack(event.body, Deleted)
            self.broken.pop(deleted.name, None)
            known = self.by_name.get(deleted.name)
            if known is not None and known.created.number <= deleted.number:
                del self.by_name[deleted.name]
                self.observer.deleted(deleted.name)
                self.tell(deleted.name)
        elif event.kind == SALT:
            self.salt = unpack(event.body, bytes)

    def serve(self, name: str, version: Version) -> None:
        """Make impressions from this version from now on, unless a newer one is served."""
        ranker = self.by_name.get(name)
        if ranker is not None and version.version > ranker.version.version and version.number > ranker.created.number:
            ranker.version = version
            self.observer.published(name, version.version)
            self.tell(None)
