"""Webhooks: sends events of guards to an operator's address, from a thread, so that learning never waits for it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
import threading
import time
from collections import deque
from dataclasses import dataclass
from secrets import token_hex
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from duelrank.core.errors import InvalidValue
from duelrank.service.definition import GuardEvent
from duelrank.service.http.schema import GuardInfo

#: Seconds that one attempt may take in all.
ATTEMPT_SECONDS = 5.0
#: Seconds between one attempt and the next; there is one attempt more than pauses.
PAUSES = (1.0, 2.0, 4.0, 8.0)
#: The maximum number of messages that may wait; beyond that the oldest is dropped.
MAX_WAITING = 100
#: Seconds for which `close` waits for messages that are due.
CLOSE_SECONDS = 1.0

#: Fields of `GuardInfo` that a message repeats.
_COPIED = (
    "summary", "state", "model_version", "win_rate", "low", "high", "lately", "decisive", "e_value", "statistic", "threshold",
)  # fmt: skip

_NAT64 = ipaddress.ip_network("64:ff9b::/96")

log = logging.getLogger(__name__)


class _NotPublic(Exception):
    """An address that is not public."""


@dataclass(eq=False)
class _Message:
    """One POST: its address, its subject (for the log), the number of attempts, and when it is due again."""

    to: SplitResult
    about: str
    body: bytes
    attempts: int = 0
    due: float = 0.0

    @property
    def host(self) -> str:
        """The part of the address that may be logged."""
        return _host(self.to)


class Webhooks:
    """Sends one POST for each event of a guard, from a thread.

    Messages to one address arrive in the order of their events. A message that failed (no connection, no answer in time, 429, 5xx)
    is sent again after growing pauses, and finally dropped with a line in the log; all other answers except 2xx are final, also
    redirects, which are not followed. A receiver may get a message twice, if its answer was lost; the ``id`` is then the same.
    Proxies of the environment are not used. The name of the host is resolved for each attempt, its addresses are checked, and
    exactly these are connected to.

    Parameters
    ----------
    limit
        Seconds for one attempt.
    pauses
        Seconds before the second attempt, the third, and so on.
    max_waiting
        Maximum number of waiting messages.
    private
        Whether messages may go to addresses that are not public: to this machine, its network, or services of its cloud.
    """

    def __init__(
        self,
        limit: float = ATTEMPT_SECONDS,
        pauses: tuple[float, ...] = PAUSES,
        max_waiting: int = MAX_WAITING,
        private: bool = False,
    ) -> None:
        self._limit, self._pauses, self._max_waiting, self._private = limit, pauses, max_waiting, private
        self._waiting: deque[_Message] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = self._closed = False

    def send(self, address: str, event: GuardEvent, info: GuardInfo) -> None:
        """Send an event to an address; returns at once, and never raises."""
        try:
            self._put(_Message(urlsplit(address), f"the {event} of {info.name!r}", message(event, info)))
        except Exception:  # no failure may stop the leader
            log.exception("a webhook could not be prepared")

    def _put(self, new: _Message) -> None:
        dropped = None
        with self._changed:
            if self._closing:
                dropped = new
            else:
                if len(self._waiting) >= self._max_waiting:
                    dropped = self._waiting.popleft()
                self._waiting.append(new)
                self._start()
                self._changed.notify()
        if dropped is not None:
            why = "the service stops" if dropped is new else f"{self._max_waiting} newer ones wait"
            log.warning("a webhook was not sent: %s to %s, because %s", dropped.about, dropped.host, why)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Send what is due, for at most a second, and stop; may be called twice."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        with self._changed:
            self._closed = True
            left, self._waiting = self._waiting, deque()
        for each in left:
            log.warning("a webhook was dropped because the service stops: %s, %s", each.about, each.host)

    def _run(self) -> None:
        while (found := self._next()) is not None:
            failure, again = _attempt(found, self._limit, self._private)
            self._settle(found, failure, again)

    def _next(self) -> _Message | None:
        """Wait for a message that is due, the first of its address; return None to stop."""
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
        """Process the result of an attempt: the message is done, waits for the next attempt, or is dropped."""
        sent.attempts += 1
        with self._changed:
            if sent not in self._waiting:  # it was dropped meanwhile, which is in the log
                return
            if failure and again and sent.attempts <= len(self._pauses):
                sent.due = time.monotonic() + self._pauses[sent.attempts - 1]
                return
            self._waiting.remove(sent)
        if failure:
            times = "1 attempt" if sent.attempts == 1 else f"{sent.attempts} attempts"
            log.warning("a webhook was dropped after %s: %s to %s, %s", times, sent.about, sent.host, failure)


def message(event: GuardEvent, info: GuardInfo) -> bytes:
    """Return the JSON body of an event."""
    alarm = info.last_alarm if event == "alarm" else None
    content: dict[str, Any] = {
        "id": token_hex(8),
        "ranker": info.name,
        "event": event,
        "time": time.time() if alarm is None else alarm.time,
        **{name: getattr(info, name) for name in _COPIED},
        "rung": info.rung.number,
        "rungs": info.rung.rungs,
        "learned_share": info.learned_share,
        "alarm": alarm,
    }
    return msgspec.json.encode(content)


def without_secrets(address: str) -> str:
    """Return the beginning of an address, without its path and query, which are often a password."""
    parts = urlsplit(address)
    hidden = parts.path not in ("", "/") or parts.query or parts.fragment
    return f"{_host(parts)}/…" if hidden else _host(parts)


def _host(parts: SplitResult) -> str:
    whole = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return whole.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair would break the log


def _attempt(sent: _Message, limit: float, private: bool) -> tuple[str, bool]:
    """Send a message once; return the failure, "" if there is none, and whether to try again."""
    try:
        addresses = _addresses(sent.to, private)
        status = asyncio.run(_post(sent.to, addresses, sent.body, limit))
    except _NotPublic as error:
        return str(error), False
    except TimeoutError:
        return f"there was no answer within {limit:g} s", True
    except OSError as error:
        return f"there was no answer: {error.strerror or error}", True
    except Exception as error:  # no failure may stop the thread
        return f"there was no answer ({type(error).__name__}: {error})", True
    if 200 <= status < 300:
        return "", False
    if 300 <= status < 400:
        return f"the answer was {status}; redirects are not followed", False
    return f"the answer was {status}", status == 429 or status >= 500


def _addresses(to: SplitResult, private: bool) -> list[str]:
    """Return the IP addresses of a host; raise if one of them is not allowed."""
    port = to.port or (443 if to.scheme == "https" else 80)
    found = [str(each[4][0]) for each in socket.getaddrinfo(to.hostname or "", port, type=socket.SOCK_STREAM)]
    for address in found:
        if not private and not is_public(address):
            raise _NotPublic(f"nothing was sent: {_refusal(address)}")
    return found


async def _post(to: SplitResult, addresses: list[str], body: bytes, limit: float) -> int:
    """Send a body to the first address that accepts a connection, and return the status; nothing else of the answer is read.

    The timeouts of httpx are for each piece that arrives; this time limit is for the whole attempt. The certificate must be for the
    name of the host.
    """
    import httpx  # takes a moment, so it is imported with the first message

    url = httpx.URL(to.geturl())
    name = {"sni_hostname": to.hostname}
    headers = {"Host": url.netloc.decode("ascii"), "Content-Type": "application/json", "User-Agent": "duelrank"}
    secure = ssl.create_default_context() if to.scheme == "https" else False
    failure: httpx.ConnectError | None = None
    async with asyncio.timeout(limit), httpx.AsyncClient(verify=secure, trust_env=False, timeout=limit) as client:
        for address in addresses:
            pinned = url.copy_with(host=address)
            try:
                async with client.stream("POST", pinned, content=body, headers=headers, extensions=name) as answer:
                    return answer.status_code
            except httpx.ConnectError as error:
                failure = error
    raise failure or OSError("the name has no address")


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet: not to this machine, its network, or a reserved range.

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
    """Raise if the host of a webhook is an IP address that is not public, or localhost; other names are checked when sending."""
    host = urlsplit(address).hostname or ""
    try:
        fine = host != "localhost" and is_public(host)
    except ValueError:  # a name
        return
    if not fine:
        raise InvalidValue(f"webhook: {_refusal(host)}")


def _refusal(address: str) -> str:
    return (
        f"{address} is not a public address; to allow webhooks to this machine or its network, start the service with "
        "--allow-private-webhooks"
    )
