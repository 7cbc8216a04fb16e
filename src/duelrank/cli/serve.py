"""``duelrank serve`` and ``duelrank dashboard``: serve the rankers of a store, or only show them."""

from __future__ import annotations

import os
import re
import sys
import webbrowser
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from duelrank.cli.console import print_error
from duelrank.cli.options import SQLITE, StoreArgument, StoreOption, opened_store

if TYPE_CHECKING:
    from duelrank.service.http import KeyRing
    from duelrank.service.http.process import LearnerPlace, ServerProcess
    from duelrank.service.http.telemetry import LogFormat

MEMORY = "sqlite://"
#: Recipes that are compiled before the service is ready, so that creating a ranker takes milliseconds.
WARM_UP = ("mgd-dsp", "dbgd-dsp", "nsgd-dsp", "wmgd-dsp", "pdgd")

HostOption = Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all network interfaces.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free port.")]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, help="Number of processes that serve; more than 1 needs PostgreSQL.")
]
LearnerOption = Annotated[
    str,
    typer.Option(
        "--learner", help="Where to learn: process, a separate one, or inline, a thread of the process that serves."
    ),
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
        help="Retention time of the features of impressions after they were learned from, which limits a replay. With 0, "
        "features are deleted as soon as three checkpoints cover them.",
    ),
]
VersionsOption = Annotated[
    int,
    typer.Option("--keep-versions", min=1, help="Number of newest model versions to keep; older ones are thinned out."),
]
MaxOpenOption = Annotated[int, typer.Option("--max-open", min=1, help="Maximum number of open impressions per ranker.")]
DocumentsOption = Annotated[
    int, typer.Option("--max-documents", min=1, help="Maximum number of documents in a request.")
]
RememberQueriesOption = Annotated[
    int,
    typer.Option(
        "--remember-queries", min=1, help="Maximum number of queries that the algorithm of a ranker may remember."
    ),
]
RememberDocumentsOption = Annotated[
    int,
    typer.Option(
        "--remember-documents",
        min=1,
        help="Maximum number of documents of a query that the algorithm of a ranker may remember.",
    ),
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
        help="Address that receives the alarms and promotions of guards, for rankers without their own webhook.",
        show_default=False,
    ),
]
PrivateWebhooksOption = Annotated[
    bool,
    typer.Option(
        "--allow-private-webhooks",
        envvar="DUELRANK_ALLOW_PRIVATE_WEBHOOKS",
        help="Allow webhooks to addresses that are not public, such as this machine and its network.",
        show_default=False,
    ),
]
AccessLogOption = Annotated[bool, typer.Option("--access-log", help="Log every request, without its query string.")]
LogFormatOption = Annotated[str, typer.Option("--log-format", help="Format of the log on stderr: text or json.")]
RankerOption = Annotated[str, typer.Option("--ranker", "-r", help="Show this ranker first.", show_default=False)]
OpenOption = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]
NoKeysOption = Annotated[
    bool,
    typer.Option(
        "--without-keys",
        help="Answer requests from this machine without an API key, although the store has keys; all its users can then read.",
    ),
]


def serve(
    store: StoreOption = SQLITE,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    workers: WorkersOption = 1,
    learner: LearnerOption = "process",
    insecure: InsecureOption = False,
    publish_every: PublishOption = 1.0,
    retention: RetentionOption = "7d",
    keep_features: FeaturesOption = "0",
    keep_versions: VersionsOption = 20,
    max_open: MaxOpenOption = 100_000,
    max_documents: DocumentsOption = 1000,
    remember_queries: RememberQueriesOption = 100_000,
    remember_documents: RememberDocumentsOption = 100,
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
    from duelrank.service.http.process import ServerProcess

    settings = Settings(
        publish_every=publish_every,
        retention=_seconds(retention),
        keep_features=_seconds(keep_features),
        warm_up=WARM_UP,
        keep_versions=keep_versions,
        max_open=max_open,
        max_documents=max_documents,
        remember_queries=remember_queries,
        remember_documents=remember_documents,
        webhook=_webhook(webhook, allow_private_webhooks),
        private_webhooks=allow_private_webhooks,
    )
    web = WebSettings(max_body=max_body, max_requests=max_requests, rate=rate, insecure=insecure)
    process = ServerProcess(store, settings, web, access_log, _log_format(log_format), print_error, _learner(learner))
    process.run(host, port, workers, partial(_announce, process, host, workers), _ready)
    typer.echo("stopped; everything is saved" if store != MEMORY else "stopped; the store was in memory and is gone")


def dashboard(
    place: StoreArgument = None,
    store: StoreOption = SQLITE,
    ranker: RankerOption = "",
    host: HostOption = "127.0.0.1",
    port: PortOption = 8001,
    open: OpenOption = True,
    without_keys: NoKeysOption = False,
) -> None:
    """Show the state and history of the rankers of a store in a browser; nothing is served, learned or written."""
    need_extra()
    from duelrank.service import Service
    from duelrank.service.http import KeyRing, create_app
    from duelrank.service.http.auth import NoKeys
    from duelrank.service.http.server import check_exposure, listen, run_server
    from duelrank.service.http.telemetry import configure_logging

    configure_logging("text", False)
    with opened_store(place or store, read_only=True) as storage:
        keys = NoKeys(storage) if without_keys else KeyRing(storage)
        check_exposure(host, keys, False)
        service = Service(storage, read_only=True)
        with listen(host, port) as listening:
            address = f"{address_of(host, listening.getsockname()[1])}/dashboard{'/' + quote(ranker) if ranker else ''}"
            typer.echo(f"the dashboard is at {address} (Ctrl-C to stop); the store is only read")
            if keys.in_force:
                typer.echo("the store has API keys, so the page asks for one (or use --without-keys)")

            def ready() -> None:
                _ready([info.name for info in service.rankers()])
                if open:
                    open_page(address)

            run_server(create_app(service, keys), service, listening, ready)


def _log_format(text: str) -> LogFormat:
    from duelrank.core.errors import InvalidValue

    if text not in ("text", "json"):
        raise InvalidValue(f"--log-format must be text or json, got {text!r}")
    return "json" if text == "json" else "text"


def _learner(text: str) -> LearnerPlace:
    from duelrank.core.errors import InvalidValue

    if text not in ("process", "inline"):
        raise InvalidValue(f"--learner must be process or inline, got {text!r}")
    return "inline" if text == "inline" else "process"


def _webhook(address: str | None, private: bool) -> str | None:
    """Return the address of a webhook, or raise an error if it cannot receive messages."""
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


def _seconds(text: str) -> float:
    """Return the number of seconds in 7d, 12h, 30m, 90s or a plain number."""
    from duelrank.core.errors import InvalidValue

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if not found:
        raise InvalidValue(f"a time must be like 7d, 12h, 30m or 90s, got {text!r}")
    return float(found[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[found[2]]


def _announce(process: ServerProcess, host: str, workers: int, port: int, keys: KeyRing) -> None:
    """Write to stdout; stderr has the log."""
    from duelrank import __version__
    from duelrank.service.webhooks import without_secrets
    from duelrank.storage.base import without_password

    store, address = process.store, address_of(host, port)
    typer.echo(f"duelrank {__version__} listens on {address} (Ctrl-C to stop); API documentation: {address}/docs")
    typer.echo(f"dashboard: {address}/dashboard")
    lost = ", in memory: lost when the service stops" if store == MEMORY else ""
    typer.echo(f"store: {without_password(store)}{lost}")
    if keys.in_force:
        typer.echo("requests need an API key (duelrank keys list)")
    elif process.web.insecure:
        typer.echo("no API keys, and --insecure: everyone who can reach this address can use and change the rankers")
    else:
        typer.echo("no API keys: only requests from this machine are accepted (duelrank keys create)")
    if process.settings.webhook is not None:
        typer.echo(f"webhook of guards: {without_secrets(process.settings.webhook)}")
    if workers > 1:
        typer.echo(f"{workers} workers")
    sys.stdout.flush()


def _ready(names: list[str]) -> None:
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    typer.echo(f"ready: {len(names)} ranker{'' if len(names) == 1 else 's'}" + (f" ({shown})" if names else ""))
    sys.stdout.flush()


def address_of(host: str, port: int) -> str:
    """Return the web address of a host and a port."""
    return f"http://[{host.strip('[]')}]:{port}" if ":" in host else f"http://{host}:{port}"


def open_page(address: str) -> None:
    """Open a page in a browser if there is a display; does not wait, because some browsers block until they are closed."""
    displays = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform in ("darwin", "win32") or any(map(os.environ.get, displays)):
        Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def need_extra(module: str = "duelrank.service.http.server") -> None:
    """Raise `MissingExtra` if a module of the service cannot be imported."""
    from duelrank.core.errors import MissingExtra

    try:
        import_module(module)
    except ImportError as error:
        raise MissingExtra(f"the service needs additional packages: pip install 'duelrank[serve]' ({error})") from None
