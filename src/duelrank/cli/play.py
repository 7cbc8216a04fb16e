"""``duelrank play``: a search in a browser whose ranker learns from clicks."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from duelrank.cli.serve import OpenOption, PortOption, need_extra, open_page

if TYPE_CHECKING:
    from duelrank.playground import Search

AlgorithmOption = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        metavar="RECIPE",
        help="Algorithm that learns from your clicks; by default remember(strength=2) >> wmgd-dsp(delta=0.3).",
    ),
]
FirstOption = Annotated[
    str, typer.Option("--first", metavar="RECIPE", help="Algorithm that learns from simulated users, on the left.")
]
SecondOption = Annotated[
    str, typer.Option("--second", metavar="RECIPE", help="Algorithm that learns from simulated users, on the right.")
]


def play(
    port: PortOption = 8000,
    algorithm: AlgorithmOption = None,
    first: FirstOption = "mgd",
    second: SecondOption = "mgd-dsp",
    open: OpenOption = True,
) -> None:
    """Search Python's documentation and see a ranker learn from your clicks, until Ctrl-C; nothing is stored."""
    need_extra()
    from duelrank.playground.app import ALGORITHM, Playground, check_recipes
    from duelrank.playground.crowd import CrowdSettings
    from duelrank.service.http.server import listen, run_server
    from duelrank.service.http.telemetry import configure_logging
    from duelrank.storage import open_storage

    configure_logging("text", False)
    recipe, users = algorithm or ALGORITHM, CrowdSettings(algorithms=(first, second))
    check_recipes(recipe, users)
    with open_storage("sqlite://") as storage, listen("127.0.0.1", port) as listening:
        search = _indexed()
        playground = Playground(storage, search, recipe, users)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/play"
        run_server(playground.app, playground.service, listening, lambda: _ready(address, open))
        search.close()
    typer.echo("stopped; nothing was stored")


def _indexed() -> Search:
    from duelrank.playground import Search, read_library

    began = time.perf_counter()
    search = Search(read_library())
    took = time.perf_counter() - began
    version = ".".join(map(str, sys.version_info[:3]))
    typer.echo(f"{len(search.documents):,} docstrings of Python {version} read and indexed in {took:.1f} s")
    sys.stdout.flush()
    return search


def _ready(address: str, open: bool) -> None:
    typer.echo(f"the playground is at {address} (Ctrl-C to stop)")
    sys.stdout.flush()
    if open:
        open_page(address)
