"""Every error that a client can see: what the web layer refuses by itself, and one table of problems as RFC 9457 has them."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

import msgspec

from duelrank.api import Problem
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

__all__ = [
    "TABLE",
    "BodyTooLarge",
    "ClientGone",
    "Forwarded",
    "FromAWebPage",
    "HeadersTooLarge",
    "Kind",
    "MalformedBody",
    "NoKey",
    "NoSuchPage",
    "NoWebhook",
    "Refusal",
    "TooBusy",
    "TooManyRequests",
    "WrongMethod",
    "WrongScope",
    "explain",
    "kind_of",
    "wrong_shape",
]

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

log = logging.getLogger(__name__)


class Refusal(DuelrankError):
    """A request that is answered without asking the service; ``headers`` go out with the answer."""

    headers: Headers = ()


class MalformedBody(Refusal):
    """A body that is not valid JSON or MessagePack at all."""


class NoKey(Refusal):
    """No API key was sent, or one that is not known."""

    headers: Headers = ((b"www-authenticate", b'Bearer realm="duelrank"'),)


class WrongScope(Refusal):
    """A good API key that is not for this operation, or not for this ranker."""


class FromAWebPage(Refusal):
    """A service without API keys was asked by a page in somebody's browser."""


class Forwarded(Refusal):
    """A service without API keys was asked through a proxy, so the request may come from any machine."""


class NoWebhook(Refusal):
    """Somebody without an admin key for all rankers has named an address that the service should send messages to."""


class NoSuchPage(Refusal):
    """A path that leads nowhere."""


class WrongMethod(Refusal):
    """A path that exists, with a method that it does not have."""

    def __init__(self, message: str, allowed: str = "") -> None:
        super().__init__(message)
        self.headers = ((b"allow", allowed.encode("latin-1")),) if allowed else ()


class BodyTooLarge(Refusal):
    """More bytes than the service wants to read."""

    headers: Headers = ((b"connection", b"close"),)  # what is still on its way is thrown away


class HeadersTooLarge(Refusal):
    """More bytes of headers than the service wants to read."""

    headers: Headers = ((b"connection", b"close"),)


class TooManyRequests(Refusal):
    """A caller that asks more often than it may."""

    def __init__(self, message: str, wait: float) -> None:
        super().__init__(message)
        self.headers = ((b"retry-after", b"%d" % max(1, int(wait + 0.999))),)


class TooBusy(Refusal):
    """More requests at once than the service wants to hold."""

    headers: Headers = ((b"retry-after", b"1"),)


class ClientGone(Refusal):
    """The client hung up before its request was whole: there is nobody to answer."""


@dataclass(frozen=True)
class Kind:
    """One kind of problem.

    Parameters
    ----------
    status
        Of the answer.
    slug
        Its type is ``/docs#slug``, where it is explained.
    title
        What went wrong, without the particulars.
    detail
        What to say in place of the error's own words, which may hold what is nobody's business; those go to the log.
    retry
        Whether the same request may succeed later: the answer has a ``Retry-After``.
    """

    status: int
    slug: str
    title: str
    detail: str = ""
    retry: bool = False


_LATER = "nothing was lost; the same request may be sent again in a moment"

TABLE: dict[type[BaseException], Kind] = {
    MalformedBody: Kind(400, "malformed-body", "The body is not valid JSON"),
    NoKey: Kind(401, "no-key", "An API key is needed"),
    WrongScope: Kind(403, "wrong-scope", "The API key is not for this"),
    FromAWebPage: Kind(403, "from-a-web-page", "Web pages may not ask a service without API keys"),
    Forwarded: Kind(403, "forwarded", "A service without API keys answers no request that came through a proxy"),
    NoWebhook: Kind(403, "no-webhook", "Only an admin key for all rankers may name a webhook"),
    ReadOnly: Kind(403, "read-only", "The store is only looked at"),
    UnknownName: Kind(404, "unknown-name", "There is nothing of this name"),
    NoSuchPage: Kind(404, "no-such-page", "There is nothing at this address"),
    WrongMethod: Kind(405, "wrong-method", "This address does not have that method"),
    Conflict: Kind(409, "conflict", "It does not go together with what is there"),
    BodyTooLarge: Kind(413, "body-too-large", "The body is too large"),
    msgspec.ValidationError: Kind(422, "wrong-shape", "The request has the wrong shape"),
    InvalidValue: Kind(422, "invalid-value", "A value is not allowed"),
    InvalidRecipe: Kind(422, "invalid-recipe", "The algorithm is unknown or cannot do this"),
    ShapeMismatch: Kind(422, "shape-mismatch", "The number of features is wrong"),
    DataFormatError: Kind(422, "invalid-data", "The data cannot be read"),
    LimitExceeded: Kind(422, "limit-exceeded", "The request is beyond a limit"),
    TooManyRequests: Kind(429, "too-many-requests", "Too many requests"),
    HeadersTooLarge: Kind(431, "headers-too-large", "The headers are too large"),
    Exception: Kind(500, "internal-error", "Something went wrong here", "the server's log has it under the request_id"),
    StorageFailure: Kind(500, "store-failed", "The store failed", "the server's log has it under the request_id"),
    MissingExtra: Kind(501, "missing-extra", "The server lacks a package for this"),
    NotReady: Kind(503, "not-ready", "The service is not ready yet", retry=True),
    TooBusy: Kind(503, "too-busy", "Too many requests at once", retry=True),
    StoreLocked: Kind(503, "store-locked", "The store is held by another process", _LATER, retry=True),
    StoreFull: Kind(503, "store-full", "The store's disk is full", _LATER, retry=True),
    StoreUnavailable: Kind(503, "store-unavailable", "The store does not answer", _LATER, retry=True),
}


def kind_of(error: BaseException) -> Kind:
    """Return the row of the nearest class that the table has."""
    return next(TABLE[cls] for cls in type(error).__mro__ if cls in TABLE)


def explain(error: Exception, request_id: str) -> tuple[Problem, Headers]:
    """Return what to answer to a request that failed, and with which headers; what is our own fault goes to the log as well."""
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
_NO_CHOICE = re.compile(r"^Invalid enum value .*- at `\$(?P<path>.*)`$", re.DOTALL)


def wrong_shape(error: Exception, wanted: Any) -> str:
    """Return what msgspec found wrong, with the values that are allowed, or the known field that is nearest to an unknown one."""
    message = str(error)
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
    """Return the parts of a path of msgspec, in which "" stands for any item of an array."""
    return re.findall(r"\.(\w+)|\[", path)


def _fields(type: msgspec.inspect.Type, path: list[str]) -> list[str]:
    """Return the names of the fields of the struct at a path."""
    structs = [each for each in _at(type, path) if isinstance(each, msgspec.inspect.StructType)]
    return [field.encode_name for each in structs for field in each.fields]


def _choices(type: msgspec.inspect.Type, path: list[str]) -> list[str]:
    """Return the values that are allowed at a path."""
    literals = [each for each in _at(type, path) if isinstance(each, msgspec.inspect.LiteralType)]
    return [str(value) for each in literals for value in each.values]


def _at(type: msgspec.inspect.Type, path: list[str]) -> list[msgspec.inspect.Type]:
    """Return the types that may be found at a path."""
    if isinstance(type, msgspec.inspect.UnionType):
        return [found for each in type.types for found in _at(each, path)]
    if not path:
        return [type]
    if isinstance(type, msgspec.inspect.StructType):
        return [found for each in type.fields if each.encode_name == path[0] for found in _at(each.type, path[1:])]
    item = getattr(type, "item_type", None) or getattr(type, "value_type", None)
    return _at(item, path[1:]) if item is not None else []
