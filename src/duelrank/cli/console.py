"""Output of the command line: results go to stdout, notes and errors to stderr."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import typer
from rich.console import Console
from rich.text import Text


def out() -> Console:
    """Return the console for results."""
    return Console(highlight=False)


def print_json(value: Any) -> None:
    """Write a value to stdout as JSON and nothing else."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_error(message: str) -> None:
    """Write one red line to stderr."""
    Console(stderr=True, highlight=False).print(Text(" ".join(message.split()), style="red"), soft_wrap=True)


def print_note(message: str) -> None:
    """Write one line to stderr."""
    Console(stderr=True, highlight=False).print(Text(message), soft_wrap=True)


def local_time(seconds: float) -> str:
    """Return a time, in seconds since 1970, in the local time zone."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"
