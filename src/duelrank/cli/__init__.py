"""The command line: one small module per command, each of which reads its options, calls a function and prints."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from duelrank.cli import bench, compare, data, export, keys, listing, replay, reproduce, run, serve
from duelrank.cli.console import complain, tell
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


class _Told(logging.Handler):
    """Writes what the library logs as one line to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        tell(record.getMessage())


_told = _Told()


def _announce_compiling() -> None:
    """Say on stderr when kernels have to be compiled: whatever the command, nothing else is seen for some seconds."""
    log = logging.getLogger("duelrank.compiling")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(_told)


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
            "--load",
            metavar="FILE.py",
            envvar="DUELRANK_LOAD",
            help="Load a Python file that registers parts of its own.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Learn a search ranker from clicks, while it serves."""
    _announce_compiling()
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
