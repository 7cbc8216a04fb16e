"""Runs in several processes of this machine; one that dies is replaced, and its run is done again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from duelrank.errors import DuelrankError
from duelrank.experiments.warming import warm_up
from duelrank.experiments.worker import start_worker
from duelrank.simulation import Record, RunSpec

__all__ = ["TRIES", "Pool", "given_up"]

#: How many workers a run may take with it before it is given up.
TRIES = 3


@dataclass(frozen=True)
class Pool:
    """An executor of worker processes, which compile nothing: the kernels are on disk before they start."""

    workers: int

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the records as they finish; closing the generator ends the processes."""
        warm_up(specs)
        crew = _Crew(self.workers, specs)
        try:
            while crew.assign():
                yield from crew.finished()
        finally:
            crew.dismiss()
        if crew.lost:
            raise given_up(crew.lost)


def given_up(specs: Sequence[RunSpec]) -> DuelrankError:
    """Return the error for runs that killed every worker they were given."""
    names = ", ".join(f"{spec.id} ({spec.digest})" for spec in specs[:3])
    more = f" and {len(specs) - 3} more" if len(specs) > 3 else ""
    return DuelrankError(
        f"{len(specs)} run{'s' if len(specs) > 1 else ''} killed each worker process again and again: {names}{more}; "
        "most often memory ran out: try fewer workers at a time, or look at the system's log. All other runs are done"
    )


class _Crew:
    """The workers, what each of them is doing, and what is still to be done."""

    # One pipe to each worker and nothing shared: with the queues of `concurrent.futures`, a worker that is ended in the
    # middle of a message leaves the parent waiting for the rest of it, for ever.

    def __init__(self, size: int, specs: Sequence[RunSpec]) -> None:
        self.size = size
        self.waiting = deque(specs)
        self.workers: dict[Connection, BaseProcess] = {}
        self.busy: dict[Connection, RunSpec] = {}
        self.deaths: Counter[RunSpec] = Counter()
        self.lost: list[RunSpec] = []

    def assign(self) -> bool:
        """Give every idle worker a run, hiring as many as there is work for; False once there is nothing to wait for."""
        while self.waiting and len(self.busy) < self.size:
            connection = self._idle()
            spec = self.busy[connection] = self.waiting.popleft()
            try:
                connection.send(spec)
            except OSError:
                self._bury(connection)
        return bool(self.busy)

    def finished(self) -> Generator[Record, None, None]:
        """Wait, and yield what has come back; whoever has died leaves its run for another one."""
        for connection in cast(list[Connection], wait(self.busy)):
            try:
                outcome: Record | Exception = connection.recv()
            except (EOFError, OSError):
                self._bury(connection)
                continue
            del self.busy[connection]
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome

    def dismiss(self) -> None:
        """End the workers, in the middle of a run or idle: nobody wants anything from them any more."""
        for process in self.workers.values():
            process.terminate()
        for connection, process in self.workers.items():
            process.join()
            connection.close()

    def _idle(self) -> Connection:
        for connection in self.workers:
            if connection not in self.busy:
                return connection
        connection, process = start_worker()
        self.workers[connection] = process
        return connection

    def _bury(self, connection: Connection) -> None:
        process = self.workers.pop(connection)
        process.terminate()  # its pipe is broken, whether it knows or not
        process.join()
        connection.close()
        spec = self.busy.pop(connection)
        self.deaths[spec] += 1
        if self.deaths[spec] < TRIES:
            self.waiting.append(spec)  # behind the others: what it lacked may be there by then
        else:
            self.lost.append(spec)
