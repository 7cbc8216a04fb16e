"""One call over HTTP: its request, its retries, and the reading of its answer. Nothing in this module does any I/O."""

from __future__ import annotations

import math
import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

from duelrank.core.decoding import json_decoder
from duelrank.core.errors import DataFormatError, DuelrankError, InvalidValue

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

#: A value of a query string, which may be repeated.
QueryValue = str | float | bool | list[str]
#: The result of one attempt: a response of any status, or the error of a connection.
Outcome: TypeAlias = "httpx.Response | httpx.RequestError"

JSON = "application/json"
MESSAGEPACK = "application/msgpack"

#: Statuses of a service, or of a proxy in front of it, that is busy, starting or stopping.
BUSY = frozenset({429, 502, 503, 504})
#: Names of the errors of httpx that a retry cannot repair.
FINAL = frozenset({"UnsupportedProtocol", "LocalProtocolError", "ProxyError"})
#: Mean of the first pause between two attempts, and the longest pause, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0


class ServiceError(DuelrankError, RuntimeError):
    """The service answered with an error; its parts are those of RFC 9457.

    Parameters
    ----------
    status
        HTTP status, such as 404 or 422.
    title
        Kind of the problem, in a few words.
    detail
        Description of this occurrence, in a sentence.
    request_id
        Id of the request in the log of the service, if the service sent one.
    retry_after
        Seconds after which the service asks the client to try again, if it sent them.
    """

    def __init__(
        self, status: int, title: str, detail: str = "", request_id: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(status, title, detail, request_id, retry_after)
        self.status = status
        self.title = title
        self.detail = detail
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.status} {self.title}" + (f": {self.detail}" if self.detail else "")


class ServiceUnreachable(DuelrankError, ConnectionError):
    """No answer arrived, after all retries. It is unknown whether the service executed the call; repeating it is safe."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def new_id() -> str:
    """Return a unique id."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call of the service.

    Parameters
    ----------
    method, path, query, body, content_type
        Parts of the request.
    read
        Function that makes the result from the response.
    answers
        Statuses of a successful answer; all others are errors.
    retried_answers
        Statuses that are also successful after a retry, because an earlier attempt may have succeeded without an answer.
    patience
        Least number of seconds to wait for the response, for calls that take long.
    id
        Value of X-Request-ID for every attempt, which is in the log of the service.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: bytes | None = None
    content_type: str = JSON
    query: Mapping[str, QueryValue] = field(default_factory=dict)
    answers: range | tuple[int, ...] = range(200, 300)
    retried_answers: tuple[int, ...] = ()
    patience: float = 0.0
    id: str = field(default_factory=new_id)

    def request(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request of one attempt, for a client of httpx."""
        from httpx import Timeout

        headers = {"X-Request-ID": self.id} | ({} if self.body is None else {"Content-Type": self.content_type})
        usual = client.timeout
        read = None if usual.read is None else max(usual.read, self.patience)
        timeout = Timeout(connect=usual.connect, read=read, write=usual.write, pool=usual.pool)
        return client.build_request(
            self.method, self.path, params=self.query, content=self.body, headers=headers, timeout=timeout
        )

    def next_pause(self, outcome: Outcome, attempt: int, retries: int) -> float | None:
        """Return the seconds to wait before the next attempt, or None if this outcome is final."""
        return None if self._is_answer(outcome, attempt) else pause(outcome, attempt, retries)

    def result(self, outcome: Outcome, attempt: int = 0) -> T:
        """Return the result of the call, or raise its error."""
        if isinstance(outcome, Exception):
            text = str(outcome) or type(outcome).__name__
            raise ServiceUnreachable(f"no answer to {self.method} {self.path}: {text}") from outcome
        if not self._is_answer(outcome, attempt):
            raise _service_error(outcome)
        return self.read(outcome)

    def _is_answer(self, outcome: Outcome, attempt: int) -> bool:
        if isinstance(outcome, Exception):
            return False
        return outcome.status_code in self.answers or (attempt > 0 and outcome.status_code in self.retried_answers)


def pause(outcome: Outcome, attempt: int, retries: int) -> float | None:
    """Return the seconds to wait after a failed attempt, or None if there should be no other attempt.

    The pause doubles with each attempt and is random between 0 and twice its mean, so that clients that failed together
    do not retry together. No retry is earlier than Retry-After; if that is later than the longest pause, there is no retry.
    """
    if attempt >= retries or type(outcome).__name__ in FINAL:
        return None
    backoff = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (attempt + 1)) * secrets.SystemRandom().random()
    if isinstance(outcome, Exception):
        return backoff
    if outcome.status_code not in BUSY:
        return None
    asked = _retry_after(outcome) or 0.0
    return None if asked > LONGEST_PAUSE else asked + backoff


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of the header Retry-After, which is a number or a date."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def encode(content: Any, content_type: str = JSON) -> bytes:
    """Return a body as JSON or MessagePack, or raise an error if a part of it cannot be sent."""
    try:
        if content_type == MESSAGEPACK:
            return msgspec.msgpack.encode(content, enc_hook=_plain)
        body = msgspec.json.encode(content, enc_hook=_plain)
        if b"null" in body:  # msgspec writes NaN and infinity as null
            _check_numbers(msgspec.to_builtins(content, enc_hook=_plain))
        return body
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValue(f"this cannot be sent to the service: {error}") from None


def _check_numbers(content: Any, feature: bool = False) -> None:
    """Raise if a number is infinite, or NaN and not the value of a feature, where null says that it is missing."""
    if isinstance(content, dict):
        for name, value in content.items():
            _check_numbers(value, feature or name == "features")
    elif isinstance(content, list | tuple):
        for value in content:
            _check_numbers(value, feature)
    elif isinstance(content, float) and not (math.isfinite(content) or (feature and math.isnan(content))):
        raise ValueError(f"{content} is not a number of JSON")


def _plain(value: Any) -> Any:
    """Convert arrays and numbers of NumPy to lists and numbers, other mappings to objects, other iterables to arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"a value of type {type(value).__name__} is neither a number, a text, an array nor an object")


_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = cache(json_decoder)


def answer(kind: type[T]) -> Callable[[httpx.Response], T]:
    """Return a function that reads the JSON of a response; fields that this version does not know are ignored."""

    def read(response: httpx.Response) -> T:
        try:
            decoded: T = _decoder(kind).decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataFormatError(
                f"the answer to {response.request.url} is not that of a duelrank service: {error}"
            ) from None
        return decoded

    return read


def _service_error(response: httpx.Response) -> ServiceError:
    """Make an error from a problem+json response, or from any other response, such as that of a proxy."""
    title, detail, request_id = response.reason_phrase or "error", "", response.headers.get("X-Request-ID", "")
    if response.headers.get("Content-Type", "").partition(";")[0].strip().endswith("json"):
        try:
            content = msgspec.json.decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            content = None
        if isinstance(content, dict):
            title, detail = str(content.get("title", title)), str(content.get("detail", ""))
    return ServiceError(response.status_code, title, detail, request_id, _retry_after(response))
