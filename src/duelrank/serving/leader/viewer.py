"""The thread behind a service that only looks: it follows the log as a leader does, and writes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event as Flag
from threading import Thread

from duelrank.errors import StorageFailure
from duelrank.serving.log.bodies import PUBLISHED, StoredImpression
from duelrank.serving.log.impressions import read_impression
from duelrank.serving.ranker.machine import Fetch, Machine
from duelrank.serving.ranker.rankers import Ranker, Rankers
from duelrank.serving.ranker.versions import Version, Versions, checkpoints, events
from duelrank.serving.settings import Settings
from duelrank.storage import Storage
from duelrank.types import Features

__all__ = ["Viewer"]

logger = logging.getLogger("duelrank.serving")

RETRY = 1.0
"""Seconds after which it is tried again, when something went wrong."""

DONE = 100
"""Parts of the history that are done and held here, where nobody has put them into the store."""


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
        self._machines: dict[str, tuple[int, Machine]] = {}
        self._stop = Flag()
        self._thread = Thread(target=self._run, name="duelrank-viewer", daemon=True)
        self.ready, self.applied = False, 0
        self.failure: Exception | None = None

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
        for name, ranker in list(self._rankers.by_name.items()):
            known = self._machines.get(name)
            if known is None or known[0] != ranker.created.number:
                known = self._machines[name] = ranker.created.number, self._begin(name, ranker)
            if not self._advance(name, ranker, known[1], last):
                del self._machines[name]
        self.applied = last

    def _begin(self, name: str, ranker: Ranker) -> Machine:
        """Restore one ranker from its newest checkpoint."""
        versions = Versions(self._storage, ranker.created)
        machine = Machine(ranker.created, self._fetcher(name), versions.state)
        for body in checkpoints(self._storage, name):
            machine.restore(body)
            break
        newest = versions.load()
        if newest is not None and newest.version <= machine.version:
            self._rankers.serve(name, newest)
        return machine

    def _advance(self, name: str, ranker: Ranker, machine: Machine, last: int) -> bool:
        """Apply what is new; return whether all of it could be.

        It could not where a service drops features faster than they are read here: then its next checkpoint is the one to begin
        from.
        """
        lost = False
        for event in events(self._storage.log, name, machine.number, last):
            if self._stop.is_set():
                break
            closed = machine.apply(event)
            lost |= closed is not None and closed.outcome == "failed"
            if event.kind == PUBLISHED:
                self._rankers.serve(name, Version.of(machine, event.time))
        del machine.history.done[:-DONE]  # who serves has put them into the store
        ranker.machine = machine
        return not lost

    def _fetcher(self, name: str) -> Fetch:
        def fetch(id: str, number: int) -> tuple[StoredImpression, Features] | None:
            found = read_impression(self._storage, name, id)
            return None if found is None else found[1:]

        return fetch
