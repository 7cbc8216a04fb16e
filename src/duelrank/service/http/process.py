"""The processes of ``duelrank serve``: one process that serves, or a supervisor with several workers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from socket import socket
from typing import TYPE_CHECKING

from duelrank.core.errors import DuelrankError, InvalidValue, StorageFailure
from duelrank.core.extensions import load_extensions
from duelrank.service.http.app import create_app
from duelrank.service.http.auth import KeyRing
from duelrank.service.http.limits import WebSettings
from duelrank.service.http.server import FATAL, Supervisor, check_exposure, listen, run_server
from duelrank.service.http.telemetry import LogFormat, configure_logging, traced
from duelrank.service.service import Service
from duelrank.service.settings import Settings
from duelrank.storage import Storage, open_storage

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


@dataclass(frozen=True)
class ServerProcess:
    """A process that serves one store. It is picklable, so that it can be the function of a worker.

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
        Called with the error message of a worker that cannot continue; must be picklable.
    """

    store: str
    settings: Settings
    web: WebSettings
    access_log: bool
    log_format: LogFormat
    report: Callable[[str], None]

    def run(
        self,
        host: str,
        port: int,
        workers: int,
        announce: Callable[[int, KeyRing], None],
        ready: Callable[[list[str]], None],
    ) -> None:
        """Serve in this process or in several workers, until SIGINT or SIGTERM.

        Parameters
        ----------
        host, port
            Address to listen on; port 0 selects a free one.
        workers
            Number of processes; more than one need a store that processes can share.
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
            service = self._service(storage) if workers == 1 else None
            with listen(host, port) as listening:
                announce(listening.getsockname()[1], keys)
                if service is not None:
                    self._serve(service, keys, listening, ready)
                    return
                storage.close()  # each worker opens the store itself
                Supervisor(self, listening, workers, ready).run()

    def __call__(self, listening: socket, ready: Connection) -> None:
        """Serve as a worker, and send the names of the rankers when it is ready."""
        configure_logging(self.log_format, self.access_log)
        load_extensions()
        try:
            with open_storage(self.store) as storage:
                self._serve(self._service(storage), KeyRing(storage), listening, ready.send)
        except DuelrankError as error:
            self.report(f"error: {error}")
            sys.exit(1 if getattr(error, "retryable", False) else FATAL)

    def _service(self, storage: Storage) -> Service:
        service = Service(storage, self.settings)
        service.claim()
        return service

    def _serve(self, service: Service, keys: KeyRing, listening: socket, ready: Callable[[list[str]], None]) -> None:
        """Serve until a signal; raise `StorageFailure` if the final state could not be saved."""
        app = create_app(service, keys, self.web)
        run_server(
            traced(app, app.routes),
            service,
            listening,
            lambda: ready([info.name for info in service.rankers()]),
            self.access_log,
        )
        if service.unsaved is not None:
            raise StorageFailure(
                f"stopped, but not all that was learned is saved: {service.unsaved}; the next start learns it again from the "
                "event log"
            )
