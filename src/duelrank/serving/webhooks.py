"""Webhooks: an operator's address is told what a guard has done, without ever being waited for."""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from secrets import token_hex
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

import msgspec

from duelrank.api import GuardInfo
from duelrank.core.errors import InvalidValue
from duelrank.serving.observer import GuardEvent

__all__ = ["Webhooks", "check_public", "is_public", "message", "without_secrets"]

# Seconds that one attempt may take, connecting and all.
LIMIT = 5.0
# Seconds between one attempt and the next; there is one attempt more than pauses.
PAUSES = (1.0, 2.0, 4.0, 8.0)
# So many messages may wait; beyond that the oldest is dropped.
MOST = 100
# Seconds that stopping waits for messages which are due.
GRACE = 1.0

_NAT64 = ipaddress.ip_network("64:ff9b::/96")

log = logging.getLogger(__name__)


class _NotPublic(Exception):
    """An address that nothing is sent to."""


@dataclass(eq=False)
class _Message:
    """One POST: where it goes, what it is about (for the log), how often it was tried, and when it is due again."""

    to: SplitResult
    about: str
    body: bytes
    attempts: int = 0
    due: float = 0.0

    @property
    def host(self) -> str:
        """What of the address may stand in a log."""
        return _host(self.to)


class Webhooks:
    """Sends one POST for each event of a guard, from a thread of its own.

    Messages to one address arrive in the order of their events. What was not taken (no connection, no answer in time, 429, 5xx) is
    sent again after growing pauses, and at last given up with a line in the log; all other answers beside 2xx are final, redirects
    too, which are not followed. A receiver may get the same message twice, where its answer was lost; the ``id`` says so. Proxies
    of the environment are not used. Where a name leads is looked up for each attempt, checked, and exactly that address is called.

    Parameters
    ----------
    limit
        Seconds for one attempt.
    pauses
        Seconds before the second attempt, the third, and so on.
    most
        How many messages may wait.
    private
        Whether messages may go to addresses that are not public: to this machine, its network, or services of its cloud.
    """

    def __init__(
        self, limit: float = LIMIT, pauses: tuple[float, ...] = PAUSES, most: int = MOST, private: bool = False
    ) -> None:
        self._limit, self._pauses, self._most, self._private = limit, pauses, most, private
        self._waiting: deque[_Message] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = self._closed = False

    def tell(self, address: str, event: GuardEvent, info: GuardInfo) -> None:
        """Have an address told of an event; returns at once, and never raises."""
        try:
            self._put(_Message(urlsplit(address), f"the {event} of {info.name!r}", message(event, info)))
        except Exception:  # whatever it is, it must not keep the learner from learning
            log.exception("a webhook could not be prepared")

    def _put(self, new: _Message) -> None:
        dropped = None
        with self._changed:
            if self._closing:
                dropped = new
            else:
                if len(self._waiting) >= self._most:
                    dropped = self._waiting.popleft()
                self._waiting.append(new)
                self._start()
                self._changed.notify()
        if dropped is not None:
            why = "the service stops" if dropped is new else f"{self._most} newer ones wait"
            log.warning("a webhook was not sent: %s is not told to %s, %s", dropped.about, dropped.host, why)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Send what is due, for at most a second, and end; may be called twice."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(GRACE)
        with self._changed:
            self._closed = True
            left, self._waiting = self._waiting, deque()
        for each in left:
            log.warning("a webhook was given up, the service stops: %s, %s", each.about, each.host)

    def _run(self) -> None:
        while (found := self._next()) is not None:
            failure, again = _attempt(found, self._limit, self._private)
            self._settle(found, failure, again)

    def _next(self) -> _Message | None:
        """Wait for a message that is due, the first of its address; None when it is time to end."""
        with self._changed:
            while not self._closed:
                heads: dict[SplitResult, _Message] = {}
                for each in self._waiting:
                    heads.setdefault(each.to, each)
                first = min(heads.values(), key=lambda each: each.due, default=None)
                now = time.monotonic()
                if first is not None and first.due <= now:
                    return first
                if self._closing:
                    return None
                self._changed.wait(None if first is None else first.due - now)
        return None

    def _settle(self, sent: _Message, failure: str, again: bool) -> None:
        """Note how an attempt has ended: the message is done, waits for the next attempt, or is given up."""
        sent.attempts += 1
        with self._changed:
            if sent not in self._waiting:  # it was dropped meanwhile, and that was said
                return
            if failure and again and sent.attempts <= len(self._pauses):
                sent.due = time.monotonic() + self._pauses[sent.attempts - 1]
                return
            self._waiting.remove(sent)
        if failure:
            times = "once" if sent.attempts == 1 else f"{sent.attempts} times"
            log.warning(
                "a webhook was given up: %s was sent to %s %s, and at last %s",
                sent.about, sent.host, times, failure,
            )  # fmt: skip


def message(event: GuardEvent, info: GuardInfo) -> bytes:
    """Return the JSON that is sent for an event."""
    alarm = info.last_alarm if event == "alarm" else None
    content: dict[str, Any] = {
        "id": token_hex(8),
        "ranker": info.name,
        "event": event,
        "time": time.time() if alarm is None else alarm.time,
        "summary": info.summary,
        "state": info.state,
        "model_version": info.model_version,
        "win_rate": info.win_rate,
        "low": info.low,
        "high": info.high,
        "lately": info.lately,
        "decisive": info.decisive,
        "e_value": info.e_value,
        "statistic": info.statistic,
        "threshold": info.threshold,
        "rung": info.rung.number,
        "rungs": info.rung.rungs,
        "learned_share": info.learned_share,
        "alarm": alarm,
    }
    return msgspec.json.encode(content)


def without_secrets(address: str) -> str:
    """Return an address of which only the beginning can be read: the rest is often a password to somebody's chat."""
    parts = urlsplit(address)
    hidden = parts.path not in ("", "/") or parts.query or parts.fragment
    return f"{_host(parts)}/…" if hidden else _host(parts)


def _host(parts: SplitResult) -> str:
    whole = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return whole.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair would break the log


def _attempt(sent: _Message, limit: float, private: bool) -> tuple[str, bool]:
    """Send a message once; return what went wrong, "" where nothing did, and whether to try again."""
    try:
        status = _post(_connection(sent.to, limit, private), sent.to, sent.body, limit)
    except _NotPublic as error:
        return str(error), False
    except TimeoutError:
        return f"there was no answer within {limit:g} s", True
    except OSError as error:
        return f"there was no answer: {error.strerror or error}", True
    except Exception as error:  # whatever it is, the next message must be sent
        return f"there was no answer in HTTP ({type(error).__name__})", True
    if 200 <= status < 300:
        return "", False
    if 300 <= status < 400:
        return f"the answer was {status}; redirects are not followed", False
    return f"the answer was {status}", status == 429 or status >= 500


def _post(connection: HTTPConnection, to: SplitResult, body: bytes, limit: float) -> int:
    """Send a body, and return the status of the answer, of which nothing else is read.

    A time limit of a socket is one for each piece that arrives; the timer is for all of them together.
    """
    late = threading.Event()

    def cut() -> None:
        late.set()
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit, cut)
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", _target(to), body, _headers(to))
        return connection.getresponse().status
    except (OSError, HTTPException, ValueError):
        if late.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
        connection.close()


def _connection(to: SplitResult, limit: float, private: bool) -> HTTPConnection:
    kind, port = (_Secure, 443) if to.scheme == "https" else (_Plain, 80)
    connection = kind(to.hostname or "", to.port or port, timeout=limit)
    connection.private = private
    return connection


class _Plain(HTTPConnection):
    """A connection to an address that was checked; the name is not looked up again in between."""

    private = False

    def connect(self) -> None:
        self.sock = _called(self.host, self.port, self.timeout, self.private)


class _Secure(_Plain):
    """The same with TLS, whose certificate is for the name."""

    default_port = 443

    def connect(self) -> None:
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def _called(host: str, port: int, limit: float | None, private: bool) -> socket.socket:
    """Return a connection to the first address of a host that takes one; all of them must be allowed."""
    failure: OSError = OSError("the name has no address")
    addresses = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for address in addresses:
        if not private and not is_public(address):
            raise _NotPublic(f"nothing was sent: {_refusal(address)}")
    for address in addresses:
        try:
            return socket.create_connection((address, port), limit)
        except OSError as error:
            failure = error
    raise failure


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet: not of this machine, its network, many receivers, or nobody.

    Examples
    --------
    >>> [is_public(each) for each in ("93.184.215.14", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1")]
    [True, False, False, False]
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        within = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or within or ip
    old = isinstance(ip, ipaddress.IPv6Address) and ip.is_site_local
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or old)


def check_public(address: str) -> None:
    """Raise where it is plain without looking up a name that the address of a webhook is not public."""
    host = urlsplit(address).hostname or ""
    try:
        fine = host != "localhost" and is_public(host)
    except ValueError:  # a name: where it leads is known when a message is sent
        return
    if not fine:
        raise InvalidValue(f"webhook: {_refusal(host)}")


def _refusal(address: str) -> str:
    return (
        f"{address} is not a public address; where webhooks may go to this machine or its network, start the service with "
        "--allow-private-webhooks"
    )


def _target(to: SplitResult) -> str:
    whole = (to.path or "/") + (f"?{to.query}" if to.query else "")
    return quote(whole, safe="%/?:@!$&'()*+,;=~")


def _headers(to: SplitResult) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "duelrank", "Connection": "close"}
    if to.username is not None:
        pair = f"{unquote(to.username)}:{unquote(to.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    return headers
