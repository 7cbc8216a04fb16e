"""The processes of ``duelrank serve``: a supervisor with processes that serve and one that learns; or one process for all.

The supervisor imports only what it needs: the other processes start after that, and import the rest.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from select import select
from socket import socket
from time import monotonic, sleep
from typing import TYPE_CHECKING, Literal

from duelrank.core.errors import DuelrankError, InvalidValue, StorageFailure, StoreLocked
from duelrank.core.extensions import load_extensions
from duelrank.service.channel import AVAILABLE, FrontChannel, Inbox, LearnerChannel
from duelrank.service.http.auth import KeyRing
from duelrank.service.http.limits import WebSettings
from duelrank.service.http.server import (
    FATAL,
    GARBAGE,
    Role,
    Supervisor,
    caught_signals,
    check_exposure,
    end_with_supervisor,
    listen,
    run_server,
)
from duelrank.service.http.telemetry import LogFormat, configure_logging, traced
from duelrank.service.settings import LEASE, ONE_SERVER, SERVING, Settings
from duelrank.storage import Storage, open_storage

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from duelrank.service.service import Service

#: Where learning happens: in a separate process, or in a thread of the process that serves.
LearnerPlace = Literal["process", "inline"]
MEMORY = "sqlite://"
#: Seconds that the processes of a server that was killed may need to end.
ENDING_SECONDS = 5.0
#: By how much the priority of the learner is lower, so that requests do not wait for it.
LEARNER_NICE = 5


@dataclass(frozen=True)
class ServerProcess:
    """Serves one store. It is picklable, so that its methods can be the functions of processes.

    Parameters
    ----------
    store
        Address of the store.
    settings, web
        Settings of the service and of the HTTP server.
    access_log
        Whether every request is logged.
    log_format
        Format of the log on stderr.
    report
        Called with the error message of a process that cannot continue; must be picklable.
    learner
        Whether a separate process learns, or ("inline") a thread of the process that serves.
    """

    store: str
    settings: Settings
    web: WebSettings
    access_log: bool
    log_format: LogFormat
    report: Callable[[str], None]
    learner: LearnerPlace = "process"

    def run(
        self,
        host: str,
        port: int,
        workers: int,
        announce: Callable[[int, KeyRing], None],
        ready: Callable[[list[str]], None],
    ) -> None:
        """Serve in this process or in several, until SIGINT or SIGTERM.

        Parameters
        ----------
        host, port
            Address to listen on; port 0 selects a free one.
        workers
            Number of processes that serve; more than one need a store that processes can share.
        announce
            Called with the port and the keys of the store before serving starts.
        ready
            Called with the names of the rankers when requests are answered.
        """
        configure_logging(self.log_format, self.access_log)
        with open_storage(self.store) as storage:
            keys = KeyRing(storage)
            check_exposure(host, keys, self.web.insecure)
            if workers > 1 and not storage.shared:
                raise InvalidValue(
                    "several workers need a store that processes can share, which is PostgreSQL: "
                    "--store postgresql://USER@HOST/DATABASE; with SQLite, leave --workers at 1"
                )
            service = self._claimed(storage, workers)
            with listen(host, port) as listening:
                announce(listening.getsockname()[1], keys)
                if service is not None:
                    self._serve(service, keys, listening, ready)
                    return
                storage.close()  # each process opens the store itself
                Supervisor(self._roles(listening, workers), listening, ready).run()

    @property
    def _separate(self) -> bool:
        """Whether a separate process learns; no other process can read a store in memory."""
        return self.learner == "process" and AVAILABLE and self.store != MEMORY

    def _claimed(self, storage: Storage, workers: int) -> Service | None:
        """Return the service of this process, None if other processes serve; raise `StoreLocked` if the store is in use."""
        if workers == 1 and not self._separate:
            from duelrank.service.service import Service

            service = Service(storage, self.settings)
            service.claim()
            return service
        if not storage.shared:
            for name in (SERVING, LEASE):
                _await_lease(storage, name)
        return None

    def _roles(self, listening: socket, workers: int) -> list[Role]:
        names = [f"worker {number}" for number in range(1, workers + 1)]
        if not self._separate:
            return [Role(name, partial(self.serve, listening, None)) for name in names]
        inbox, fronts = Inbox(), [Inbox() for _ in names]
        channels = [FrontChannel(front, inbox) for front in fronts]
        return [
            *(
                Role(name, partial(self.serve, listening, channel), learns=False)
                for name, channel in zip(names, channels, strict=True)
            ),
            Role("learner", partial(self.learn, LearnerChannel(inbox, fronts)), serves=False),
        ]

    def serve(self, listening: socket, channel: FrontChannel | None, ready: Connection) -> None:
        """Serve as a process of a supervisor, and send the names of the rankers when it is ready."""
        from duelrank.service.service import Service

        with self._started() as storage:
            service = Service(storage, self.settings, channel=channel)
            service.claim()
            self._serve(service, KeyRing(storage), listening, ready.send)

    def learn(self, channel: LearnerChannel, ready: Connection) -> None:
        """Learn as a process of a supervisor; Ctrl-C, which all processes get, reaches it when those that serve have ended."""
        from duelrank.service.http.decoding import array_reader
        from duelrank.service.http.metrics import Metrics
        from duelrank.service.leader import learn

        os.nice(LEARNER_NICE)
        with self._started() as storage, caught_signals() as (woken, signals):
            signal.signal(signal.SIGINT, signal.SIG_IGN)

            def stopped(seconds: float) -> bool:
                select([woken], [], [], seconds)
                return bool(signals)

            then = (stopped, lambda: ready.send([]), array_reader.prepare)
            _check_saved(learn(storage, self.settings, channel, Metrics(), *then))

    @contextmanager
    def _started(self) -> Iterator[Storage]:
        """Open the store in a process of a supervisor; errors end the process with a status that says whether to try again."""
        gc.set_threshold(GARBAGE)  # most objects of compilers stay
        end_with_supervisor()
        configure_logging(self.log_format, self.access_log)
        load_extensions()
        try:
            with open_storage(self.store) as storage:
                yield storage
        except DuelrankError as error:
            self.report(f"error: {error}")
            sys.exit(1 if getattr(error, "retryable", False) else FATAL)

    def _serve(self, service: Service, keys: KeyRing, listening: socket, ready: Callable[[list[str]], None]) -> None:
        """Serve until a signal; raise `StorageFailure` if the final state could not be saved."""
        from duelrank.service.http.app import create_app

        app = create_app(service, keys, self.web)
        run_server(
            traced(app, app.routes),
            service,
            listening,
            lambda: ready([info.name for info in service.rankers()]),
            self.access_log,
        )
        _check_saved(service.unsaved)


def _check_saved(unsaved: Exception | None) -> None:
    if unsaved is not None:
        raise StorageFailure(
            f"stopped, but not all that was learned is saved: {unsaved}; the next start learns it again from the event log"
        )


def _await_lease(storage: Storage, name: str) -> None:
    """Wait a moment until a lease is free, because the processes of a server that was killed need one to end."""
    end = monotonic() + ENDING_SECONDS
    while (lease := storage.leases.acquire(name)) is None:
        if monotonic() > end:
            raise StoreLocked(ONE_SERVER)
        sleep(0.05)
    lease.release()
