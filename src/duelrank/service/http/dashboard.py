"""The dashboard: a page for people who watch a ranker, rendered here; what it shows, its script reads from the API."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

__all__ = ["FILES", "POLICY", "read_file", "render"]

#: Nothing of another machine, and no script or style that is not in a file of ours.
POLICY = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)

_STYLE, _SCRIPT = b"text/css; charset=utf-8", b"text/javascript; charset=utf-8"
#: The files that the page loads, with their types.
FILES: Mapping[str, bytes] = {
    "dashboard.css": _STYLE,
    "dashboard.js": _SCRIPT,
    "uplot.min.css": _STYLE,
    "uplot.min.js": _SCRIPT,
    "uplot.LICENSE": b"text/plain; charset=utf-8",
}


@cache
def read_file(name: str) -> bytes:
    """Return a file that belongs to this package."""
    return files("duelrank.service.http").joinpath("static", name).read_bytes()


@cache
def _environment() -> Environment:
    loader = FunctionLoader(lambda name: read_file(name).decode())
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _edition() -> str:
    """Return what the addresses of the files end in, so that a browser does not keep those of an earlier version."""
    return blake2b(b"".join(read_file(name) for name in FILES), digest_size=6).hexdigest()


def render(name: str, keys: bool, read_only: bool) -> bytes:
    """Return the page of a ranker, with no data of any ranker in it.

    Parameters
    ----------
    name
        Of the ranker, which may not exist; "" for the first one.
    keys
        Whether the API needs a key.
    read_only
        Whether the store is only looked at.
    """
    template = _environment().get_template("dashboard.html")
    return template.render(name=name, keys=keys, read_only=read_only, edition=_edition()).encode()
