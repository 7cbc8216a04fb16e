"""Connects to a Dask scheduler, and explains failed connections."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from duelrank.core.errors import DuelrankError, InvalidValue, MissingExtra, UnreachableScheduler

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy import Cluster

__all__ = ["Scheduler", "connect"]

#: An address, a client, or a cluster of any kind.
Scheduler: TypeAlias = "str | Client | Cluster"

_ADDRESS = re.compile(r"([a-z]+://)?([^\s/:\[\]]+|\[[0-9a-fA-F:.%]+\]):\d{1,5}/?")
_SECONDS = 8.0


@contextmanager
def connect(scheduler: Scheduler) -> Iterator[Any]:
    """Yield a client of a scheduler, or raise an error that explains why the connection failed; a given client stays open."""
    if isinstance(scheduler, str) and not _ADDRESS.fullmatch(scheduler):
        raise InvalidValue(f"the address of a scheduler must be like tcp://host:8786, got {scheduler!r}")
    distributed = _distributed()
    with _quiet(), _client(distributed, scheduler) as client:
        yield client


def _client(distributed: Any, scheduler: Scheduler) -> AbstractContextManager[Any]:
    if isinstance(scheduler, str):
        return _client_at(distributed, scheduler)
    if not isinstance(scheduler, (distributed.Client, distributed.deploy.Cluster)):
        raise InvalidValue(
            f"scheduler must be an address such as tcp://host:8786, a Dask Client or a Dask cluster, got {scheduler!r}"
        )
    if scheduler.asynchronous:
        raise InvalidValue(f"{scheduler!r} is asynchronous; make it with asynchronous=False")
    if scheduler.status in ("closed", "closing") or getattr(scheduler.status, "name", "") in ("closed", "closing"):
        raise UnreachableScheduler(f"{scheduler!r} is closed")
    if isinstance(scheduler, distributed.Client):
        return nullcontext(scheduler)
    client: AbstractContextManager[Any] = distributed.Client(scheduler, timeout=_SECONDS, set_as_default=False)
    return client


def _client_at(distributed: Any, address: str) -> AbstractContextManager[Any]:
    try:
        # Ask without a client first, because a client that gets no answer continues to log in the background.
        with ThreadPoolExecutor(1) as thread:  # this thread may already run an event loop, as in a notebook
            kind = thread.submit(asyncio.run, _ask(address)).result()
        if kind != "Scheduler":
            raise UnreachableScheduler(f"{address} is a Dask {kind.lower()}, not a scheduler")
        client: AbstractContextManager[Any] = distributed.Client(address, timeout=_SECONDS, set_as_default=False)
    except DuelrankError:
        raise
    except Exception as error:  # a wrong address may lead to any kind of server
        raise UnreachableScheduler(
            f"no Dask scheduler answers at {address} ({_reason(error)}); check that `dask scheduler` is running, that "
            "this is the address that it shows, and that no firewall blocks the connection"
        ) from error
    return client


@contextmanager
def _quiet() -> Iterator[None]:
    """Prevent the client from logging tracebacks of errors that are raised here."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


async def _ask(address: str) -> str:
    """Return the kind of Dask server at an address."""
    from distributed import Security, rpc

    arguments = Security().get_connection_args("client")
    async with rpc(address, connection_args=arguments, timeout=_SECONDS) as server:
        answer = await asyncio.wait_for(server.identity(), _SECONDS)
    return str(answer["type"])


def _reason(error: BaseException) -> str:
    """Return the message of the innermost cause that has one, such as "connection refused"."""
    message = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        message = str(cause).strip() or message
        cause = cause.__cause__
    return message.splitlines()[0]


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingExtra("running on a scheduler needs Dask: pip install 'duelrank[cluster]'") from None
    return distributed
