"""The thread behind a service that only looks: it follows the log as a leader does, and writes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event as Flag
from threading import Thread

from duelrank.core.errors import StorageFailure
from duelrank.core.types import Features, State
from duelrank.serving.log.bodies import PUBLISHED, StoredImpression
from duelrank.serving.log.impressions import read_attached, read_impression
from duelrank.serving.ranker.machine import Machine
from duelrank.serving.ranker.rankers import Ranker, Rankers
from duelrank.serving.ranker.versions import CHECKPOINT, Version, Versions, checkpoints, told
from duelrank.serving.settings import Settings
from duelrank.storage import Storage

__all__ = ["Viewer"]

logger = logging.getLogger("duelrank.serving")

RETRY = 1.0
"""Seconds after which it is tried again, when something went wrong."""

DONE = 100
"""Parts of the history that are done and held here, where nobody has put them into the store."""


@dataclass(slots=True)
class _Followed:
    """A machine of a ranker that was created with an event, since it began from a checkpoint.

    ``missed`` counts features and states that it has asked for in vain; ``lost`` is whether it could not learn without them.
    """

    created: int
    machine: Machine
    since: int = 0
    missed: int = 0
    lost: bool = False


class Viewer:
    """Brings machines to where the log ends, again and again, without a lease: a service may run on the store meanwhile.

    Parameters
    ----------
    storage, settings, rankers
        Of the service.
    tell
        Is called when `ready` or `failure` has changed, from any thread.
    """

    leads = False

    def __init__(self, storage: Storage, settings: Settings, rankers: Rankers, tell: Callable[[], None]) -> None:
        self._storage, self._settings, self._rankers, self._tell = storage, settings, rankers, tell
        self._machines: dict[str, _Followed] = {}
        self._stop = Flag()
        self._thread = Thread(target=self._run, name="duelrank-viewer", daemon=True)
        self.ready, self.applied = False, 0
        self.failure: Exception | None = None
        self.unsaved = None  # it has nothing to save

    def claim(self) -> None:
        """Take nothing."""

    def wake(self) -> None:
        """Nothing that this process does has to be seen to."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
                self._note(True, None)
            except Exception as error:
                if type(error) is not type(self.failure):
                    told = None if isinstance(error, StorageFailure) else error
                    logger.error(
                        "the store cannot be read on, which is tried again every second: %s", error, exc_info=told
                    )
                self._machines.clear()
                self._note(self.ready, error)
            self._stop.wait(self._settings.poll_every if self.failure is None else RETRY)

    def _note(self, ready: bool, failure: Exception | None) -> None:
        changed = (ready, failure) != (self.ready, self.failure)
        self.ready, self.failure = ready, failure
        if changed:
            self._tell()

    def _look(self) -> None:
        """Bring all rankers to where the log ends now."""
        last = self._storage.log.last_number()
        self._rankers.refresh()
        for name in self._machines.keys() - self._rankers.by_name.keys():  # they were deleted
            del self._machines[name]
        for name, ranker in list(self._rankers.by_name.items()):
            known = self._machines.get(name)
            if known is None or known.created != ranker.created.number or self._can_mend(name, known):
                known = self._machines[name] = self._begin(name, ranker)
            self._advance(name, ranker, known, last)
        self.applied = last

    def _can_mend(self, name: str, known: _Followed) -> bool:
        """Whether a machine has missed something, and there is a newer checkpoint to begin from."""
        return known.lost and self._storage.snapshots.newest(CHECKPOINT).get(name, 0) > known.since

    def _begin(self, name: str, ranker: Ranker) -> _Followed:
        """Restore one ranker from its newest checkpoint."""
        versions = Versions(self._storage, ranker.created)

        def fetch(id: str, number: int) -> tuple[StoredImpression, Features] | None:
            found = read_impression(self._storage, name, id)
            followed.missed += found is None
            return None if found is None else found[1:]

        def state(version: int) -> State | None:
            found = versions.state(version)
            followed.missed += found is None
            return found

        def attached(number: int) -> Features | None:
            found = read_attached(self._storage, name, number)
            followed.missed += found is None
            return found

        machine = Machine(ranker.created, fetch, state, attached=attached)
        followed = _Followed(ranker.created.number, machine)
        for body in checkpoints(self._storage, name):
            machine.restore(body)
            followed.since = machine.number
            break
        newest = versions.load()
        if newest is not None and newest.version <= machine.version:
            self._rankers.serve(name, newest)
        return followed

    def _advance(self, name: str, ranker: Ranker, known: _Followed, last: int) -> None:
        """Apply what is new, and note where something was missing for it.

        That is where a service drops features faster than they are read here: then its next checkpoint is the one to begin from.
        What the service itself could not learn from is no such case.
        """
        machine = known.machine
        for event in told(self._storage.log, name, machine, last):
            if self._stop.is_set():
                break
            before = known.missed
            closed = machine.apply(event)
            known.lost |= closed is not None and closed.outcome == "failed" and known.missed > before
            if event.kind == PUBLISHED:
                self._rankers.serve(name, Version.of(machine, event.time))
        del machine.history.done[:-DONE]  # who serves has put them into the store
        ranker.machine = machine
