"""Authentication: API keys with their scopes and rankers, and the checks of requests if there are no keys."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from starlette.types import Scope

from duelrank.core.errors import InvalidValue, StorageFailure
from duelrank.service.http.errors import Forwarded, FromAWebPage, NoKey, TooManyRequests, WrongScope
from duelrank.service.http.limits import Buckets, WebSettings
from duelrank.storage import ApiKey, Storage

SCOPES = ("rank", "feedback", "admin")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Seconds between two reads of the keys from the store: a revoked key may work for this time.
REFRESH = 1.0

_PREFIX = "dr"
_HOST = re.compile(r"(?:(https?)://)?(\[[^\]]*\]|[^:/]*)(?::([0-9]{1,5}))?")
_PROXIES = (b"x-forwarded-for", b"x-forwarded-host", b"forwarded", b"via", b"x-real-ip")

log = logging.getLogger(__name__)


def make_key(scopes: Sequence[str], rankers: Sequence[str] = (), now: float | None = None) -> tuple[str, ApiKey]:
    """Create a key: the text for its holder, shown once, and the entry of the store, which does not contain it.

    The secret has 256 random bits, so its SHA-256 can be neither guessed nor looked up. A key with ``rankers`` is valid for these
    only.
    """
    wanted = tuple(dict.fromkeys(scopes))
    if not wanted or set(wanted) - set(SCOPES):
        raise InvalidValue(f"the scopes of a key are some of {', '.join(SCOPES)}, got {', '.join(wanted) or 'none'}")
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    created = time.time() if now is None else now
    return f"{_PREFIX}_{id}_{secret}", ApiKey(id, _hash(secret), wanted, created, tuple(dict.fromkeys(rankers)))


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def token_of(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the key that a request carries, from ``X-API-Key`` or ``Authorization: Bearer``."""
    given = headers.get(b"x-api-key")
    if given is None:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return None
    return given.strip().decode("latin-1")


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request: the id of a key, or an IP address if there are no keys ("" for this machine).

    If ``rankers`` is not empty, the caller may use only these. ``admin``: whether the key has that scope; False without keys.
    """

    id: str = ""
    rankers: frozenset[str] = frozenset()
    admin: bool = False

    def may_use(self, ranker: str) -> bool:
        """Whether the caller may use this ranker."""
        return not self.rankers or ranker in self.rankers

    def check(self, ranker: str) -> None:
        """Raise if the caller may not use this ranker, whether it exists or not."""
        if not self.may_use(ranker):
            raise WrongScope(f"this API key is for {', '.join(sorted(self.rankers))} only, not for {ranker[:200]!r}")


class KeyRing:
    """The keys of a store, as a running server knows them; read again every second.

    Without a key in the store everybody may do everything. Once there has been a key, a key is required until the server is
    restarted: revoking the last key locks everybody out, instead of letting everybody in.

    Unknown keys are rate-limited per address. Ids of keys are not secret, so a key with an unknown id is refused without hashing;
    each refusal takes a token from the bucket of the address, and without a token the answer is 429. A wrong secret of a known id
    takes one from a bucket of that address and id. Valid keys are not limited by this: a key that was verified once is recognized
    without hashing, and every other key has a bucket that only guesses of its own secret can empty.

    Parameters
    ----------
    storage
        The store with the keys.
    bad_keys
        Unknown keys per second of one address, and ten times as many at once.
    """

    def __init__(self, storage: Storage, bad_keys: float = WebSettings.bad_keys) -> None:
        self._storage = storage
        self._keys: dict[str, ApiKey] = {}
        self._callers: dict[str, Caller] = {}
        self._verified: dict[str, str] = {}
        self._bad = Buckets(bad_keys, 10.0 * bad_keys)
        self.in_force = False
        self.refresh()

    def refresh(self) -> None:
        """Read the keys from the store."""
        keys = {key.id: key for key in self._storage.keys.list()}
        verified = list(self._verified.items())  # a copy: this is not the event loop's thread
        self._verified = {id: token for id, token in verified if id in keys and keys[id] == self._keys.get(id)}
        self._callers = {id: Caller(id, frozenset(key.rankers), "admin" in key.scopes) for id, key in keys.items()}
        self._keys = keys
        self.in_force = self.in_force or bool(keys)

    async def keep_fresh(self) -> None:
        """Read the keys at intervals; while the store fails, the known ones stay valid."""
        while True:
            await asyncio.sleep(REFRESH)
            try:
                await asyncio.to_thread(self.refresh)
            except StorageFailure as error:
                log.warning("the API keys could not be read: %s", error)

    def caller_of(self, token: str | None, needs: str, address: str = "") -> Caller:
        """Return the caller with a key; raise if the key is unknown or lacks the scope; "admin" includes all scopes."""
        if token is None:
            raise NoKey("this needs an API key, as 'Authorization: Bearer KEY' or as 'X-API-Key: KEY'")
        prefix, _, rest = token.partition("_")
        id, _, secret = rest.partition("_")
        key = self._keys.get(id)
        if key is None or prefix != _PREFIX:
            raise self._refusal(address)
        if not hmac.compare_digest(self._verified.get(id, "").encode(), token.encode()):
            self._verify(key, token, secret, address)
        if needs not in key.scopes and "admin" not in key.scopes:
            raise WrongScope(f"this needs an API key with the scope {needs}; this one has {', '.join(key.scopes)}")
        return self._callers.get(id) or Caller(id)

    def _verify(self, key: ApiKey, token: str, secret: str, address: str) -> None:
        bucket = (address, key.id)
        wait = self._bad.peek(bucket, time.monotonic())
        if wait > 0.0:
            raise _too_many(wait)
        if not hmac.compare_digest(_hash(secret), key.hash):
            raise self._refusal(bucket)
        self._verified[key.id] = token

    def _refusal(self, bucket: object) -> Exception:
        wait = self._bad.wait(bucket, time.monotonic())
        return _too_many(wait) if wait > 0.0 else NoKey("this API key is not known; it may have been revoked")


class NoKeys(KeyRing):
    """An empty key ring, for a local read-only service: its user can read the store without the service, too."""

    def refresh(self) -> None:
        """Read nothing."""


def _too_many(wait: float) -> TooManyRequests:
    return TooManyRequests(f"too many unknown API keys from this address; wait {wait:.3g} s", wait)


class Gate:
    """Admits requests, or raises the reason for refusing them."""

    def __init__(self, keys: KeyRing, settings: WebSettings) -> None:
        self.keys = keys
        self.settings = settings
        self.buckets = Buckets(settings.rate, settings.rate * settings.burst)

    def admit(self, scope: Scope, headers: Mapping[bytes, bytes], needs: str | None) -> Caller:
        """Check the key and the rate, and return the caller; operations without a scope need no key and have no rate limit."""
        if not self.keys.in_force:
            caller = self._without_key(scope, headers)
        elif needs is None:
            return _ANYBODY
        else:
            caller = self.keys.caller_of(token_of(headers), needs, _address(scope))
        if needs is not None and caller.id and self.settings.rate > 0.0:
            wait = self.buckets.wait(caller.id, time.monotonic())
            if wait > 0.0:
                raise TooManyRequests(f"more than {self.settings.rate:g} requests per second; wait {wait:.3g} s", wait)
        return caller

    def _without_key(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Caller:
        """Return a caller without a key; refuse requests of proxies, and of web pages.

        Any page may send requests to 127.0.0.1, and its own name may resolve to it (DNS rebinding); the browser then sends
        Sec-Fetch-Site, Origin or Host. A page on another port of this machine belongs to another program. A proxy on this machine
        forwards requests of other machines, with one of several headers.
        """
        address = _address(scope)
        if not self.settings.insecure:
            _refuse_pages(headers)
            _refuse_proxies(headers)
        return _ANYBODY if address in LOOPBACK else Caller(address)


_ANYBODY = Caller()


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def _refuse_pages(headers: Mapping[bytes, bytes]) -> None:
    host, origin = headers.get(b"host"), headers.get(b"origin")
    own = _host_and_port(host)
    if host is not None and (own is None or own[0] not in LOOPBACK):
        raise _from_a_page("Host", host)
    if origin is not None and (own is None or _host_and_port(origin) != own):
        raise _from_a_page("Origin", origin)
    if headers.get(b"sec-fetch-site", b"").strip().lower() == b"cross-site":
        raise _from_a_page("Sec-Fetch-Site", b"cross-site")


def _from_a_page(header: str, given: bytes) -> FromAWebPage:
    return FromAWebPage(
        "without API keys only programs of this machine and the service's own pages are answered, but "
        f"{header} is {given[:200]!r}; make a key with 'duelrank keys create'"
    )


def _refuse_proxies(headers: Mapping[bytes, bytes]) -> None:
    for name in _PROXIES:
        if name in headers:
            raise Forwarded(
                f"without API keys only this machine is answered, but {name.decode().title()} says that the request came "
                "through a proxy; make a key with 'duelrank keys create'"
            )


@lru_cache(maxsize=64)
def _host_and_port(given: bytes | None) -> tuple[str, int] | None:
    """Return the host and port of a Host or an Origin; None if it is invalid."""
    found = _HOST.fullmatch((given or b"").decode("latin-1").strip().lower())
    if found is None:
        return None
    return found[2].strip("[]"), int(found[3] or (443 if found[1] == "https" else 80))
