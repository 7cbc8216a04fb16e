"""The thread behind the service: leads if it can, follows if it cannot, and never gives up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event as Flag
from threading import Thread

from duelrank.errors import StorageFailure
from duelrank.serving.clock import Clock
from duelrank.serving.leader.learner import Close, Learning
from duelrank.serving.ranker.rankers import Board
from duelrank.serving.ranker.versions import Versions
from duelrank.serving.settings import Settings
from duelrank.storage import Lease, Storage

__all__ = ["Background"]

logger = logging.getLogger("duelrank.serving")

# Seconds: to gather some events before they are read; between two attempts to lead; after something went wrong; between
# two looks for new versions where nothing has happened for as long.
GATHER, LEAD_EVERY, RETRY, CALM = 0.01, 1.0, 1.0, 5.0


class Background:
    """Restores, then follows the log for as long as it runs.

    Parameters
    ----------
    storage, settings, clock, board, close
        As of `Learning`.
    """

    def __init__(self, storage: Storage, settings: Settings, clock: Clock, board: Board, close: Close) -> None:
        self._storage, self._settings, self._clock, self._board = storage, settings, clock, board
        self._learn: Callable[[], Learning] = lambda: Learning(storage, settings, clock, board, close)
        self._learning: Learning | None = None
        self._lease: Lease | None = None
        self._asked_at = self._polled_at = self._changed_at = clock.monotonic() - 1e9
        self._seen = -1
        self._wake, self._stop = Flag(), Flag()
        self.ready = False
        self.failure: Exception | None = None
        self._thread = Thread(target=self._run, name="duelrank-learner", daemon=True)

    @property
    def leads(self) -> bool:
        """Whether this process is the one that learns."""
        return self._learning is not None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there is something to do."""
        self._wake.set()

    def stop(self) -> None:
        """End, having written down what was learned; waits for that."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            pause = 0.0
            try:
                more = self._cycle()
                self.ready, self.failure = True, None
                pause = 0.0 if more else self._settings.poll_every
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

    def _fail(self, error: Exception) -> None:
        """Note what went wrong; the machines are made anew from the store where it was not the store."""
        if type(error) is not type(self.failure):
            told = None if isinstance(error, StorageFailure) else error
            logger.error("the background of the service failed, and tries again: %s", error, exc_info=told)
            self._board.observer.failed("", "store" if isinstance(error, StorageFailure) else "background")
        self.failure = error
        if not isinstance(error, StorageFailure):
            self._abdicate()

    def _cycle(self) -> bool:
        """Do what is due; return whether there is more to do at once."""
        if self._leads():
            assert self._learning is not None
            return self._learning.step()
        self._follow()
        return False

    def _leads(self) -> bool:
        now = self._clock.monotonic()
        if now - self._asked_at < LEAD_EVERY:
            return self._learning is not None
        if self._lease is not None and not self._lease.held():
            logger.warning("this process leads no more: the store has let go of its lease")
            self._abdicate()
        if self._lease is None:
            self._lease = self._storage.try_lead("learner")
        if self._lease is not None and self._learning is None:
            self._follow()  # what others have published can be served while the rest is restored
            learning = self._learn()
            learning.restore()
            self._learning = learning
            self._board.observer.leading(True)
        self._asked_at = now
        return self._learning is not None

    def _abdicate(self) -> None:
        if self._learning is not None:
            self._learning.forget()
            self._board.observer.leading(False)
        lease, self._learning, self._lease = self._lease, None, None
        if lease is not None:
            lease.release()

    def _follow(self) -> None:
        """Serve what the leader has published; its versions are saved a moment after the log has told of them."""
        last, now = self._storage.last_number(), self._clock.monotonic()
        if last != self._seen:
            self._changed_at = now
        elif now - self._changed_at > CALM and now - self._polled_at < CALM:
            return
        self._board.refresh(self._storage)
        for name, ranker in list(self._board.rankers.items()):
            newest = Versions(self._storage, ranker.definition).load()
            if newest is not None:
                self._board.serve(name, newest)
        self._seen, self._polled_at = last, now

    def _end(self) -> None:
        try:
            if self._learning is not None:
                self._learning.finish()
        except Exception as error:
            logger.warning("stopped before everything was written down; the next start does the rest: %s", error)
        self._abdicate()
