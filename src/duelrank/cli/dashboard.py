"""``duelrank dashboard``: shows the rankers of a store on a page, without serving them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from duelrank.cli.browser import OpenOption, open_page
from duelrank.cli.options import StoreArgument, opened_store
from duelrank.cli.serve import SQLITE, HostOption, StoreOption, address_of, need_extra

if TYPE_CHECKING:
    from duelrank.service import Service

PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free port.")]
RankerOption = Annotated[str, typer.Option("--ranker", "-r", help="Show this ranker first.", show_default=False)]
NoKeysOption = Annotated[
    bool,
    typer.Option(
        "--without-keys",
        help="Answer this machine without an API key, although the store has keys: everybody who works on it can read.",
    ),
]


def dashboard(
    place: StoreArgument = None,
    store: StoreOption = SQLITE,
    ranker: RankerOption = "",
    host: HostOption = "127.0.0.1",
    port: PortOption = 8001,
    open: OpenOption = True,
    without_keys: NoKeysOption = False,
) -> None:
    """Show how the rankers of a store do and did, on a page; nothing is served, learned or written."""
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
            address = f"{address_of(host, listening.getsockname()[1])}/dashboard" + (
                f"/{quote(ranker)}" if ranker else ""
            )
            typer.echo(f"the dashboard is at {address} (Ctrl-C to stop); the store is only read")
            if keys.in_force:
                typer.echo("the store has API keys, so the page asks for one (or say --without-keys)")
            run_server(
                create_app(service, keys), service, listening, lambda: _ready(service, address if open else None)
            )


def _ready(service: Service, address: str | None) -> None:
    names = [info.name for info in service.rankers()]
    typer.echo(f"ready: {len(names)} ranker{'' if len(names) == 1 else 's'}")
    if address is not None:
        open_page(address)
