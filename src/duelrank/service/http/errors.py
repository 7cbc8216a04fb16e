"""Errors that a client can receive: those of the web layer, and the table of all problems (RFC 9457)."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

import msgspec

from duelrank.core.errors import (
    Conflict,
    DataFormatError,
    DuelrankError,
    InvalidRecipe,
    InvalidValue,
    LimitExceeded,
    MissingExtra,
    NotReady,
    ReadOnly,
    ShapeMismatch,
    StorageFailure,
    StoreFull,
    StoreLocked,
    StoreUnavailable,
    UnknownName,
)
from duelrank.service.http.schema import Problem

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

log = logging.getLogger(__name__)


class Refusal(DuelrankError):
    """A request that the web layer refuses; ``headers`` are sent with the answer."""

    headers: Headers = ()


class MalformedBody(Refusal):
    """The body is not valid JSON or MessagePack."""


class NoKey(Refusal):
    """No API key was sent, or an unknown one."""

    headers: Headers = ((b"www-authenticate", b'Bearer realm="duelrank"'),)


class WrongScope(Refusal):
    """The API key is not for this operation, or not for this ranker."""


class FromAWebPage(Refusal):
    """A web page in a browser has called a service without API keys."""


class Forwarded(Refusal):
    """A proxy has called a service without API keys, so the request may come from any machine."""


class NoWebhook(Refusal):
    """A caller without an admin key for all rankers has set the address of a webhook."""


class NoSuchPage(Refusal):
    """The path does not exist."""


class WrongMethod(Refusal):
    """The path exists, but not with this method."""

    def __init__(self, message: str, allowed: str = "") -> None:
        super().__init__(message)
        self.headers = ((b"allow", allowed.encode("latin-1")),) if allowed else ()


class BodyTooLarge(Refusal):
    """The body exceeds the limit."""

    headers: Headers = ((b"connection", b"close"),)  # the rest of the body is discarded


class HeadersTooLarge(Refusal):
    """The headers exceed the limit."""

    headers: Headers = ((b"connection", b"close"),)


class TooManyRequests(Refusal):
    """The caller exceeds its rate limit."""

    def __init__(self, message: str, wait: float) -> None:
        super().__init__(message)
        self.headers = ((b"retry-after", b"%d" % max(1, int(wait + 0.999))),)


class TooBusy(Refusal):
    """There are too many concurrent requests."""

    headers: Headers = ((b"retry-after", b"1"),)


class ClientGone(Refusal):
    """The client disconnected before its request was complete; no answer is sent."""


@dataclass(frozen=True)
class ProblemKind:
    """A kind of problem.

    Parameters
    ----------
    status
        Status of the answer.
    slug
        End of its type, ``/docs#slug``, an address that explains it.
    title
        Description without details of the request.
    detail
        Text that replaces the message of the error, if that may contain internal details; the message is logged instead.
    retry
        Whether the same request may succeed later; then the answer has a ``Retry-After``.
    """

    status: int
    slug: str
    title: str
    detail: str = ""
    retry: bool = False


_LATER = "no data was lost; send the same request again in a moment"

PROBLEMS: dict[type[BaseException], ProblemKind] = {
    MalformedBody: ProblemKind(400, "malformed-body", "The body is not valid JSON"),
    NoKey: ProblemKind(401, "no-key", "An API key is needed"),
    WrongScope: ProblemKind(403, "wrong-scope", "The API key is not for this"),
    FromAWebPage: ProblemKind(403, "from-a-web-page", "Web pages may not call a service without API keys"),
    Forwarded: ProblemKind(403, "forwarded", "A service without API keys does not answer requests through a proxy"),
    NoWebhook: ProblemKind(403, "no-webhook", "Only an admin key for all rankers may set a webhook"),
    ReadOnly: ProblemKind(403, "read-only", "The service is read-only"),
    UnknownName: ProblemKind(404, "unknown-name", "There is nothing with this name"),
    NoSuchPage: ProblemKind(404, "no-such-page", "There is nothing at this address"),
    WrongMethod: ProblemKind(405, "wrong-method", "This address does not have that method"),
    Conflict: ProblemKind(409, "conflict", "The request conflicts with the present state"),
    BodyTooLarge: ProblemKind(413, "body-too-large", "The body is too large"),
    msgspec.ValidationError: ProblemKind(422, "wrong-shape", "The request has the wrong shape"),
    InvalidValue: ProblemKind(422, "invalid-value", "A value is not allowed"),
    InvalidRecipe: ProblemKind(422, "invalid-recipe", "The algorithm is unknown or cannot do this"),
    ShapeMismatch: ProblemKind(422, "shape-mismatch", "The number of features is wrong"),
    DataFormatError: ProblemKind(422, "invalid-data", "The data cannot be read"),
    LimitExceeded: ProblemKind(422, "limit-exceeded", "The request exceeds a limit"),
    TooManyRequests: ProblemKind(429, "too-many-requests", "Too many requests"),
    HeadersTooLarge: ProblemKind(431, "headers-too-large", "The headers are too large"),
    Exception: ProblemKind(
        500, "internal-error", "Internal error", "the server's log has the details under the request_id"
    ),
    StorageFailure: ProblemKind(
        500, "store-failed", "The store failed", "the server's log has the details under the request_id"
    ),
    MissingExtra: ProblemKind(501, "missing-extra", "The server lacks a package for this"),
    NotReady: ProblemKind(503, "not-ready", "The service is not ready yet", retry=True),
    TooBusy: ProblemKind(503, "too-busy", "Too many requests at once", retry=True),
    StoreLocked: ProblemKind(503, "store-locked", "The store is held by another process", _LATER, retry=True),
    StoreFull: ProblemKind(503, "store-full", "The store's disk is full", _LATER, retry=True),
    StoreUnavailable: ProblemKind(503, "store-unavailable", "The store does not answer", _LATER, retry=True),
}


def kind_of(error: BaseException) -> ProblemKind:
    """Return the row of the nearest base class in the table."""
    return next(PROBLEMS[cls] for cls in type(error).__mro__ if cls in PROBLEMS)


def explain(error: Exception, request_id: str) -> tuple[Problem, Headers]:
    """Return the answer to a failed request, and its headers; log internal errors."""
    kind = kind_of(error)
    if kind.status == 500:
        log.error("request %s failed", request_id, exc_info=error)
    elif isinstance(error, StorageFailure):
        log.error("request %s failed: %s", request_id, error)
    headers = error.headers if isinstance(error, Refusal) else ()
    if kind.retry and not headers:
        headers = ((b"retry-after", b"1"),)
    return Problem(f"/docs#{kind.slug}", kind.title, kind.status, kind.detail or str(error), request_id), headers


_UNKNOWN = re.compile(r"unknown field `(?P<name>.*?)`(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_FLAG = re.compile(r"^Expected `float`, got `bool` - at `\$\.context\[")
_NO_CHOICE = re.compile(r"^Invalid enum value .*- at `\$(?P<path>.*)`$", re.DOTALL)


def wrong_shape(error: Exception, wanted: Any) -> str:
    """Return the message of msgspec, with the allowed values, or the known field that is nearest to an unknown one."""
    message = str(error)
    if _FLAG.search(message):
        return f"{message}; write 1 for true and 0 for false"
    choice = _NO_CHOICE.search(message)
    if choice is not None:
        values = _choices(msgspec.inspect.type_info(wanted), _parts(choice["path"]))
        return f"{message}; it is one of {', '.join(values)}" if values else message
    found = _UNKNOWN.search(message)
    if found is None:
        return message
    known = _fields(msgspec.inspect.type_info(wanted), _parts(found["path"] or ""))
    near = get_close_matches(found["name"].lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
    return f"{message}; {hint}"


def _parts(path: str) -> list[str]:
    """Return the parts of a path of msgspec, in which "" is any item of an array."""
    return re.findall(r"\.(\w+)|\[", path)


def _fields(type: msgspec.inspect.Type, path: list[str]) -> list[str]:
    """Return the names of the fields of the struct at a path."""
    structs = [each for each in _at(type, path) if isinstance(each, msgspec.inspect.StructType)]
    return [field.encode_name for each in structs for field in each.fields]


def _choices(type: msgspec.inspect.Type, path: list[str]) -> list[str]:
    """Return the allowed values at a path."""
    literals = [each for each in _at(type, path) if isinstance(each, msgspec.inspect.LiteralType)]
    return [str(value) for each in literals for value in each.values]


def _at(type: msgspec.inspect.Type, path: list[str]) -> list[msgspec.inspect.Type]:
    """Return the possible types at a path."""
    if isinstance(type, msgspec.inspect.UnionType):
        return [found for each in type.types for found in _at(each, path)]
    if not path:
        return [type]
    if isinstance(type, msgspec.inspect.StructType):
        return [found for each in type.fields if each.encode_name == path[0] for found in _at(each.type, path[1:])]
    item = getattr(type, "item_type", None) or getattr(type, "value_type", None)
    return _at(item, path[1:]) if item is not None else []
