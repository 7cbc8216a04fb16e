"""The two clients: one waits for each answer, the other awaits it; both ask the same `calls`."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

try:
    import httpx
except ImportError:  # pragma: no cover
    from duelrank.errors import MissingExtra

    raise MissingExtra("duelrank.client needs httpx: pip install 'duelrank[client]'") from None

from duelrank.client import calls
from duelrank.client.retrying import Outcome, pause
from duelrank.client.wire import Call
from duelrank.errors import InvalidValue
from duelrank.validation import whole_number

__all__ = ["AsyncClient", "Client"]

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])


def _presented(method: C, build: Callable[..., Any]) -> C:
    """Give a method the name, the documentation and the parameters of the call that it makes."""
    functools.update_wrapper(method, build)
    own = inspect.signature(build)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    answer = str(own.return_annotation).removeprefix("Call[").removesuffix("]")
    method.__signature__ = own.replace(parameters=[this, *own.parameters.values()], return_annotation=answer)  # type: ignore[attr-defined]
    return method


def _waiting(build: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    return _presented(method, build)


def _awaiting(build: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    return _presented(method, build)


def _options(base_url: str, api_key: str | None, timeout: float | None, retries: int) -> dict[str, Any]:
    """Check what a client was given, and turn it into what httpx takes."""
    whole_number("retries", retries, least=0)
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidValue(f"the address of the service is wrong: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidValue(f"the address of the service is like http://127.0.0.1:8000, got {base_url!r}")
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key and api_key):
        raise InvalidValue("an API key is one word of ASCII letters, digits and signs; this one is not")  # never shown
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    return {"base_url": url, "headers": headers, "timeout": timeout}


class Client:
    """Asks a duelrank service, and waits for the answer. One client may be shared by many threads.

    Connection errors, 502, 503, 504 and 429 are tried again, after growing pauses and no earlier than Retry-After says.
    This is safe: a list keeps its impression id and an event its event id over all attempts, and the service does
    each only once. What is refused raises `ServiceError`, what stays without an answer `ServiceUnreachable`.

    Parameters
    ----------
    base_url
        Where the service is, such as ``"http://127.0.0.1:8000"``.
    api_key
        As ``duelrank keys create`` printed it; not needed where the service runs without keys.
    timeout
        Seconds for each step of one attempt: connecting, sending, waiting for the answer. None waits for ever.
    retries
        How often to try again, after the first attempt.
    transport
        Of httpx, in place of the network; for tests.

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
        self._http = httpx.Client(**_options(base_url, api_key, timeout, retries), transport=transport)
        self._retries = retries

    health = _waiting(calls.health)
    ready = _waiting(calls.ready)
    create_ranker = _waiting(calls.create_ranker)
    rankers = _waiting(calls.rankers)
    ranker = _waiting(calls.ranker)
    rank = _waiting(calls.rank)
    feedback = _waiting(calls.feedback)
    close_impression = _waiting(calls.close_impression)
    model = _waiting(calls.model)
    versions = _waiting(calls.versions)
    freeze = _waiting(calls.freeze)
    resume = _waiting(calls.resume)
    rollback = _waiting(calls.rollback)
    pin = _waiting(calls.pin)
    unpin = _waiting(calls.unpin)
    export = _waiting(calls.export)

    def send(self, call: Call[T]) -> T:
        """Ask, again where it may help, and read the answer."""
        for attempt in itertools.count():
            outcome = self._attempt(call)
            wait = None if call.is_answer(outcome) else pause(outcome, attempt, self._retries)
            if wait is None:
                return call.result(outcome)
            time.sleep(wait)
        raise AssertionError("counting never ends")

    def _attempt(self, call: Call[T]) -> Outcome:
        try:
            return self._http.request(
                call.method, call.path, params=call.query, content=call.body, headers=call.headers
            )
        except httpx.RequestError as error:
            return error

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """Asks a duelrank service from coroutines; otherwise a `Client`, with the same parameters and methods.

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
        self._http = httpx.AsyncClient(**_options(base_url, api_key, timeout, retries), transport=transport)
        self._retries = retries

    health = _awaiting(calls.health)
    ready = _awaiting(calls.ready)
    create_ranker = _awaiting(calls.create_ranker)
    rankers = _awaiting(calls.rankers)
    ranker = _awaiting(calls.ranker)
    rank = _awaiting(calls.rank)
    feedback = _awaiting(calls.feedback)
    close_impression = _awaiting(calls.close_impression)
    model = _awaiting(calls.model)
    versions = _awaiting(calls.versions)
    freeze = _awaiting(calls.freeze)
    resume = _awaiting(calls.resume)
    rollback = _awaiting(calls.rollback)
    pin = _awaiting(calls.pin)
    unpin = _awaiting(calls.unpin)
    export = _awaiting(calls.export)

    async def send(self, call: Call[T]) -> T:
        """Ask, again where it may help, and read the answer."""
        for attempt in itertools.count():
            outcome = await self._attempt(call)
            wait = None if call.is_answer(outcome) else pause(outcome, attempt, self._retries)
            if wait is None:
                return call.result(outcome)
            await asyncio.sleep(wait)
        raise AssertionError("counting never ends")

    async def _attempt(self, call: Call[T]) -> Outcome:
        try:
            return await self._http.request(
                call.method, call.path, params=call.query, content=call.body, headers=call.headers
            )
        except httpx.RequestError as error:
            return error

    async def close(self) -> None:
        """Let go of the connections; may be called twice."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
