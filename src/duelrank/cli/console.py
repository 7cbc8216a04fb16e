"""Output of the command line: results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from duelrank.core.progress import bytes_bar, count_bar, spinner

__all__ = ["bytes_bar", "complain", "count_bar", "out", "print_json", "spinner", "tell"]


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
