"""Where output goes: results to stdout, everything else to stderr; bars only where a person is watching."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

__all__ = ["bytes_bar", "complain", "count_bar", "out", "print_json", "spinner", "tell"]

Tell = Callable[[int, int | None], None]


def out() -> Console:
    """Return the console for results."""
    return Console(highlight=False)


def print_json(value: Any) -> None:
    """Write a value to stdout as JSON and nothing else."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def complain(message: str) -> None:
    """Write one red line to stderr."""
    Console(stderr=True, highlight=False).print(Text(" ".join(message.split()), style="red"), soft_wrap=True)


def tell(message: str) -> None:
    """Write one line to stderr."""
    Console(stderr=True, highlight=False).print(Text(message), soft_wrap=True)


@contextmanager
def spinner(label: str) -> Iterator[None]:
    """Turn while something of unknown length goes on."""
    with _progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress:
        progress.add_task(label, total=None)
        yield


@contextmanager
def count_bar(label: str) -> Iterator[Tell]:
    """Show (done, total) as a bar with the rate and the time that is left."""
    columns = (MofNCompleteColumn(), _Rate(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with _bar(label, *columns) as tell:
        yield tell


class _Rate(ProgressColumn):
    """How many are done in a second, or in a minute where that is less than one."""

    def render(self, task: Task) -> Text:
        """Show the rate of late."""
        if not task.speed:
            return Text("")
        per_second = task.speed >= 1.0
        return Text(
            f"{task.speed if per_second else 60.0 * task.speed:,.1f}/{'s' if per_second else 'min'}", style="dim"
        )


@contextmanager
def bytes_bar(label: str) -> Iterator[Tell]:
    """Show (bytes done, bytes in all) as a bar with the time that is left."""
    with _bar(label, DownloadColumn(), TimeRemainingColumn()) as tell:
        yield tell


@contextmanager
def _bar(label: str, *columns: ProgressColumn) -> Iterator[Tell]:
    with _progress(TextColumn("{task.description}"), BarColumn(), *columns) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _progress(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
