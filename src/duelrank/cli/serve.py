"""``duelrank serve``: serves rankers over HTTP, which learn from clicks."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from duelrank.cli.options import store_address

if TYPE_CHECKING:
    import socket
    from multiprocessing.connection import Connection

    from duelrank.service import Service, Settings
    from duelrank.service.http import KeyRing, WebSettings
    from duelrank.service.http.telemetry import LogFormat
    from duelrank.storage import Storage

SQLITE = "sqlite:///duelrank.db"
MEMORY = "sqlite://"
#: Recipes that are compiled before the service is ready, so that to create a ranker takes milliseconds.
WARM_UP = ("mgd-dsp", "dbgd-dsp", "nsgd-dsp", "wmgd-dsp", "pdgd")

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="DUELRANK_STORE",
        callback=store_address,
        help="File or address of the store: shop.db, sqlite:///shop.db or postgresql://USER@HOST/DATABASE.",
    ),
]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all network interfaces.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free port.")]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, help="Number of processes that serve; more than 1 needs PostgreSQL.")
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", help="Accept requests without API keys from other machines.")
]
PublishOption = Annotated[
    float, typer.Option("--publish-every", min=0.0, help="Minimum number of seconds between two model versions.")
]
RetentionOption = Annotated[
    str, typer.Option("--retention", help="Retention time of events after they were learned from: 7d, 12h, 30m, 90s.")
]
FeaturesOption = Annotated[
    str,
    typer.Option(
        "--keep-features",
        help="Time to keep the features of impressions after they were learned from: so far back a replay can go. With 0, "
        "features are dropped as soon as three checkpoints cover them.",
    ),
]
VersionsOption = Annotated[
    int,
    typer.Option("--keep-versions", min=1, help="Number of the newest model versions to keep; older ones are thinned."),
]
OpenOption = Annotated[
    int, typer.Option("--max-open", min=1, help="Maximum number of impressions per ranker that wait for clicks.")
]
DocumentsOption = Annotated[
    int, typer.Option("--max-documents", min=1, help="Maximum number of documents in a request.")
]
BodyOption = Annotated[int, typer.Option("--max-body", min=1, help="Maximum size of a request in bytes.")]
RequestsOption = Annotated[int, typer.Option("--max-requests", min=1, help="Maximum number of concurrent requests.")]
RateOption = Annotated[
    float, typer.Option("--rate", min=0.0, help="Maximum requests per second for each API key; 0 for no limit.")
]
WebhookOption = Annotated[
    str | None,
    typer.Option(
        "--webhook",
        metavar="URL",
        envvar="DUELRANK_WEBHOOK",
        help="Address to tell of the alarms and promotions of guards, for rankers that name none themselves.",
        show_default=False,
    ),
]
PrivateWebhooksOption = Annotated[
    bool,
    typer.Option(
        "--allow-private-webhooks",
        envvar="DUELRANK_ALLOW_PRIVATE_WEBHOOKS",
        help="Let webhooks go to addresses that are not public, such as this machine and its network.",
        show_default=False,
    ),
]
AccessLogOption = Annotated[bool, typer.Option("--access-log", help="Log every request, without its query string.")]
LogFormatOption = Annotated[str, typer.Option("--log-format", help="Format of the log on stderr: text or json.")]


def serve(
    store: StoreOption = SQLITE,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    workers: WorkersOption = 1,
    insecure: InsecureOption = False,
    publish_every: PublishOption = 1.0,
    retention: RetentionOption = "7d",
    keep_features: FeaturesOption = "0",
    keep_versions: VersionsOption = 20,
    max_open: OpenOption = 100_000,
    max_documents: DocumentsOption = 1000,
    max_body: BodyOption = 8 << 20,
    max_requests: RequestsOption = 1000,
    rate: RateOption = 1000.0,
    webhook: WebhookOption = None,
    allow_private_webhooks: PrivateWebhooksOption = False,
    access_log: AccessLogOption = False,
    log_format: LogFormatOption = "text",
) -> None:
    """Serve rankers that learn from clicks, until Ctrl-C or SIGTERM."""
    need_extra()
    from duelrank.service import Settings
    from duelrank.service.http import WebSettings

    settings = Settings(
        publish_every=publish_every,
        retention=_seconds(retention),
        keep_features=_seconds(keep_features),
        warm_up=WARM_UP,
        keep_versions=keep_versions,
        max_open=max_open,
        max_documents=max_documents,
        webhook=_webhook(webhook, allow_private_webhooks),
        private_webhooks=allow_private_webhooks,
    )
    web = WebSettings(max_body=max_body, max_requests=max_requests, rate=rate, insecure=insecure)
    work = _Work(store, settings, web, access_log, _log_format(log_format))
    work.configure()
    _run(work, host, port, workers)
    typer.echo("stopped; everything is saved" if store != MEMORY else "stopped; the store was in memory and is gone")


def _run(work: _Work, host: str, port: int, workers: int) -> None:
    """Listen, and serve in this process or in several others."""
    from duelrank.service.http import KeyRing
    from duelrank.service.http.server import check_exposure, listen
    from duelrank.storage import open_storage

    with open_storage(work.store) as storage:
        keys = KeyRing(storage)
        check_exposure(host, keys, work.web.insecure)
        if workers > 1:
            _check_shared(storage)
        service = work.service(storage) if workers == 1 else None
        with listen(host, port) as listening:
            _announce(address_of(host, listening.getsockname()[1]), work, keys)
            if service is not None:
                work.serve(service, keys, listening, lambda service: _ready(_names(service)))
                return
            storage.close()  # the workers open it, each for itself
            _supervise(work, listening, workers)


def _supervise(work: _Work, listening: socket.socket, workers: int) -> None:
    from duelrank.service.http.server import Supervisor

    typer.echo(f"{workers} workers")
    Supervisor(work, listening, workers, _ready).run()


@dataclass(frozen=True)
class _Work:
    """What one process does; it can be sent to another."""

    store: str
    settings: Settings
    web: WebSettings
    access_log: bool
    log_format: LogFormat

    def configure(self) -> None:
        """Set up the log."""
        from duelrank.service.http.telemetry import configure_logging

        configure_logging(self.log_format, self.access_log)

    def __call__(self, listening: socket.socket, ready: Connection) -> None:
        """Serve in a process of its own, and send the names of the rankers when it is ready."""
        from duelrank.cli.console import complain
        from duelrank.core.errors import DuelrankError
        from duelrank.core.extensions import load_extensions
        from duelrank.service.http import KeyRing
        from duelrank.service.http.server import FATAL
        from duelrank.storage import open_storage

        self.configure()
        load_extensions()
        try:
            with open_storage(self.store) as storage:
                keys = KeyRing(storage)
                self.serve(self.service(storage), keys, listening, lambda service: ready.send(_names(service)))
        except DuelrankError as error:
            complain(f"error: {error}")
            sys.exit(1 if getattr(error, "retryable", False) else FATAL)

    def service(self, storage: Storage) -> Service:
        """Return the service on a store that nobody else has."""
        from duelrank.service import Service

        service = Service(storage, self.settings)
        service.claim()
        return service

    def serve(
        self, service: Service, keys: KeyRing, listening: socket.socket, when_ready: Callable[[Service], None]
    ) -> None:
        """Serve until SIGINT or SIGTERM; raise where not all that was learned could be saved then."""
        from duelrank.core.errors import StorageFailure
        from duelrank.service.http import create_app
        from duelrank.service.http.server import run_server
        from duelrank.service.http.telemetry import traced

        app = create_app(service, keys, self.web)
        run_server(traced(app, app.routes), service, listening, lambda: when_ready(service), self.access_log)
        if service.unsaved is not None:
            raise StorageFailure(
                f"stopped, but not all that was learned is saved: {service.unsaved}; the next start learns it again from the "
                "event log"
            )


def _log_format(text: str) -> LogFormat:
    from duelrank.core.errors import InvalidValue

    if text not in ("text", "json"):
        raise InvalidValue(f"the format of the log is text or json, got {text!r}")
    return "json" if text == "json" else "text"


def _webhook(address: str | None, private: bool) -> str | None:
    """Return the address of a webhook, or raise if nothing can be sent to it."""
    from duelrank.core.errors import InvalidValue
    from duelrank.evidence import GuardSpec
    from duelrank.evidence.guard import check_guard
    from duelrank.service.webhooks import check_public

    try:
        check_guard(GuardSpec(webhook=address))
    except InvalidValue:
        raise InvalidValue(
            f"--webhook must be an http or https address, such as https://example.com/hook, got {address!r}"
        ) from None
    if address is not None and not private:
        check_public(address)
    return address


def _check_shared(storage: Storage) -> None:
    """Refuse several processes on a store that one process must have for itself."""
    from duelrank.core.errors import InvalidValue

    if not storage.shared:
        raise InvalidValue(
            "several workers need a store that several processes may use, which is PostgreSQL: "
            "--store postgresql://USER@HOST/DATABASE; with SQLite, leave --workers at 1"
        )


def _seconds(text: str) -> float:
    """Return the number of seconds in 7d, 12h, 30m, 90s or a plain number."""
    from duelrank.core.errors import InvalidValue

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if not found:
        raise InvalidValue(f"a time must be like 7d, 12h, 30m or 90s, got {text!r}")
    return float(found[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[found[2]]


def _announce(address: str, work: _Work, keys: KeyRing) -> None:
    """Write to stdout, for people; stderr has the log."""
    from duelrank import __version__
    from duelrank.service.webhooks import without_secrets
    from duelrank.storage.base import without_password

    store = work.store
    typer.echo(f"duelrank {__version__} listens on {address} (Ctrl-C to stop); API documentation: {address}/docs")
    typer.echo(f"dashboard: {address}/dashboard")
    lost = ", in memory: lost when the service stops" if store == MEMORY else ""
    typer.echo(f"store: {without_password(store)}{lost}")
    if keys.in_force:
        typer.echo("requests need an API key (duelrank keys list)")
    elif work.web.insecure:
        typer.echo("no API keys, and --insecure: everyone who can reach this address can use and change the rankers")
    else:
        typer.echo("no API keys: only requests from this machine are accepted (duelrank keys create)")
    if work.settings.webhook is not None:
        typer.echo(f"guards tell {without_secrets(work.settings.webhook)} of alarms and promotions")
    sys.stdout.flush()


def _names(service: Service) -> list[str]:
    return [info.name for info in service.rankers()]


def _ready(names: list[str]) -> None:
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    typer.echo(f"ready: {len(names)} ranker{'' if len(names) == 1 else 's'}" + (f" ({shown})" if names else ""))
    sys.stdout.flush()


def address_of(host: str, port: int) -> str:
    """Return where a page can be reached."""
    return f"http://[{host.strip('[]')}]:{port}" if ":" in host else f"http://{host}:{port}"


def need_extra(module: str = "duelrank.service.http.server") -> None:
    """Raise `MissingExtra` if a module of the service cannot be imported."""
    from duelrank.core.errors import MissingExtra

    try:
        import_module(module)
    except ImportError as error:
        raise MissingExtra(f"the service needs additional packages: pip install 'duelrank[serve]' ({error})") from None
