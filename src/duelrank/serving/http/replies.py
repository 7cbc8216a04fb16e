"""An answer as bytes, and how it goes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple, TypeAlias

__all__ = ["JSON", "Receive", "Reply", "Scope", "Send", "send_reply"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = b"application/json"


class Reply(NamedTuple):
    """A whole answer."""

    body: bytes
    status: int = 200
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


async def send_reply(send: Send, reply: Reply, request_id: str) -> None:
    """Send a whole answer, with the id of its request."""
    headers = [
        (b"content-type", reply.media_type),
        (b"content-length", b"%d" % len(reply.body)),
        (b"x-request-id", request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        *reply.headers,
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
