"""Every error that a client can see, in one table, as RFC 9457 has it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from duelrank.errors import (
    Conflict,
    DataFormatError,
    InvalidRecipe,
    InvalidValue,
    LimitExceeded,
    MissingExtra,
    NotReady,
    ShapeMismatch,
    StorageFailure,
    StoreFull,
    StoreLocked,
    StoreUnavailable,
    UnknownName,
)
from duelrank.serving.http.refusals import (
    BodyTooLarge,
    FromAWebPage,
    MalformedBody,
    NoKey,
    NoSuchPage,
    Refusal,
    TooBusy,
    TooManyRequests,
    WrongMethod,
    WrongScope,
)
from duelrank.serving.http.replies import Reply

__all__ = ["TABLE", "Kind", "Problem", "kind_of", "problem"]

MEDIA_TYPE = b"application/problem+json"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kind:
    """One sort of problem.

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
    MalformedBody: Kind(400, "malformed-body", "The body is no JSON"),
    NoKey: Kind(401, "no-key", "An API key is needed"),
    WrongScope: Kind(403, "wrong-scope", "The API key is not for this"),
    FromAWebPage: Kind(403, "from-a-web-page", "Web pages may not ask a service without API keys"),
    UnknownName: Kind(404, "unknown-name", "There is nothing of this name"),
    NoSuchPage: Kind(404, "no-such-page", "There is nothing at this address"),
    WrongMethod: Kind(405, "wrong-method", "This address does not have that method"),
    Conflict: Kind(409, "conflict", "It exists already and is different"),
    BodyTooLarge: Kind(413, "body-too-large", "The body is too large"),
    msgspec.ValidationError: Kind(422, "wrong-shape", "The request has the wrong shape"),
    InvalidValue: Kind(422, "invalid-value", "A value is not allowed"),
    InvalidRecipe: Kind(422, "invalid-recipe", "There is no such algorithm"),
    ShapeMismatch: Kind(422, "shape-mismatch", "The number of features is wrong"),
    DataFormatError: Kind(422, "invalid-data", "The data cannot be read"),
    LimitExceeded: Kind(422, "limit-exceeded", "The request is beyond a limit"),
    TooManyRequests: Kind(429, "too-many-requests", "Too many requests"),
    Exception: Kind(500, "internal-error", "Something went wrong here", "the server's log has it under the request_id"),
    StorageFailure: Kind(500, "store-failed", "The store failed", "the server's log has it under the request_id"),
    MissingExtra: Kind(501, "missing-extra", "The server lacks a package for this"),
    NotReady: Kind(503, "not-ready", "The service is not ready yet", retry=True),
    TooBusy: Kind(503, "too-busy", "Too many requests at once", retry=True),
    StoreLocked: Kind(503, "store-locked", "The store is held by another process", _LATER, retry=True),
    StoreFull: Kind(503, "store-full", "The store's disk is full", _LATER, retry=True),
    StoreUnavailable: Kind(503, "store-unavailable", "The store does not answer", _LATER, retry=True),
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str = ""


def kind_of(error: BaseException) -> Kind:
    """Return the row of the nearest class that the table has."""
    return next(TABLE[cls] for cls in type(error).__mro__ if cls in TABLE)


def problem(error: Exception, request_id: str) -> Reply:
    """Return the answer to a request that failed; what is our own fault goes to the log as well."""
    kind = kind_of(error)
    if kind.status == 500:
        log.error("request %s failed", request_id, exc_info=error)
    elif isinstance(error, StorageFailure):
        log.error("request %s failed: %s", request_id, error)
    content = Problem(f"/docs#{kind.slug}", kind.title, kind.status, kind.detail or str(error), request_id)
    headers = error.headers if isinstance(error, Refusal) else ()
    if kind.retry and not headers:
        headers = ((b"retry-after", b"1"),)
    return Reply(msgspec.json.encode(content), kind.status, MEDIA_TYPE, headers)
