"""Defines the options that several commands share, checks files to write, and splits comma-separated option values."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import typer

if TYPE_CHECKING:
    from duelrank.storage import Storage


def algorithm_names(incomplete: str) -> list[str]:
    """Return the short names of algorithms that begin like this, for shells that complete."""
    from duelrank.algorithms import Algorithm
    from duelrank.core.registry import aliases

    return [name for name in aliases(Algorithm) if name.startswith(incomplete)]


JsonOption = Annotated[bool, typer.Option("--json", help="Write the result to stdout as JSON.")]
DatasetOption = Annotated[
    str,
    typer.Option(
        "--dataset", "-d", help="Name of a data set (see duelrank list datasets), or path of a LETOR file: ./file.txt."
    ),
]
ImpressionsOption = Annotated[int, typer.Option("--impressions", "-n", help="Number of result lists shown to users.")]
LengthOption = Annotated[int, typer.Option("--length", help="Number of documents per result list.")]
USERS = "perfect,navigational,informational"
UsersOption = Annotated[str, typer.Option("--users", "-u", help="Simulated user models, separated by commas.")]
MetricOption = Annotated[str, typer.Option("--metric", help="Evaluation metric (see duelrank list metrics).")]


class DeviceChoice(StrEnum):
    """Where runs are made."""

    cpu = "cpu"
    gpu = "gpu"
    lockstep = "lockstep"


DeviceOption = Annotated[
    DeviceChoice,
    typer.Option(
        "--device",
        help="Where to make the runs: cpu; gpu, all runs at once on an accelerator; lockstep, the same on what JAX finds.",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", "-w", help="Worker processes; one per CPU by default.", show_default=False),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Run on the workers of this Dask scheduler: tcp://host:8786."),
]
SplitOption = Annotated[str, typer.Option("--split", help="Queries to evaluate the weights on: test or validation.")]
StoreArgument = Annotated[
    str | None,
    typer.Argument(metavar="STORE", help="File or address of the store, instead of --store."),
]


def check_file(path: Path) -> None:
    """Raise an error if a file cannot be written to the path, before any work is done."""
    from duelrank.core.errors import InvalidValue, MissingData

    if path.name.startswith("-"):
        raise InvalidValue(f"the name of a file is missing before {path}; to write to it, give ./{path}")
    if not path.absolute().parent.is_dir():
        raise MissingData(f"cannot write {path.name}: the folder {path.absolute().parent} does not exist")
    if path.is_dir():
        raise InvalidValue(f"cannot write {path}: it is a folder")


def opened_store(store: str, read_only: bool = False) -> Storage:
    """Open a store that exists, by its file or address."""
    from duelrank.core.errors import MissingData
    from duelrank.storage import open_storage

    address = store_address(store)
    if address.startswith("sqlite:///"):
        path = unquote(address.removeprefix("sqlite:///"))
        if not Path(path).exists():  # opening it would create it
            raise MissingData(f"the store {path} does not exist")
    return open_storage(address, read_only)


def store_address(store: str) -> str:
    """Return the address of a store, which may be given as a plain file."""
    if (
        not store or "://" in store or re.match(r"[a-z]{2,}:", store)
    ):  # the last is an attempt at an address; C: is a disk
        return store
    return "sqlite:///" + store.replace("%", "%25")
