"""Prints tables, and says how to resume after an interrupt: shared by ``compare``, ``reproduce`` and ``tune``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from duelrank.cli.console import out, print_error

if TYPE_CHECKING:
    from duelrank.experiments import Table


def command_line() -> str:
    """Return the command that this process was started with."""
    return shlex.join(["duelrank", *sys.argv[1:]])


@contextmanager
def resumable(folder: Path | None, kept: str = "runs") -> Iterator[None]:
    """After an interrupt, print what is kept and how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        lost = (
            "stopped; finished runs are lost. With --out FOLDER they are kept, and the same command resumes from there."
        )
        print_error(f"stopped; finished {kept} are kept in {folder}. To resume: {command_line()}" if folder else lost)
        raise


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables to the terminal."""
    from duelrank.experiments.tables import to_terminal

    console = out()
    for table in tables:
        console.print(to_terminal(table, console.width))
