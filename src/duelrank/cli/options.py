"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "DatasetOption",
    "ImpressionsOption",
    "JsonOption",
    "LengthOption",
    "MetricOption",
    "SchedulerOption",
    "SplitOption",
    "split_top_level",
]

JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON to stdout, for scripts.")]
DatasetOption = Annotated[
    str,
    typer.Option(
        "--dataset", "-d", help="A data set (duelrank list datasets shows all), or the path of LETOR text: ./file.txt."
    ),
]
ImpressionsOption = Annotated[int, typer.Option("--impressions", "-n", help="Number of lists that are shown to users.")]
LengthOption = Annotated[int, typer.Option("--length", help="Number of documents in a list.")]
MetricOption = Annotated[str, typer.Option("--metric", help="A metric; duelrank list metrics shows all.")]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Run on the workers of this Dask scheduler, tcp://host:8786."),
]
SplitOption = Annotated[str, typer.Option("--split", help="What the weights are measured on: test or validation.")]


def split_top_level(text: str) -> list[str]:
    """Split at the commas that are outside of all brackets and quotes, since recipes have commas of their own."""
    pieces, depth, quote = [""], 0, ""
    for letter in text:
        if letter == "," and not depth and not quote:
            pieces.append("")
            continue
        pieces[-1] += letter
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
    return [_unquoted(piece.strip()) for piece in pieces if piece.strip()]


def _unquoted(text: str) -> str:
    """What is between quotes: a name with commas of its own has to be given in them."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
