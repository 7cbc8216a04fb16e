"""The two clients: `Client` blocks until each answer is there, `AsyncClient` awaits it; both make the same `calls`.

httpx and asyncio are imported by the functions that need them, because importing them takes longer than all the rest.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from duelrank.client import calls
from duelrank.client.protocol import Call, Outcome
from duelrank.core.errors import InvalidValue
from duelrank.core.validation import whole_number

if TYPE_CHECKING:
    import httpx

__all__ = ["AsyncClient", "Client"]

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])


def _presented(method: C, build: Callable[..., Any]) -> C:
    """Give a method the name, the docstring and the parameters of the call that it makes."""
    functools.update_wrapper(method, build)
    own = inspect.signature(build)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    answer = str(own.return_annotation).removeprefix("Call[").removesuffix("]")
    method.__signature__ = own.replace(parameters=[this, *own.parameters.values()], return_annotation=answer)  # type: ignore[attr-defined]
    return method


def _blocking(build: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    return _presented(method, build)


def _awaiting(build: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    return _presented(method, build)


def _options(base_url: str, api_key: str | None, timeout: float | None, retries: int) -> dict[str, Any]:
    """Check the arguments of a client, and return those of the client of httpx."""
    import httpx

    whole_number("retries", retries, least=0)
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidValue(f"the address of the service is not valid: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidValue(f"the address of the service must be like http://127.0.0.1:8000, got {base_url!r}")
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key and api_key):
        raise InvalidValue("an API key must be one word of ASCII letters, digits and signs")  # the key is never shown
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    return {"base_url": url, "headers": headers, "timeout": timeout}


class Client:
    """Calls a duelrank service, and blocks until the answer is there. Threads may share one client.

    Connection errors and the statuses 429, 502, 503 and 504 are retried, after growing pauses and no earlier than Retry-After
    says. This is safe: an impression keeps its id over all attempts, and an event counts once, by its event id or by its
    content. A refusal raises `ServiceError`, a missing answer `ServiceUnreachable`.

    Parameters
    ----------
    base_url
        Address of the service, such as ``"http://127.0.0.1:8000"``.
    api_key
        As ``duelrank keys create`` printed it; not needed if the service runs without keys.
    timeout
        Seconds for each step of one attempt: connecting, sending, waiting for the answer. None waits for ever.
        Creating and deleting a ranker wait for a minute at least.
    retries
        Number of attempts after the first one.
    transport
        Transport of httpx that replaces the network, for tests.

    Examples
    --------
    >>> from duelrank.client import Client
    >>> answer = {"impression_id": "i1", "model_version": 17, "ranking": [{"id": "d7", "position": 1}]}
    >>> import httpx  # in place of a real service, for this example
    >>> service = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))
    >>> with Client("http://127.0.0.1:8000", transport=service) as client:
    ...     shown = client.rank("shop", {"d6": [0.1, 3.0], "d7": [0.9, 1.0]}, impression_id="i1")
    >>> shown.ids, shown.model_version
    (['d7'], 17)
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float | None = 10.0,
        retries: int = 4,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        import httpx

        self._http = httpx.Client(**_options(base_url, api_key, timeout, retries), transport=transport)
        self._retries = retries

    health = _blocking(calls.health)
    ready = _blocking(calls.ready)
    create_ranker = _blocking(calls.create_ranker)
    change_ranker = _blocking(calls.change_ranker)
    delete_ranker = _blocking(calls.delete_ranker)
    rankers = _blocking(calls.rankers)
    ranker = _blocking(calls.ranker)
    guard = _blocking(calls.guard)
    rank = _blocking(calls.rank)
    feedback = _blocking(calls.feedback)
    backfill = _blocking(calls.backfill)
    close_impression = _blocking(calls.close_impression)
    model = _blocking(calls.model)
    curves = _blocking(calls.curves)
    last_step = _blocking(calls.last_step)
    history = _blocking(calls.history)
    versions = _blocking(calls.versions)
    freeze = _blocking(calls.freeze)
    resume = _blocking(calls.resume)
    rollback = _blocking(calls.rollback)
    label = _blocking(calls.label)
    pin = _blocking(calls.pin)
    unpin = _blocking(calls.unpin)
    export = _blocking(calls.export)

    def send(self, call: Call[T]) -> T:
        """Make a call, retry it where that may help, and return its result."""
        for attempt in itertools.count():
            outcome = self._attempt(call)
            wait = call.next_pause(outcome, attempt, self._retries)
            if wait is None:
                return call.result(outcome, attempt)
            time.sleep(wait)
        raise AssertionError("counting never ends")

    def _attempt(self, call: Call[T]) -> Outcome:
        from httpx import RequestError

        try:
            return self._http.send(call.request(self._http))
        except RequestError as error:
            return error

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """Calls a duelrank service from coroutines; otherwise a `Client`, with the same parameters and methods.

    Examples
    --------
    >>> import asyncio, httpx
    >>> from duelrank.client import AsyncClient, FeedbackEvent
    >>> counts = {"accepted": 1, "duplicate": 0, "unknown": 0, "expired": 0, "invalid": []}
    >>> service = httpx.MockTransport(lambda request: httpx.Response(200, json=counts))  # in place of a real one
    >>> async def click():
    ...     async with AsyncClient("http://127.0.0.1:8000", transport=service) as client:
    ...         return await client.feedback("shop", FeedbackEvent("i1", clicks=["d7"], close=True))
    >>> asyncio.run(click()).accepted
    1
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float | None = 10.0,
        retries: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        import httpx

        self._http = httpx.AsyncClient(**_options(base_url, api_key, timeout, retries), transport=transport)
        self._retries = retries

    health = _awaiting(calls.health)
    ready = _awaiting(calls.ready)
    create_ranker = _awaiting(calls.create_ranker)
    change_ranker = _awaiting(calls.change_ranker)
    delete_ranker = _awaiting(calls.delete_ranker)
    rankers = _awaiting(calls.rankers)
    ranker = _awaiting(calls.ranker)
    guard = _awaiting(calls.guard)
    rank = _awaiting(calls.rank)
    feedback = _awaiting(calls.feedback)
    backfill = _awaiting(calls.backfill)
    close_impression = _awaiting(calls.close_impression)
    model = _awaiting(calls.model)
    curves = _awaiting(calls.curves)
    last_step = _awaiting(calls.last_step)
    history = _awaiting(calls.history)
    versions = _awaiting(calls.versions)
    freeze = _awaiting(calls.freeze)
    resume = _awaiting(calls.resume)
    rollback = _awaiting(calls.rollback)
    label = _awaiting(calls.label)
    pin = _awaiting(calls.pin)
    unpin = _awaiting(calls.unpin)
    export = _awaiting(calls.export)

    async def send(self, call: Call[T]) -> T:
        """Make a call, retry it where that may help, and return its result."""
        import asyncio

        for attempt in itertools.count():
            outcome = await self._attempt(call)
            wait = call.next_pause(outcome, attempt, self._retries)
            if wait is None:
                return call.result(outcome, attempt)
            await asyncio.sleep(wait)
        raise AssertionError("counting never ends")

    async def _attempt(self, call: Call[T]) -> Outcome:
        from httpx import RequestError

        try:
            return await self._http.send(call.request(self._http))
        except RequestError as error:
            return error

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
