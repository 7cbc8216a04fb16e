"""The way to a Dask scheduler, and in clear words why there is none."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from duelrank.errors import DuelrankError, InvalidValue, MissingExtra, UnreachableScheduler

__all__ = ["connect"]

_ADDRESS = re.compile(r"([a-z]+://)?([^\s/:\[\]]+|\[[0-9a-fA-F:.%]+\]):\d{1,5}/?")
_SECONDS = 8.0


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Yield a client of a scheduler, or raise where there is no such thing at the address."""
    if not _ADDRESS.fullmatch(address):
        raise InvalidValue(f"a scheduler's address is like tcp://host:8786, got {address!r}")
    distributed = _distributed()
    try:
        # Asked first without a client: one that does not get its answer goes on complaining in the background.
        with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop of its own, as in a notebook
            kind = thread.submit(asyncio.run, _ask(address)).result()
        if kind != "Scheduler":
            raise UnreachableScheduler(f"at {address} there is a Dask {kind.lower()}, not a scheduler")
        client = distributed.Client(address, timeout=_SECONDS, set_as_default=False)
    except DuelrankError:
        raise
    except Exception as error:  # whatever may answer at a wrong address
        raise UnreachableScheduler(
            f"no Dask scheduler answers at {address} ({_reason(error)}); check that `dask scheduler` is running, that "
            "this is the address which it shows, and that no firewall is between"
        ) from error
    with _quiet(), client:
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the client from writing tracebacks of what is raised here in one sentence."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


async def _ask(address: str) -> str:
    """Return what kind of Dask server is there."""
    from distributed import Security, rpc

    arguments = Security().get_connection_args("client")
    async with rpc(address, connection_args=arguments, timeout=_SECONDS) as server:
        answer = await asyncio.wait_for(server.identity(), _SECONDS)
    return str(answer["type"])


def _reason(error: BaseException) -> str:
    """Return the words of the innermost cause that has any, such as "connection refused"."""
    words = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        words = str(cause).strip() or words
        cause = cause.__cause__
    return words.splitlines()[0]


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingExtra("a scheduler needs Dask: pip install 'duelrank[cluster]'") from None
    return distributed
