"""From an event loop into the store: what comes in during one turn of the loop goes to the store together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from duelrank.storage import EventLog, NewEvent, Receipt

__all__ = ["Appender"]

Waiting = list[tuple[int, "asyncio.Future[list[Receipt]]"]]


class Appender:
    """Appends events in the order in which `append` was called; belongs to one event loop.

    Parameters
    ----------
    log
        Where to.
    tell
        Is told what is new in the log, in order.
    """

    def __init__(self, log: EventLog, tell: Callable[[Sequence[NewEvent], Sequence[Receipt]], None]) -> None:
        self._log, self._tell, self._loop = log, tell, asyncio.get_running_loop()
        self._events: list[NewEvent] = []
        self._waiting: Waiting = []
        self._newest: asyncio.Future[list[Receipt]] | None = None

    def append(self, events: Sequence[NewEvent]) -> asyncio.Future[list[Receipt]]:
        """Hand over events; the future is done when they are on the disk."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        future = self._loop.create_future()
        self._events += events
        self._waiting.append((len(events), future))
        self._newest = future
        return future

    async def settled(self) -> None:
        """Wait until what was handed over so far is on the disk, or has failed to get there."""
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

    def _done(self, events: list[NewEvent], waiting: Waiting, done: Future[list[Receipt]]) -> None:
        """Come back from the store's thread; nobody is left to tell where the loop was closed meanwhile."""
        if done.exception() is None:
            self._tell(events, done.result())
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, waiting, done)

    def _settle(self, waiting: Waiting, done: Future[list[Receipt]]) -> None:
        error = done.exception()
        if error is not None:
            self._fail(waiting, error)
            return
        receipts, start = done.result(), 0
        for count, future in waiting:
            if not future.done():  # cancelled by a client that went away
                future.set_result(receipts[start : start + count])
            start += count

    def _fail(self, waiting: Waiting, error: BaseException) -> None:
        for _, future in waiting:
            if not future.done():
                future.set_exception(type(error)(*error.args))
                future.exception()  # who went away will not ask
