"""The command line: one small module per command, each of which reads its options, calls a function and prints."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from duelrank.cli import bench, compare, data, export, keys, listing, replay, reproduce, run, serve
from duelrank.cli.console import complain
from duelrank.errors import DuelrankError

__all__ = ["app", "main"]


class _Plainly(TyperGroup):
    """Turns our own errors, and Ctrl-C, into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:  # older versions of typer have another class of contexts
        try:
            return super().invoke(ctx)
        except DuelrankError as error:
            complain(f"error: {error}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Plainly,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        from duelrank import __version__

        typer.echo(f"duelrank {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    load: Annotated[
        list[Path] | None,
        typer.Option(
            "--load", metavar="FILE.py", envvar="DUELRANK_LOAD", help="A file that registers parts of its own."
        ),
    ] = None,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Learn a search ranker from clicks, while it serves."""
    if load:
        from duelrank.experiments.run.extensions import VARIABLE, load_extension

        for path in load:
            load_extension(path)
        os.environ[VARIABLE] = os.pathsep.join(str(path.absolute()) for path in load)


app.command("list")(listing.list_parts)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("reproduce")(reproduce.reproduce)
app.command("export")(export.export)
app.command("serve")(serve.serve)
app.command("replay")(replay.replay)
app.command("bench")(bench.bench)
app.add_typer(data.app, name="data")
app.add_typer(keys.app, name="keys")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows a question mark, no traceback
    app()
