"""``duelrank serve``: serves rankers over HTTP, which learn from clicks."""

from __future__ import annotations

import logging
import re
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from duelrank.cli.console import tell

if TYPE_CHECKING:
    from duelrank.serving import Service
    from duelrank.serving.http import KeyRing

__all__ = ["StoreOption", "serve"]

SQLITE = "sqlite:///duelrank.db"

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="DUELRANK_STORE",
        help="Address of the store: sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
    ),
]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all network interfaces.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free port.")]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", help="Accept requests without API keys from other machines.")
]
PublishOption = Annotated[
    float, typer.Option("--publish-every", min=0.0, help="Minimum number of seconds between two model versions.")
]
RetentionOption = Annotated[
    str, typer.Option("--retention", help="Retention time of events after they were learned from: 7d, 12h, 30m, 90s.")
]
VersionsOption = Annotated[int, typer.Option("--keep-versions", min=1, help="Number of model versions to keep.")]
OpenOption = Annotated[
    int, typer.Option("--max-open", min=1, help="Maximum number of lists per ranker that wait for clicks.")
]
DocumentsOption = Annotated[
    int, typer.Option("--max-documents", min=1, help="Maximum number of documents in a request.")
]
BodyOption = Annotated[int, typer.Option("--max-body", min=1, help="Maximum size of a request in bytes.")]
RequestsOption = Annotated[int, typer.Option("--max-requests", min=1, help="Maximum number of concurrent requests.")]
RateOption = Annotated[
    float, typer.Option("--rate", min=0.0, help="Maximum requests per second for each API key; 0 for no limit.")
]
AccessLogOption = Annotated[bool, typer.Option("--access-log", help="Log every request.")]


def serve(
    store: StoreOption = SQLITE,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    insecure: InsecureOption = False,
    publish_every: PublishOption = 1.0,
    retention: RetentionOption = "7d",
    keep_versions: VersionsOption = 20,
    max_open: OpenOption = 100_000,
    max_documents: DocumentsOption = 1000,
    max_body: BodyOption = 8 << 20,
    max_requests: RequestsOption = 1000,
    rate: RateOption = 1000.0,
    access_log: AccessLogOption = False,
) -> None:
    """Serve rankers that learn from clicks, until Ctrl-C or SIGTERM."""
    need_extra()
    from duelrank.serving import Service, Settings
    from duelrank.serving.http import KeyRing, WebSettings, create_app
    from duelrank.serving.http.server import check_exposure, listen, run_server
    from duelrank.storage import open_storage

    logging.basicConfig(
        level=logging.INFO if access_log else logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    settings = Settings(
        publish_every=publish_every,
        retention=_seconds(retention),
        keep_versions=keep_versions,
        max_open=max_open,
        max_documents=max_documents,
    )
    web = WebSettings(max_body=max_body, max_requests=max_requests, rate=rate, insecure=insecure)
    with open_storage(store) as storage:
        keys = KeyRing(storage)
        check_exposure(host, keys, insecure)
        with listen(host, port) as listening:
            service = Service(storage, settings)
            _announce(_address(host, listening.getsockname()[1]), store, keys, insecure)
            app = create_app(service, keys, web)
            run_server(app, service, listening, lambda: _ready(service), access_log)
    tell("stopped; everything is saved")


def _seconds(text: str) -> float:
    """Return the number of seconds in 7d, 12h, 30m, 90s or a plain number."""
    from duelrank.errors import InvalidValue

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if not found:
        raise InvalidValue(f"a time must be like 7d, 12h, 30m or 90s, got {text!r}")
    return float(found[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[found[2]]


def _announce(address: str, store: str, keys: KeyRing, insecure: bool) -> None:
    from duelrank import __version__
    from duelrank.storage.opening import without_password

    tell(f"duelrank {__version__} listens on {address} (Ctrl-C to stop); API documentation: {address}/docs")
    tell(
        f"store: {without_password(store)}"
        + (", in memory: lost when the service stops" if store == "sqlite://" else "")
    )
    if keys.in_force:
        tell("requests need an API key (duelrank keys list)")
    elif insecure:
        tell("no API keys, and --insecure: everyone who can reach this address can use and change the rankers")
    else:
        tell("no API keys: only requests from this machine are accepted (duelrank keys create)")


def _ready(service: Service) -> None:
    names = [info.name for info in service.rankers()]
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    tell(f"ready: {len(names)} ranker{'' if len(names) == 1 else 's'}" + (f" ({shown})" if names else ""))


def _address(host: str, port: int) -> str:
    return f"http://[{host.strip('[]')}]:{port}" if ":" in host else f"http://{host}:{port}"


def need_extra(module: str = "duelrank.serving.http.server") -> None:
    """Raise `MissingExtra` if a module of the service cannot be imported."""
    from duelrank.errors import MissingExtra

    try:
        import_module(module)
    except ImportError as error:
        raise MissingExtra(f"the service needs additional packages: pip install 'duelrank[serve]' ({error})") from None
