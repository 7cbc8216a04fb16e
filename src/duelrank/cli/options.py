"""Defines the options that several commands share, checks files to write, opens stores, and connects to services."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import typer

if TYPE_CHECKING:
    from duelrank.client import Client
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
        metavar="DEVICE",
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


class RewardChoice(StrEnum):
    """What a list is worth."""

    clicks = "clicks"
    first = "first"
    actions = "actions"


RewardOption = Annotated[
    RewardChoice,
    typer.Option(
        "--reward",
        metavar="REWARD",
        help="What a list is worth: clicks, the number of clicked documents; first, 1 / position of the first click; or actions, "
        "their weights.",
    ),
]
BiasOption = Annotated[
    float | None,
    typer.Option(
        "--bias",
        metavar="ETA",
        help="P(position k is seen) = k^-ETA, if it is known; 0 if users see everything. Needed for logs of another system.",
    ),
]
SplitOption = Annotated[str, typer.Option("--split", help="Queries to evaluate the weights on: test or validation.")]


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
    from duelrank.core.errors import InvalidValue, MissingData
    from duelrank.storage import open_storage

    address = store_address(store)
    if is_service(address):
        raise InvalidValue(
            f"{store} is the address of a service, but this command reads its store: give that with --store"
        )
    if address.startswith("sqlite:///"):
        path = unquote(address.removeprefix("sqlite:///"))
        if not Path(path).exists():  # opening it would create it
            raise MissingData(f"the store {path} does not exist")
    return open_storage(address, read_only)


def is_service(address: str) -> bool:
    """Return whether an address is that of a service, not of a store."""
    return address.startswith(("http://", "https://"))


def store_address(store: str) -> str:
    """Return the address of a store, which may be given as a plain file."""
    if (
        not store or "://" in store or re.match(r"[a-z]{2,}:", store)
    ):  # the last is an attempt at an address; C: is a disk
        return store
    return "sqlite:///" + store.replace("%", "%25")


# The addresses of a service and of a store: the same options in all commands

URL = "http://127.0.0.1:8000"
SQLITE = "sqlite:///duelrank.db"

UrlOption = Annotated[str, typer.Option("--url", envvar="DUELRANK_URL", help="Address of the service.")]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="DUELRANK_API_KEY",
        help="API key; safer as an environment variable, which ps does not show.",
    ),
]
StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="DUELRANK_STORE",
        callback=store_address,
        help="File or address of the store: shop.db, sqlite:///shop.db or postgresql://USER@HOST/DATABASE.",
    ),
]
StoreArgument = Annotated[
    str | None,
    typer.Argument(metavar="STORE", help="File or address of the store, instead of --store."),
]


@contextmanager
def connect(url: str, api_key: str | None, retries: int = 1) -> Iterator[Client]:
    """Open a client; errors about the address or the key explain how to give another."""
    from duelrank.client import Client, ServiceError, ServiceUnreachable

    with Client(url, api_key, retries=retries) as client:
        try:
            yield client
        except ServiceUnreachable as error:
            how = "Give its address with --url or DUELRANK_URL"
            raise ServiceUnreachable(f"{error}; is a service running at {url}? {how}") from None
        except ServiceError as error:
            if error.status not in (401, 403):
                raise
            hint = "give a key of scope admin with --api-key or DUELRANK_API_KEY (duelrank keys create --scope admin)"
            raise ServiceError(error.status, error.title, f"{error.detail}; {hint}") from None
