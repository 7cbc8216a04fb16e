"""Who comes in: API keys, rates, and the number of requests at once."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from itertools import count
from secrets import token_hex

from duelrank.serving.http.keys import KeyRing, token_of
from duelrank.serving.http.rates import Buckets
from duelrank.serving.http.refusals import FromAWebPage, TooBusy, TooManyRequests
from duelrank.serving.http.replies import Scope
from duelrank.serving.http.settings import WebSettings

__all__ = ["LOOPBACK", "Gate"]

LOOPBACK = ("127.0.0.1", "::1", "localhost")

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_HOST = re.compile(rb"(?:https?://)?(\[[^\]]*\]|[^:/]*)(?::\d+)?")


class Gate:
    """Lets requests in, or raises the reason why not."""

    def __init__(self, keys: KeyRing, settings: WebSettings) -> None:
        self.keys = keys
        self.settings = settings
        self.buckets = Buckets(settings.rate, settings.rate * settings.burst)
        self.inside = 0
        self._ids = count(1)
        self._prefix = token_hex(4)

    def request_id(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the client's own ``X-Request-ID`` where it is a plain one, else a new one."""
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode("ascii")
        return f"{self._prefix}-{next(self._ids):x}"

    def admit(self, scope: Scope, headers: Mapping[bytes, bytes], needs: str | None) -> None:
        """Check the key and the rate; what needs no scope is for everybody, whatever the rate."""
        if not self.keys.in_force:
            caller = self._neighbour(scope, headers)
        elif needs is None:
            return
        else:
            caller = self.keys.holder(token_of(headers), needs)
        if needs is not None and caller and self.settings.rate > 0.0:
            wait = self.buckets.wait(caller, time.monotonic())
            if wait > 0.0:
                raise TooManyRequests(f"more than {self.settings.rate:g} requests a second; wait {wait:.3g} s", wait)

    def _neighbour(self, scope: Scope, headers: Mapping[bytes, bytes]) -> str:
        """Return the address of somebody without a key, "" of this machine; refuse what a browser was tricked into.

        Any page may send requests to 127.0.0.1, and its own name may lead there (DNS rebinding); a browser then says so in
        Origin or Host.
        """
        address = (scope.get("client") or ("",))[0]
        if self.settings.insecure:
            return "" if address in LOOPBACK else str(address)
        for name in (b"host", b"origin"):
            given = headers.get(name)
            if given is not None and not _is_loopback(given):
                raise FromAWebPage(
                    f"without API keys only this machine is answered, but {name.decode().title()} is {given[:200]!r}; "
                    "make a key with 'duelrank keys create'"
                )
        return "" if address in LOOPBACK else str(address)

    def enter(self) -> None:
        """Become one of the requests that are being answered; `leave` must follow."""
        if self.inside >= self.settings.max_requests:
            raise TooBusy(f"{self.inside:,} requests are being answered already")
        self.inside += 1

    def leave(self) -> None:
        """Be no longer one of them."""
        self.inside -= 1


def _is_loopback(given: bytes) -> bool:
    found = _HOST.fullmatch(given.strip())
    return found is not None and found[1].decode("latin-1").strip("[]").lower() in LOOPBACK
