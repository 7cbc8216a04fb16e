"""What the web layer refuses by itself, before the service hears of it."""

from __future__ import annotations

from typing import TypeAlias

from duelrank.errors import DuelrankError

__all__ = [
    "BodyTooLarge",
    "ClientGone",
    "FromAWebPage",
    "MalformedBody",
    "NoKey",
    "NoSuchPage",
    "Refusal",
    "TooBusy",
    "TooManyRequests",
    "WrongMethod",
    "WrongScope",
]

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]


class Refusal(DuelrankError):
    """A request that is answered without asking the service; ``headers`` go out with the answer."""

    headers: Headers = ()


class MalformedBody(Refusal):
    """A body that is no JSON at all."""


class NoKey(Refusal):
    """No API key was sent, or one that is not known."""

    headers: Headers = ((b"www-authenticate", b'Bearer realm="duelrank"'),)


class WrongScope(Refusal):
    """A good API key that is not for this."""


class FromAWebPage(Refusal):
    """An open service on this machine was asked by a page in somebody's browser."""


class NoSuchPage(Refusal):
    """A path that leads nowhere."""


class WrongMethod(Refusal):
    """A path that exists, with a method that it does not have."""

    def __init__(self, message: str, allowed: str = "") -> None:
        super().__init__(message)
        self.headers = ((b"allow", allowed.encode("latin-1")),) if allowed else ()


class BodyTooLarge(Refusal):
    """More bytes than the service wants to read."""

    headers: Headers = ((b"connection", b"close"),)  # what is still on its way is not read


class TooManyRequests(Refusal):
    """A caller that asks more often than it may."""

    def __init__(self, message: str, wait: float) -> None:
        super().__init__(message)
        self.headers = ((b"retry-after", b"%d" % max(1, int(wait + 0.999))),)


class TooBusy(Refusal):
    """More requests at once than the service wants to hold."""

    headers: Headers = ((b"retry-after", b"1"),)


class ClientGone(Refusal):
    """The client hung up before its request was whole: there is nobody to answer."""
