"""Uvicorn's HTTP protocol with a little less patience."""

from __future__ import annotations

import asyncio
import socket
from asyncio import TimerHandle
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["ImpatientProtocol"]


class ImpatientProtocol(HttpToolsProtocol):
    """Drops a connection whose request takes too long to arrive, or whose answer is not taken.

    Uvicorn has a time limit between two requests only: who sends half a header and then nothing, or a body byte by byte,
    would hold a connection for ever.
    """

    patience: ClassVar[float] = 30.0
    _timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()
        connection = transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT") and connection is not None and connection.family != socket.AF_UNIX:
            # The system gives up on sent bytes that the other side neither acknowledges nor has room for.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self.patience * 1000))

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._rest()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of a request."""
        self._wait()
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """Wait no longer: the request is whole."""
        self._rest()
        super().on_message_complete()

    def _wait(self) -> None:
        self._rest()
        self._timer = self.loop.call_later(self.patience, self._give_up)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.abort()
