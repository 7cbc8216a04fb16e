"""One call over HTTP: what is sent, when it is sent again, and how the answer is read. Nothing here does any I/O."""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

from duelrank.client.errors import ServiceError, ServiceUnreachable
from duelrank.core.errors import DataFormatError, InvalidValue
from duelrank.decoding import json_decoder

__all__ = [
    "JSON",
    "MESSAGEPACK",
    "Call",
    "Outcome",
    "Value",
    "answer",
    "encode_json",
    "encode_messagepack",
    "new_id",
    "pause",
]

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

#: A value of a query string, which may be repeated.
Value = str | float | bool | list[str]
#: The result of one attempt: a response of any status, or the error of a connection.
Outcome: TypeAlias = "httpx.Response | httpx.RequestError"

JSON = "application/json"
MESSAGEPACK = "application/msgpack"

#: Statuses of a service, or of a proxy before it, that is busy, starting or stopping.
BUSY = frozenset({429, 502, 503, 504})
#: Names of the errors of httpx that a retry cannot repair.
FINAL = frozenset({"UnsupportedProtocol", "LocalProtocolError", "ProxyError"})
#: Seconds: the mean of the first pause between two attempts, and the longest pause.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0


def new_id() -> str:
    """Return an id that is used nowhere else."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call of the service.

    Parameters
    ----------
    method, path, query, body, content_type
        The request.
    read
        Makes the result from the response.
    answers
        Statuses that are an answer; all others are errors.
    retried_answers
        Statuses that are an answer too if they come after a retry: the attempt before may have succeeded unheard.
    patience
        Seconds to wait for the response at least, where the service needs longer than usual.
    id
        Goes with every attempt as X-Request-ID, and into the log of the service.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: bytes | None = None
    content_type: str = JSON
    query: Mapping[str, Value] = field(default_factory=dict)
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
        """Read the answer, or raise the error."""
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
    """Return the seconds to wait after a failed attempt, or None if another attempt is useless or too late.

    The pause doubles with each attempt and is random between 0 and twice its mean, so that clients that failed together
    do not come back together. A service that sends Retry-After is not asked earlier; a longer wait than the longest pause
    is left to the caller.
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


def encode_json(content: Any) -> bytes:
    """Return a body as JSON, or raise an error if a part of it cannot be sent."""
    try:
        body = msgspec.json.encode(content, enc_hook=_plain)
        if b"null" in body:  # this is how msgspec writes NaN and infinity
            json.dumps(msgspec.to_builtins(content, enc_hook=_plain), allow_nan=False)
        return body
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValue(f"this cannot be sent to the service: {error}") from None


def encode_messagepack(content: Any) -> bytes:
    """Return a body as MessagePack, in which bytes are bytes."""
    try:
        return msgspec.msgpack.encode(content, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValue(f"this cannot be sent to the service: {error}") from None


def _plain(value: Any) -> Any:
    """Turn arrays and numbers of NumPy into lists and numbers, other mappings into objects, other iterables into arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"a value of type {type(value).__name__} is neither a number, a text, an array nor an object")


def answer(type: type[T]) -> Callable[[httpx.Response], T]:
    """Return a function that reads the JSON of a response; fields that this version does not know are ignored."""
    decoder: msgspec.json.Decoder[T] = json_decoder(type)

    def read(response: httpx.Response) -> T:
        try:
            return decoder.decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataFormatError(
                f"the answer to {response.request.url} is not that of a duelrank service: {error}"
            ) from None

    return read


def _service_error(response: httpx.Response) -> ServiceError:
    """Make an error from a problem+json response, or from any other response of a proxy in between."""
    title, detail, request_id = response.reason_phrase or "error", "", response.headers.get("X-Request-ID", "")
    if response.headers.get("Content-Type", "").partition(";")[0].strip().endswith("json"):
        try:
            content = msgspec.json.decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            content = None
        if isinstance(content, dict):
            title, detail = str(content.get("title", title)), str(content.get("detail", ""))
    return ServiceError(response.status_code, title, detail, request_id, _retry_after(response))
