"""Messages between the processes of one server, which wake another process or ask it to do something; each of them may be lost.

Messages are datagrams, so a process that is killed never leaves half of one, and sending never waits: a message to an inbox that is
full is dropped. Every sender repeats what matters, and every receiver also looks at the store at intervals.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from select import select
from typing import TypeAlias

import msgspec

#: Whether this platform has datagrams between processes.
AVAILABLE = hasattr(socket, "AF_UNIX") and hasattr(socket, "MSG_DONTWAIT")
#: The maximum size of a message, in bytes, and roughly that of the ids in one.
MAX_BYTES, MAX_IDS_BYTES = 64 << 10, 32 << 10


class Look(msgspec.Struct, tag="look"):
    """The store has something new."""


class Beat(msgspec.Struct, tag="beat"):
    """The learner works."""


class Close(msgspec.Struct, tag="close"):
    """These impressions of a ranker, given by id and number, are overdue; ``created`` is the number of its creation."""

    ranker: str
    created: int
    impressions: dict[str, int]
    time: float


class SaveStep(msgspec.Struct, tag="step"):
    """Asks the learner to save the last step of a ranker, which only the learner has."""

    ranker: str


Message: TypeAlias = Look | Beat | Close | SaveStep

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Message).decode


class Inbox:
    """Messages to one process; all processes of a server can send to it. It can be passed to a process that is spawned."""

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def fileno(self) -> int:
        """Return the descriptor that is readable if there are messages."""
        return self._reading.fileno()

    def send(self, message: Message) -> bool:
        """Send a message; return whether there was room for it. From any thread."""
        try:
            self._writing.send(_encode(message), socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    def receive(self) -> list[Message]:
        """Return the messages that have arrived; does not wait."""
        found: list[Message] = []
        with suppress(OSError):  # there are no more
            while True:
                found.append(_decode(self._reading.recv(MAX_BYTES, socket.MSG_DONTWAIT)))
        return found

    def wait(self, seconds: float) -> None:
        """Wait until there are messages, for at most some seconds."""
        select([self._reading], [], [], seconds)

    def close(self) -> None:
        """Close the sockets of this process."""
        self._reading.close()
        self._writing.close()


class FrontChannel:
    """The channel of a process that serves: messages to it, and to the learner. Setting it, as a flag, makes the learner look.

    Parameters
    ----------
    inbox
        Messages to this process.
    learner
        Messages to the learner.
    """

    def __init__(self, inbox: Inbox, learner: Inbox) -> None:
        self.inbox, self._learner = inbox, learner

    def set(self) -> None:
        """Make the learner look for new events."""
        self._learner.send(Look())

    def ask(self, message: Message) -> bool:
        """Send a message to the learner; return whether there was room for it."""
        return self._learner.send(message)


class LearnerChannel:
    """The channel of the learner: messages to it, which it waits for as for a flag, and to the processes that serve.

    Parameters
    ----------
    inbox
        Messages to the learner.
    fronts
        Messages to the processes that serve.
    """

    def __init__(self, inbox: Inbox, fronts: Sequence[Inbox]) -> None:
        self._inbox, self._fronts, self._turn = inbox, fronts, 0
        #: Names of the rankers whose last step is to be saved.
        self.wanted_steps: set[str] = set()

    def set(self) -> None:
        """Wake the learner itself."""
        self._inbox.send(Look())

    def wait(self, seconds: float) -> None:
        """Wait until there is something to look at, for at most some seconds."""
        self._inbox.wait(seconds)

    def clear(self) -> None:
        """Read what has arrived: from here on, new messages end the next `wait`."""
        for message in self._inbox.receive():
            if isinstance(message, SaveStep):
                self.wanted_steps.add(message.ranker)

    def broadcast(self, message: Message) -> None:
        """Send a message to all processes that serve."""
        for front in self._fronts:
            front.send(message)

    def close_impressions(self, name: str, ranker: int, impressions: dict[str, int], time: float) -> None:
        """Ask the processes that serve, in turns, to close impressions: only they know which feedback comes before that."""
        part, size = dict[str, int](), 0
        for id, number in impressions.items():
            if size > MAX_IDS_BYTES:
                self._send_closing(Close(name, ranker, part, time))
                part, size = {}, 0
            part[id] = number
            size += len(id.encode()) + 16
        self._send_closing(Close(name, ranker, part, time))

    def _send_closing(self, message: Close) -> None:
        self._turn = (self._turn + 1) % len(self._fronts)
        self._fronts[self._turn].send(message)
