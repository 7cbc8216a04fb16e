"""API keys: how they are made and checked, and how a running server learns of new and revoked ones."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Mapping, Sequence

from duelrank.errors import InvalidValue, StorageFailure
from duelrank.serving.http.refusals import NoKey, WrongScope
from duelrank.storage import ApiKey, Storage

__all__ = ["REFRESH", "SCOPES", "KeyRing", "make_key", "token_of"]

SCOPES = ("rank", "feedback", "admin")
REFRESH = 1.0
"""Seconds between two looks at the store: so long may a revoked key still work."""

_PREFIX = "dr"
_NOBODY = ApiKey("nobody", bytes(32), (), 0.0)

log = logging.getLogger(__name__)


def make_key(scopes: Sequence[str], now: float | None = None) -> tuple[str, ApiKey]:
    """Make a key: the text for its holder, shown once, and what the store keeps, from which it cannot be made again.

    The secret has 256 random bits, so a plain SHA-256 of it can be neither guessed nor looked up.
    """
    wanted = tuple(dict.fromkeys(scopes))
    if not wanted or set(wanted) - set(SCOPES):
        raise InvalidValue(f"the scopes of a key are some of {', '.join(SCOPES)}, got {', '.join(wanted) or 'none'}")
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return f"{_PREFIX}_{id}_{secret}", ApiKey(id, _hash(secret), wanted, time.time() if now is None else now)


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


class KeyRing:
    """The keys of a store as a running server knows them, looked at again every second.

    Without a key in the store everybody may do everything. Once a key was seen, that is over until the server is started
    anew: to revoke the last key shuts everybody out, rather than letting everybody in.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._keys: dict[str, ApiKey] = {}
        self.in_force = False
        self.refresh()

    def refresh(self) -> None:
        """Read the keys from the store."""
        known = self._storage.keys()
        self._keys = {key.id: key for key in known}
        self.in_force = self.in_force or bool(self._keys)

    async def keep_fresh(self) -> None:
        """Read the keys again and again; where the store does not answer, the known ones stay good."""
        while True:
            await asyncio.sleep(REFRESH)
            try:
                await asyncio.to_thread(self.refresh)
            except StorageFailure as error:
                log.warning("the API keys could not be read again: %s", error)

    def holder(self, token: str | None, needs: str) -> str:
        """Return the id of the key, or raise where it is none of ours or not for this; "admin" is for everything."""
        if token is None:
            raise NoKey("this needs an API key, as 'Authorization: Bearer KEY' or as 'X-API-Key: KEY'")
        prefix, _, rest = token.partition("_")
        id, _, secret = rest.partition("_")
        key = self._keys.get(id, _NOBODY)
        if not hmac.compare_digest(_hash(secret), key.hash) or prefix != _PREFIX:
            raise NoKey("this API key is not known; it may have been revoked")
        if needs not in key.scopes and "admin" not in key.scopes:
            raise WrongScope(f"this needs an API key with the scope {needs}; this one has {', '.join(key.scopes)}")
        return id
