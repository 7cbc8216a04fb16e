"""The dashboard: its page and files, and the live stream of a ranker that its script reads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache, partial
from hashlib import blake2b
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec
from jinja2 import Environment, FunctionLoader, StrictUndefined

from duelrank.core.errors import DuelrankError
from duelrank.service.definition import Step
from duelrank.service.history import STEPS
from duelrank.service.http.auth import token_of
from duelrank.service.http.schema import Live

if TYPE_CHECKING:
    from duelrank.service.http.routes import Call

#: The page loads nothing from other hosts, and no inline scripts or styles.
POLICY = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)

#: Seconds between two messages of a live stream.
LIVE_SECONDS = 1.0

log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


@cache
def read_file(name: str) -> bytes:
    """Return a static file of this package."""
    return files("duelrank.service.http").joinpath("static", name).read_bytes()


_STYLE, _SCRIPT = b"text/css; charset=utf-8", b"text/javascript; charset=utf-8"
_TYPES = {
    "dashboard.css": _STYLE,
    "charts.js": _SCRIPT,
    "panels.js": _SCRIPT,
    "memory.js": _SCRIPT,
    "experiments.js": _SCRIPT,
    "dashboard.js": _SCRIPT,
    "uplot.min.css": _STYLE,
    "uplot.min.js": _SCRIPT,
    "uplot.LICENSE": b"text/plain; charset=utf-8",
}
#: The files that the page loads: their types, and functions that read them.
FILES: Mapping[str, tuple[bytes, Callable[[], bytes]]] = {
    name: (media_type, partial(read_file, name)) for name, media_type in _TYPES.items()
}


@cache
def _environment() -> Environment:
    loader = FunctionLoader(lambda name: read_file(name).decode())
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _edition() -> str:
    """Return a digest of the files, which is a part of their addresses: a browser does not use cached files of another version."""
    return blake2b(b"".join(read_file(name) for name in FILES), digest_size=6).hexdigest()


def render(name: str, keys: bool, read_only: bool) -> bytes:
    """Return the page of a ranker, which contains no data of any ranker.

    Parameters
    ----------
    name
        Name of the ranker, which may not exist; "" for all of them.
    keys
        Whether the API needs a key.
    read_only
        Whether the service is read-only.
    """
    template = _environment().get_template("dashboard.html")
    return template.render(name=name, keys=keys, read_only=read_only, edition=_edition()).encode()


async def live_messages(call: Call, step: Step) -> AsyncIterator[bytes]:
    """Yield server-sent events until the service stops, the ranker is deleted or the key is revoked.

    A message is made when the one before was sent, so a slow reader gets fewer of them, and none waits in memory.
    """
    before: tuple[int, float] | None = None
    while call.service.ready and not call.service.ending:
        try:
            _check_key(call)
            last = await asyncio.to_thread(call.service.storage.log.last_number)
            now = time.monotonic()
            rate = None if before is None else max(0, last - before[0]) / max(now - before[1], 1e-3)
            before = last, now
            yield b"data: " + _encode(await asyncio.to_thread(_live, call, step, rate)) + b"\n\n"
        except DuelrankError as error:
            log.info("a live stream of %r ends: %s", call.name, error)
            return
        await asyncio.sleep(LIVE_SECONDS)


def _live(call: Call, step: Step, rate: float | None) -> Live:
    service, name, now = call.service, call.name, time.time()
    info = call.redacted(service.ranker(name))
    guard = None if info.guard is None else call.redacted(service.guard(name))
    history = service.history(name, step, now - STEPS[step][0])
    others = (each for each in service.alarms() if each != name and call.caller.may_use(each))
    return Live(now, info, guard, service.lag(), rate, history, tuple(others))


def _check_key(call: Call) -> None:
    """Raise if the key was revoked."""
    keys = call.state.gate.keys
    if keys.in_force:
        keys.caller_of(token_of(call.headers), "admin")
