"""When to ask again, and after what pause: everything is idempotent, so that asking again is always safe."""

from __future__ import annotations

import secrets
import time
from email.utils import parsedate_to_datetime

import httpx

__all__ = ["Outcome", "pause", "retry_after"]

#: What an attempt brings: an answer of some status, or none.
Outcome = httpx.Response | httpx.RequestError

#: The service, or what stands before it, is busy, starting or going away.
BUSY = frozenset({429, 502, 503, 504})
#: Mistakes of the caller, which no second attempt mends.
HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.ProxyError)
#: Seconds: the mean of the first pause, and the most that any pause takes.
FIRST, MOST = 0.1, 30.0


def pause(outcome: Outcome, attempt: int, retries: int) -> float | None:
    """Return the seconds to wait before the next attempt, or None where this outcome is final.

    The pause doubles with each attempt and is spread at random from nothing to twice its mean, so that clients that
    failed together do not come back together. A service that says when to come back is not asked earlier; where that
    would be longer than any pause, the caller decides.
    """
    if attempt >= retries or isinstance(outcome, HOPELESS):
        return None
    backoff = min(MOST, FIRST * 2.0 ** (attempt + 1)) * secrets.SystemRandom().random()
    if isinstance(outcome, httpx.RequestError):
        return backoff
    if outcome.status_code not in BUSY:
        return None
    asked = retry_after(outcome) or 0.0
    return None if asked > MOST else asked + backoff


def retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of the header Retry-After, which may be a number or a date."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
