"""Reading a body, never more of it than is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duelrank.serving.http.refusals import BodyTooLarge, ClientGone, MalformedBody, TooBusy
from duelrank.serving.http.replies import Receive

__all__ = ["BodyReader"]


@dataclass
class BodyReader:
    """Reads bodies of up to a size, and holds only so many bytes of unfinished ones at a time."""

    most: int
    most_waiting: int
    waiting: int = 0

    async def read(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Return a whole body; refuse one that is too large as soon as that is known."""
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit():
            raise MalformedBody("the Content-Length is no number")
        self._check(int(announced[:20]))
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            self._check(len(message["body"]))
            return bytes(message["body"])
        held = bytearray()
        try:
            while True:
                if message["type"] != "http.request":
                    raise ClientGone("the client hung up before the body was whole")
                chunk = message.get("body", b"")
                held += chunk
                self._hold(len(chunk), len(held))
                if not message.get("more_body"):
                    return bytes(held)
                message = await receive()
        finally:
            self.waiting -= len(held)

    def _check(self, size: int) -> None:
        if size > self.most:
            raise BodyTooLarge(f"a body may have {self.most:,} bytes; send less at a time")

    def _hold(self, more: int, size: int) -> None:
        self.waiting += more
        self._check(size)
        if self.waiting > self.most_waiting:
            raise TooBusy("too many large bodies are on their way at once")
