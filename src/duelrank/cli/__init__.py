"""The command line: each module parses the options of a command or a group, calls the library and prints the result."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from duelrank.cli import (
    backfill,
    compare,
    compile,
    data,
    evaluate,
    experiment,
    export,
    guard,
    info,
    listing,
    memory,
    play,
    rankers,
    reproduce,
    run,
    serve,
    store,
    tune,
)
from duelrank.cli.console import print_error, print_note
from duelrank.core.errors import DuelrankError, StorageFailure

__all__ = ["app", "main"]


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Report a `DuelrankError`, or Ctrl-C, in one line and exit with a status code."""
    try:
        yield
    except DuelrankError as error:
        print_error(f"error: {error}")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        print_error("interrupted")
        raise typer.Exit(130) from None


def _with_plain_types(command: Any, ctx: Any) -> Any:
    """Describe the values of options in the help of a command and of its subcommands: flags have none, lists are texts."""
    for each in (*command.params, command.get_help_option(ctx)):
        if getattr(each, "is_flag", False):
            each.metavar = ""
        elif getattr(each, "multiple", False):
            each.metavar = each.metavar or "TEXT"
    for each in getattr(command, "commands", {}).values():
        _with_plain_types(each, ctx)
    return command


class _Commands(TyperGroup):
    """The commands of this package, and those that a file given with ``--load`` has added to `app`."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:  # the class of contexts depends on the version of typer
        installs = "--install-completion" in args  # typer writes into the user's home
        with _errors_in_one_line():
            try:
                return super().parse_args(ctx, args)
            except OSError as error:
                if not installs or isinstance(error, DuelrankError):
                    raise
                raise StorageFailure(f"could not write {error.filename}: {error.strerror or error}") from None

    def invoke(self, ctx: Any) -> Any:
        with _errors_in_one_line():
            return super().invoke(ctx)

    def get_params(self, ctx: Any) -> Any:
        return _with_plain_types(self, ctx) and super().get_params(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name) or get_group(app).commands.get(cmd_name)
        return found and _with_plain_types(found, ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*super().list_commands(ctx), *get_group(app).commands]))


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
)


class _StderrHandler(logging.Handler):
    """Writes each log message of the library to stderr, as one line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        print_note(record.getMessage())


_stderr_handler = _StderrHandler()


def _announce_waiting() -> None:
    """Log to stderr why the user has to wait: compiling kernels, or a cluster without workers."""
    for name in ("duelrank.core.compiling", "duelrank.experiments"):
        log = logging.getLogger(name)
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(_stderr_handler)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(info.versions())
        raise typer.Exit


def _load(paths: list[Path] | None) -> list[Path] | None:
    """Load the files before the command is looked up, because a file may define the command."""
    if paths:
        from duelrank.core.extensions import VARIABLE, load_extension

        for path in paths:
            load_extension(path)
        os.environ[VARIABLE] = os.pathsep.join(str(path.absolute()) for path in paths)
    return paths


@app.callback()
def _global(
    load: Annotated[
        list[Path] | None,
        typer.Option(
            "--load",
            metavar="FILE.py",
            envvar="DUELRANK_LOAD",
            callback=_load,
            is_eager=True,
            help="Load a Python file that registers additional parts or commands.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit; see also duelrank info."
        ),
    ] = False,
) -> None:
    """Train search rankers online from user clicks, in simulation or as a service."""
    _announce_waiting()


app.command("list")(listing.list_parts)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("reproduce")(reproduce.reproduce)
app.command("tune")(tune.tune)
app.command("export", cls=export.ExportCommand)(export.export)
app.command("serve")(serve.serve)
app.command("play")(play.play)
app.command("dashboard")(serve.dashboard)
app.command("guard")(guard.guard)
app.command("replay")(store.replay)
app.command("backfill")(backfill.backfill)
app.command("evaluate")(evaluate.evaluate)
app.command("memory")(memory.memory)
app.command("forget")(memory.forget)
app.command("info")(info.info)
app.command("compile")(compile.compile_)
app.add_typer(data.app, name="data")
app.add_typer(store.keys, name="keys")
app.add_typer(rankers.app, name="rankers")
app.add_typer(experiment.app, name="experiment")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a character that the terminal lacks is shown as "?"
    app()
