"""The thread behind the service: leads if it can, follows if it cannot, and never gives up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event as Flag
from threading import Thread
from time import perf_counter

from duelrank.api import RankerSpec
from duelrank.core.compiling import kernel_folder
from duelrank.core.errors import StorageFailure, StoreLocked
from duelrank.serving.clock import Clock
from duelrank.serving.leader.learner import Learner, Overtaken
from duelrank.serving.log.bodies import hash63, unpack
from duelrank.serving.ranker.definition import Definition, settled
from duelrank.serving.ranker.rankers import Ranker, Rankers
from duelrank.serving.ranker.versions import STATUS, VERSION, Status, Versions
from duelrank.serving.settings import DEFAULT_REPRESENTATION, Settings
from duelrank.storage import Lease, Storage

__all__ = ["Election"]

logger = logging.getLogger("duelrank.serving")

LEASE = "learner"
# Seconds: to gather some events before they are read; between two attempts to lead; between two heartbeats of a leader;
# after something went wrong.
GATHER, LEAD_EVERY, BEAT_EVERY, RETRY = 0.01, 1.0, 1.0, 1.0


class Election:
    """Restores, then follows the log for as long as it runs.

    Parameters
    ----------
    storage, settings, clock, rankers
        Of the service.
    make_learner
        Makes what the leader does.
    tell
        Is called when `ready` or `failure` has changed, from any thread.
    """

    def __init__(
        self,
        storage: Storage,
        settings: Settings,
        clock: Clock,
        rankers: Rankers,
        make_learner: Callable[[], Learner],
        tell: Callable[[], None],
    ) -> None:
        self._storage, self._settings, self._clock, self._rankers = storage, settings, clock, rankers
        self._make_learner, self._tell = make_learner, tell
        self._learner: Learner | None = None
        self._lease: Lease | None = None
        self._asked_at = clock.monotonic() - 1e9
        self._seen: dict[tuple[str, str], tuple[int, int]] = {}
        self._wake, self._stop, self._lost = Flag(), Flag(), Flag()
        self.ready = False
        self.failure: Exception | None = None
        #: What kept it from writing down all that was learned when it ended.
        self.unsaved: Exception | None = None
        self._thread = Thread(target=self._run, name="duelrank-learner", daemon=True)
        self._heart = Thread(target=self._beat, name="duelrank-heartbeat", daemon=True)

    @property
    def leads(self) -> bool:
        """Whether this process is the one that learns."""
        return self._learner is not None

    @property
    def applied(self) -> int | None:
        """The number of the last event that was applied; None where another process learns."""
        learner = self._learner
        return None if learner is None else learner.applied

    def claim(self) -> None:
        """Take a store that is for one process; raise where another process serves from it."""
        if self._storage.shared or self._lease is not None:
            return
        self._lease = self._storage.leases.acquire(LEASE)
        if self._lease is None:
            raise StoreLocked(
                "another process serves from this store, and a store in SQLite is for one; stop that one first, or use "
                "PostgreSQL for several processes"
            )

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._heart.start()

    def wake(self) -> None:
        """Say that there is something to do."""
        self._wake.set()

    def stop(self) -> None:
        """End, having written down what was learned; waits for that."""
        self._stop.set()
        self._wake.set()
        for thread in (self._thread, self._heart):
            if thread.is_alive():
                thread.join()
        self._step_down()

    def _warm_up(self) -> None:
        """Compile what is likely to be needed before anybody waits for it, where the cache does not have it yet."""
        began, folder, recipes = perf_counter(), kernel_folder(), self._settings.warm_up
        done = None if folder is None else folder / f"warmed-{hash63(' '.join((*recipes, DEFAULT_REPRESENTATION))):x}"
        if not recipes or (done is not None and done.exists()):
            return
        for recipe in recipes:
            spec = settled(RankerSpec("warm-up", recipe, ("a", "b")), DEFAULT_REPRESENTATION)
            Definition(spec, 0.0).warm_up()
        logger.info("compiled kernels of %s in %.1f s", ", ".join(recipes), perf_counter() - began)
        if done is not None:
            done.touch()

    def _run(self) -> None:
        try:
            self._warm_up()
        except Exception as error:
            logger.warning("could not compile in advance: %s", error)
        while not self._stop.is_set():
            pause = 0.0
            try:
                more = self._cycle()
                self._note(True, None)
                pause = 0.0 if more else self._settings.poll_every
            except Overtaken as error:
                logger.warning("%s", error)
                self._step_down()
                self._asked_at -= LEAD_EVERY
            except Exception as error:
                self._fail(error)
            if self.failure is not None:
                self._stop.wait(RETRY)
            elif pause and self.leads:
                self._wake.wait(pause)
                self._stop.wait(GATHER)
            elif pause:
                self._stop.wait(pause)
            self._wake.clear()  # what comes from here on wakes the next time
        self._end()

    def _beat(self) -> None:
        """Renew the lease and tell the lag, in a thread of its own: to learn for long must look neither like hanging nor like 0."""
        while not self._stop.wait(BEAT_EVERY):
            lease, learner = self._lease, self._learner
            try:
                if lease is not None and not lease.renew():
                    self._lost.set()
                    self._wake.set()
            except StorageFailure as error:
                logger.warning("the leader's lease could not be renewed: %s", error)
            with suppress(StorageFailure):  # the learner meets it too, and tells
                if learner is not None:
                    learner.tell_lag()

    def _note(self, ready: bool, failure: Exception | None) -> None:
        changed = (ready, failure) != (self.ready, self.failure)
        self.ready, self.failure = ready, failure
        if changed:
            self._tell()

    def _fail(self, error: Exception) -> None:
        """Note what went wrong; the machines are made anew from the store where it was not the store."""
        if type(error) is not type(self.failure):
            told = None if isinstance(error, StorageFailure) else error
            logger.error("learning has stopped, and is tried again every second: %s", error, exc_info=told)
            self._rankers.observer.failed("", "store" if isinstance(error, StorageFailure) else "background")
        self._note(self.ready, error)
        if not isinstance(error, StorageFailure):
            self._step_down()

    def _cycle(self) -> bool:
        """Do what is due; return whether there is more to do at once."""
        if self._leads():
            assert self._learner is not None
            return self._learner.step()
        self._follow()
        return False

    def _leads(self) -> bool:
        now = self._clock.monotonic()
        if self._lost.is_set():
            logger.warning("this process does not lead any more: its lease was lost")
            self._step_down()
        elif now - self._asked_at < LEAD_EVERY:
            return self._learner is not None
        if self._lease is not None and not self._lease.held():
            logger.warning("this process does not lead any more: the store has let go of its lease")
            self._step_down()
        if self._lease is None:
            self._lost.clear()
            self.claim()
            self._lease = self._lease or self._storage.leases.acquire(LEASE)
        if self._lease is not None and self._learner is None:
            self._follow()  # what others have published can be served while the rest is restored
            learner = self._make_learner()
            learner.restore()
            self._learner = learner
            self._rankers.observer.leading(True)
            logger.info("this process leads: it learns from the event log")
        self._asked_at = now
        return self._learner is not None

    def _step_down(self) -> None:
        if self._learner is not None:
            self._learner.forget()
            self._rankers.observer.leading(False)
        lease, self._learner, self._lease = self._lease, None, None
        if lease is not None:
            lease.release()

    def _follow(self) -> None:
        """Serve what the leader has published, and tell what it has counted; only what has changed is read."""
        self._rankers.refresh()
        for kind, take in ((VERSION, self._take_version), (STATUS, self._take_status)):
            for name, number in self._storage.snapshots.newest(kind).items():
                ranker = self._rankers.by_name.get(name)
                if ranker is not None and self._seen.get((kind, name)) != (ranker.created.number, number):
                    take(name, ranker)
                    self._seen[kind, name] = (ranker.created.number, number)  # only now: the store may have failed

    def _take_version(self, name: str, ranker: Ranker) -> None:
        newest = Versions(self._storage, ranker.created).load()
        if newest is not None:
            self._rankers.serve(name, newest)

    def _take_status(self, name: str, ranker: Ranker) -> None:
        found = self._storage.snapshots.load(name, STATUS)
        if found is not None:
            ranker.status = unpack(found.body, Status)

    def _end(self) -> None:
        try:
            self.unsaved = self.failure if self._learner is None else None
            if self._learner is not None:
                self._learner.finish()
        except Exception as error:
            self.unsaved = error
            logger.warning("stopped before everything was written down; the next start does the rest: %s", error)
