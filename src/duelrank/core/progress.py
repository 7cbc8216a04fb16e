"""Shows progress: as a bar on terminals and in notebooks, as an occasional line of text elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn


#: Called with the amount done and the total amount, or None if the total is not known.
ProgressCallback = Callable[[int, int | None], None]

_SECONDS = 15.0  # seconds between two lines if there is no bar


@contextmanager
def spinner(label: str) -> Iterator[None]:
    """Show that work of unknown length is in progress."""
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    with _progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress:
        progress.add_task(label, total=None)
        yield


@contextmanager
def count_bar(label: str) -> Iterator[ProgressCallback]:
    """Show (done, total) as a bar with the rate and the remaining time."""
    from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (MofNCompleteColumn(), _rate_column(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with _bar(label, *columns) as update:
        yield update


@contextmanager
def bytes_bar(label: str) -> Iterator[ProgressCallback]:
    """Show (bytes done, total bytes) as a bar with the remaining time."""
    from rich.progress import DownloadColumn, TimeRemainingColumn

    with _bar(label, DownloadColumn(), TimeRemainingColumn()) as update:
        yield update


def _rate_column() -> ProgressColumn:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Rate(ProgressColumn):
        """The rate per second, or per minute if it is below one per second."""

        def render(self, task: Task) -> Text:
            """Show the recent rate."""
            return Text(_rate(task.speed) if task.speed else "", style="dim")

    return Rate()


def _rate(per_second: float) -> str:
    return f"{per_second:,.1f}/s" if per_second >= 1.0 else f"{60.0 * per_second:,.1f}/min"


@contextmanager
def _bar(label: str, *columns: ProgressColumn) -> Iterator[ProgressCallback]:
    from rich.progress import BarColumn, TextColumn

    with _progress(TextColumn("{task.description}"), BarColumn(), *columns) as progress:
        if progress.disable:
            yield _lines(progress.console, label)
        else:
            task = progress.add_task(label, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)


def _lines(console: Console, label: str) -> ProgressCallback:
    """Return a progress function that writes a line from time to time."""
    started = written = monotonic()
    first: tuple[float, int] | None = None

    def update(done: int, total: int | None) -> None:
        nonlocal written, first
        now = monotonic()
        if first is None and done:  # the time before the first result, such as for compiling, is no part of the rate
            first = now, done
        if now - written < _SECONDS or done == total:
            return
        written = now
        since, before = first if first is not None and done > first[1] else (started, 0)
        rate = (done - before) / (now - since)
        left = f", about {_time((total - done) / rate)} left" if total and before else ""
        text = f"{label}: {done:,} of {total:,}" if total else f"{label}: {done:,}"
        console.print(f"{text}, {_rate(rate)}{left}", highlight=False, markup=False, soft_wrap=True)

    return update


def _time(seconds: float) -> str:
    return f"{seconds / 60:,.0f} min" if seconds > 100 else f"{seconds:.0f} s"


def _progress(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    # In a notebook rich's bars are widgets; without those, lines go to stderr as anywhere else.
    console = Console(stderr=True, force_jupyter=None if find_spec("ipywidgets") else False)
    shown = console.is_jupyter or console.is_terminal
    return Progress(*columns, console=console, transient=True, disable=not shown)
