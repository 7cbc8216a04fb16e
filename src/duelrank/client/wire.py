"""How a question travels: a call as a value, its body as JSON, its answer or its error read back; nothing here does any I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx

from duelrank.client.errors import ServiceError, ServiceUnreachable
from duelrank.client.retrying import Outcome, retry_after
from duelrank.client.values import new_id
from duelrank.errors import DataFormatError, InvalidValue

__all__ = ["Call", "Value", "decoded", "encoded"]

T = TypeVar("T")

#: What a query string may have.
Value = str | float | bool


@dataclass(frozen=True)
class Call(Generic[T]):
    """One question: method, path, query and body, how to read the answer, and which statuses are one.

    The id goes with every attempt, and into the log of the service.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: bytes | None = None
    query: Mapping[str, Value] = field(default_factory=dict)
    answers: range | tuple[int, ...] = range(200, 300)
    id: str = field(default_factory=new_id)

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every attempt."""
        return {"X-Request-ID": self.id} | ({} if self.body is None else {"Content-Type": "application/json"})

    def is_answer(self, outcome: Outcome) -> bool:
        """Whether an attempt has brought what was asked for."""
        return isinstance(outcome, httpx.Response) and outcome.status_code in self.answers

    def result(self, outcome: Outcome) -> T:
        """Read the answer, or raise what went wrong."""
        if isinstance(outcome, httpx.RequestError):
            text = str(outcome) or type(outcome).__name__
            raise ServiceUnreachable(f"no answer to {self.method} {self.path}: {text}") from outcome
        if not self.is_answer(outcome):
            raise _problem(outcome)
        return self.read(outcome)


def encoded(content: Any) -> bytes:
    """Return the JSON of a body, or raise where it has what JSON has not."""
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"this cannot be sent to the service: {error}") from None


def _plain(value: Any) -> Any:
    """Turn arrays and numbers of NumPy, and the like, into what JSON has; mappings into objects, sequences into arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no part of a request")


def decoded(response: httpx.Response) -> Any:
    """Return what the JSON of an answer says."""
    try:
        return json.loads(response.content)
    except ValueError:
        raise DataFormatError(f"the answer to {response.request.url} is no JSON: is this a duelrank service?") from None


def _problem(response: httpx.Response) -> ServiceError:
    """Make an error of a problem+json answer, or of whatever stands between us and the service."""
    title, detail, request_id = response.reason_phrase or "error", "", response.headers.get("X-Request-ID", "")
    if response.headers.get("Content-Type", "").partition(";")[0].strip().endswith("json"):
        try:
            content = decoded(response)
        except DataFormatError:
            content = None
        if isinstance(content, dict):
            title, detail = str(content.get("title", title)), str(content.get("detail", ""))
    return ServiceError(response.status_code, title, detail, request_id, retry_after(response))
