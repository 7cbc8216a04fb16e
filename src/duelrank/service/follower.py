"""The background thread of a process that does not lead: it serves what the leader, another process, has published."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from threading import Event as Flag
from threading import Thread
from typing import Protocol

from duelrank.core.errors import StorageFailure, StoreCorrupt
from duelrank.service import log
from duelrank.service.channel import Beat, Close, FrontChannel
from duelrank.service.experiment_machine import ExperimentStatus
from duelrank.service.machine import Status
from duelrank.service.rankers import Experiment, MemoryStore, Ranker, Rankers, VersionStore
from duelrank.service.settings import Clock, Settings
from duelrank.storage import Storage

logger = logging.getLogger("duelrank.service")

#: Seconds after a failure, until it is tried again.
RETRY_SECONDS = 1.0
#: Seconds without a message after which a learner does not work.
SILENCE_SECONDS = 5.0


class Closer(Protocol):
    """Closes impressions, in order with feedback."""

    def close_impressions(self, name: str, ranker: int, impressions: dict[str, int], time: float) -> None:
        """Close impressions, given by id and number; from any thread."""


class Background(ABC):
    """The background thread of a process.

    Parameters
    ----------
    storage
        The store.
    settings
        Settings of the service.
    rankers
        Rankers of the service; their changes are notified when `ready` or `failure` has changed.
    """

    def __init__(self, storage: Storage, settings: Settings, rankers: Rankers) -> None:
        self._storage, self._settings, self._rankers = storage, settings, rankers
        self._stop = Flag()
        self._thread = Thread(target=self._run, name="duelrank-learner", daemon=True)
        #: Whether all rankers were restored.
        self.ready = False
        #: What currently fails, None if nothing does; it is tried again every second.
        self.failure: Exception | None = None
        #: Why the newest checkpoints could not be saved at the end.
        self.unsaved: Exception | None = None

    @property
    def leads(self) -> bool:
        """Whether this process is the leader."""
        return False

    @property
    def learning(self) -> bool:
        """Whether some process learns, as far as this one knows."""
        return self.ready and self.failure is None

    @property
    def applied(self) -> int | None:
        """The number of the last event that was applied; None if another process applies them."""
        return None

    def claim(self) -> None:
        """Acquire a store that only one process may learn from; raise `StoreLocked` if another process has it."""
        return  # a process that does not learn needs nothing

    def start(self, closer: Closer) -> None:
        """Start the thread; impressions are closed by the closer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, after what was learned is saved."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Work until `stop` is called."""

    def _report(self, ready: bool, failure: Exception | None) -> None:
        changed = (ready, failure) != (self.ready, self.failure)
        self.ready, self.failure = ready, failure
        if changed:
            self._rankers.changes.notify()


class Follower(Background):
    """Serves what the leader, which is another process, has published; tries everything again at intervals."""

    def __init__(self, storage: Storage, settings: Settings, rankers: Rankers) -> None:
        super().__init__(storage, settings, rankers)
        self._seen: dict[tuple[str, str], tuple[int, int]] = {}

    def _fail(self, error: Exception) -> None:
        """Report a failure, which is tried again."""
        if type(error) is not type(self.failure):
            trace = None if isinstance(error, StorageFailure) else error
            logger.error("%s has stopped, and is tried again every second: %s", self._task, error, exc_info=trace)
            self._rankers.observer.failed("", "store" if isinstance(error, StorageFailure) else "background")
        self._report(self.ready, error)

    #: What stops if there is a failure.
    _task = "reading versions"

    def _follow(self) -> None:
        """Serve what the leader has published, and read how far it has come; reads only what has changed."""
        self._rankers.refresh()
        kinds = (
            (log.MEMORY_CHANGES, self._load_memory),
            (log.VERSION, self._load_version),
            (log.STATUS, self._load_status),
        )
        for kind, load in kinds:
            for name, number in self._storage.snapshots.newest(kind).items():
                ranker = self._rankers.get(name)
                if ranker is None or (kind != log.VERSION and number < ranker.created.number):
                    continue  # of a deleted one; of another with its name, too, until the leader has removed the snapshot
                if self._seen.get((kind, name)) != (ranker.created.number, number):
                    load(name, ranker)
                    self._seen[kind, name] = (ranker.created.number, number)  # only now: the store may have failed

    def _load_version(self, name: str, ranker: Ranker | Experiment) -> None:
        if not isinstance(ranker, Ranker):
            return  # it is of a deleted ranker that had the name of this experiment
        newest = VersionStore(self._storage, ranker.created).load()
        if newest is not None:
            newest.definition.try_out(newest.state)
            self._rankers.serve(name, newest)

    def _load_memory(self, name: str, ranker: Ranker | Experiment) -> None:
        """Follow what the leader remembers of queries; it is published before the version that has learned from it."""
        assert isinstance(ranker, Ranker)
        if (remember := ranker.created.remember) is None:
            return
        try:
            ranker.followed = MemoryStore(self._storage, remember, name).follow(*ranker.followed)
        except StoreCorrupt as error:
            # Lists are ranked with what is known until the leader saves the whole memory again.
            logger.error("the memory of queries of %r cannot be read: %s", name, error)

    def _load_status(self, name: str, ranker: Ranker | Experiment) -> None:
        found = self._storage.snapshots.load(name, log.STATUS)
        if found is not None and isinstance(ranker, Ranker):
            ranker.status = log.unpack(found.body, Status)
        elif found is not None and isinstance(ranker, Experiment):
            ranker.status = log.unpack(found.body, ExperimentStatus)


class Front(Follower):
    """Follows the learner, which is another process of this server, and closes impressions for it.

    Parameters
    ----------
    storage, settings, rankers
        As in `Background`.
    clock
        Clock of the service.
    channel
        Messages from and to the learner.
    """

    def __init__(
        self, storage: Storage, settings: Settings, rankers: Rankers, clock: Clock, channel: FrontChannel
    ) -> None:
        super().__init__(storage, settings, rankers)
        self._clock, self._channel, self._woken = clock, channel, Flag()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closer: Closer | None = None
        self._beat_at, self._was_learning = clock.monotonic() - 1e9, True

    @property
    def learning(self) -> bool:
        """Whether the learner has sent a message lately."""
        return self._clock.monotonic() - self._beat_at < SILENCE_SECONDS

    def start(self, closer: Closer) -> None:
        """Start the thread, and read messages in the event loop."""
        self._closer, self._loop = closer, asyncio.get_running_loop()
        self._loop.add_reader(self._channel.inbox.fileno(), self._read)
        super().start(closer)

    def stop(self) -> None:
        """Stop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.remove_reader, self._channel.inbox.fileno())
        self._stop.set()
        self._woken.set()
        super().stop()

    def _read(self) -> None:
        """Read the messages of the learner, in the event loop."""
        assert self._closer is not None
        for message in self._channel.inbox.receive():
            if isinstance(message, Close):
                ranker = self._rankers.get(message.ranker)
                if ranker is not None and ranker.created.number == message.created:
                    self._closer.close_impressions(message.ranker, message.created, message.impressions, message.time)
            elif isinstance(message, Beat):
                self._beat_at = self._clock.monotonic()
            else:
                self._woken.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._woken.clear()
            try:
                self._storage.ping()  # a store that is gone must be noticed, even without requests
                self._follow()
                self._report(True, None)
            except Exception as error:
                self._fail(error)
                self._stop.wait(RETRY_SECONDS)
            self._log_learning()
            self._woken.wait(self._settings.poll_every)

    def _log_learning(self) -> None:
        """Log that the learner has fallen silent, or has begun."""
        if self.learning != self._was_learning:
            self._was_learning = self.learning
            later = "the learner does not work (yet): lists are ranked and stored, and learned from later"
            logger.info("%s", "the learner works" if self.learning else later)
