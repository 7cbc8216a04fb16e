"""What a ranker is after its events: a pure function of them, live, after a restart and in a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np

from duelrank.errors import StorageFailure, StoreCorrupt
from duelrank.kernels.random import derive
from duelrank.serving.log.bodies import (
    EXPLORED,
    GREEDY,
    Control,
    Fed,
    Published,
    Shown,
    digest,
    pack,
    pack_state,
    unpack,
    unpack_state,
)
from duelrank.serving.ranker.definition import Definition
from duelrank.storage import Event
from duelrank.types import Feedback, State

__all__ = ["Closed", "Machine", "Open", "Tally"]

# So many states of earlier versions are held where they can be had from the store again.
MOST_STATES = 256
#: A process may serve a version for a while after a newer one was published; from lists of one that is older than so many
#: versions nothing is learned, so that it is certain which states may be needed.
WINDOW = 16


class Open(msgspec.Struct, array_like=True, gc=False):
    """A list that is still open: where it stands in the log, and what users did with it so far."""

    number: int
    time: float
    version: int
    way: int
    clicks: list[int]
    examined: int | None
    fed: bool


class Tally(msgspec.Struct, array_like=True, gc=False):
    """How many lists were made, learned from (or had no click), closed without learning, not to be learned from."""

    impressions: int = 0
    learned: int = 0
    skipped: int = 0
    failed: int = 0
    expired: int = 0


class _Checkpoint(msgspec.Struct, array_like=True):
    number: int
    version: int
    changed: bool
    frozen: bool
    tally: Tally
    state: bytes
    served: bytes
    open: dict[str, Open]
    pin: tuple[int, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """What the closing of a list came to: how far the weights moved, its clicks, and what went wrong, if anything."""

    key: str
    norm: float
    clicks: int
    reciprocal_rank: float
    trouble: str | None = None


class Machine:
    """Applies the events of one ranker, in the order of their numbers. There is no clock in it and no chance.

    Two that have applied the same events are equal, to the bit. What it needs beside the events it is given: the lists
    that were shown (the bodies of earlier events) and the states of earlier versions (that earlier events led to).

    Parameters
    ----------
    definition
        Of the ranker.
    fetch
        Returns the body of the "ranked" event with a key, None where it is gone.
    load
        Returns the state of an earlier version, None where it is gone; without it, all that may be needed are held.
    most_states
        How many states of earlier versions are held, where they can be loaded again; None: all that may be needed.
    """

    def __init__(
        self,
        definition: Definition,
        fetch: Callable[[str], Shown | None],
        load: Callable[[int], State | None] | None = None,
        most_states: int | None = MOST_STATES,
    ) -> None:
        self.definition, self._fetch, self._load, self._most_states = definition, fetch, load, most_states
        self.number, self.version = 0, 1
        self.state = self.served = definition.start
        self.changed, self.frozen = False, definition.spec.mode == "frozen"
        self.pin: tuple[int, State] | None = None  # the version that a shadow serves, in place of the client's order
        self.tally, self.open = Tally(), dict[str, Open]()
        self._states, self.pinned = dict[int, State](), Counter[int]()

    def apply(self, event: Event) -> Closed | None:
        """Go one event further; those up to `number` have been applied and are left out."""
        if event.number <= self.number:
            return None
        closed = None
        if event.kind == "ranked":
            self._ranked(event)
        elif event.kind == "feedback":
            self._fed(unpack(event.body, Fed))
        elif event.kind == "closed":
            closed = self._closed(unpack(event.body, str))
        elif event.kind == "published":
            self._published(unpack(event.body, Published))
        elif event.kind == "control":
            self._controlled(unpack(event.body, Control))
        else:
            raise StoreCorrupt(
                f"event {event.number} is of an unknown kind, {event.kind!r}; a later duelrank may know it"
            )
        self.number = event.number
        return closed

    def _ranked(self, event: Event) -> None:
        shown = unpack(event.body, Shown)
        way = shown.way if shown.version >= self.version - WINDOW else GREEDY
        self.open[event.key] = Open(event.number, event.time, shown.version, way, [], None, False)
        self.pinned[shown.version] += 1
        self.tally.impressions += 1

    def _fed(self, fed: Fed) -> None:
        entry = self.open.get(fed.impression)
        if entry is None:
            self.tally.expired += 1
            return
        entry.fed = True
        if fed.clicks:
            entry.clicks = sorted({*entry.clicks, *fed.clicks})
        if fed.examined is not None:
            entry.examined = max(fed.examined, entry.examined or 0)

    def _closed(self, key: str) -> Closed | None:
        entry = self.open.get(key)
        if entry is None:
            return None
        norm, trouble = 0.0, None
        if self.frozen or entry.way == GREEDY or not entry.fed:
            # A list about which nobody has said anything may never have been seen.
            if entry.clicks:
                self.tally.skipped += 1
            else:
                self.tally.learned += 1
        else:
            norm, trouble = self._learn(key, entry)
        del self.open[key]  # last: where the store fails on the way, the event can be applied again
        self._unpin(entry.version)
        return Closed(key, norm, len(entry.clicks), 1.0 / (entry.clicks[0] + 1) if entry.clicks else 0.0, trouble)

    def _learn(self, key: str, entry: Open) -> tuple[float, str | None]:
        """Learn from a list, once; what cannot be learned from is counted and changes nothing, here and in every replay."""
        try:
            after = self._learned(key, entry)
        except StorageFailure:
            raise
        except Exception as error:
            self.tally.failed += 1
            return 0.0, f"list {key!r} of {self.definition.spec.name!r} could not be learned from: {error}"
        moved = after.weights - self.state.weights
        self.state, self.changed = after, True
        self.tally.learned += 1
        return float(np.sqrt(moved @ moved)), None

    def _learned(self, key: str, entry: Open) -> State:
        shown, made_by = self._fetch(key), self.state_of(entry.version)
        if shown is None or made_by is None:
            raise LookupError("what was shown is gone" if shown is None else f"version {entry.version} is gone")
        impression = self.definition.rebuild(made_by, key, shown)
        if entry.way == EXPLORED and impression.ranking.tolist() != shown.order:
            raise LookupError(
                "its order comes out differently than it was shown; has it been made on another kind of processor?"
            )
        clicks = np.zeros(len(shown.order), np.bool_)
        clicks[entry.clicks] = True
        examined = None if entry.examined is None else max(entry.examined, *(each + 1 for each in entry.clicks), 0)
        fresh = derive(self.definition.learn_key, self.state.step)
        after = self.definition.algorithm.learn(self.state, impression, Feedback.trusted(clicks, examined), fresh)
        if not np.isfinite(after.weights).all():
            raise ArithmeticError("the weights would no longer be finite")
        return after

    def _published(self, published: Published) -> None:
        self._hold(self.version, self.served)
        self.version, self.served, self.changed = published.version, self.state, False
        self._let_go(self.version - WINDOW - 1)

    def _controlled(self, control: Control) -> None:
        recipe = self.definition.algorithm
        if control.action == "rollback" and control.state is not None:
            old = unpack_state(control.state, recipe)
            # The counts go on: they name the random streams of learning, of which each is used once.
            self.state = State(old.weights, self.state.step, self.state.updates, old.memory)
        elif control.action == "pin" and control.version is not None and control.state is not None:
            self.pin = control.version, unpack_state(control.state, recipe)
        elif control.action == "unpin":
            self.pin = None
        elif control.action in ("freeze", "resume"):
            self.frozen = control.action == "freeze"
        self.changed = True

    def state_of(self, version: int) -> State | None:
        """Return the state of a version that open lists were made with."""
        if version == self.version:
            return self.served
        found = self._states.get(version)
        if found is None and version == 1:
            return self.definition.start
        if found is None and self._load is not None:
            found = self._load(version)
            if found is not None:
                self._hold(version, found)
        return found

    def _hold(self, version: int, state: State) -> None:
        self._states[version] = state
        if self._load is not None and self._most_states is not None and len(self._states) > self._most_states:
            del self._states[next(iter(self._states))]

    def _unpin(self, version: int) -> None:
        self.pinned[version] -= 1
        if not self.pinned[version]:
            del self.pinned[version]
            self._let_go(version)

    def _let_go(self, version: int) -> None:
        """Forget a state that no list needs, nor any that may still come."""
        if version < self.version - WINDOW and version not in self.pinned:
            self._states.pop(version, None)

    def publication(self) -> Published:
        """Return the event that would make a version of what was learned."""
        return Published(self.version + 1, digest(self.served))

    def checkpoint(self) -> bytes:
        """Return all that is needed to go on from here; equal machines give equal bytes."""
        states = pack_state(self.state), pack_state(self.served)
        pin = None if self.pin is None else (self.pin[0], pack_state(self.pin[1]))
        return pack(
            _Checkpoint(self.number, self.version, self.changed, self.frozen, self.tally, *states, self.open, pin)
        )

    def restore(self, body: bytes) -> None:
        """Go on from a checkpoint."""
        found, recipe = unpack(body, _Checkpoint), self.definition.algorithm
        self.number, self.version, self.changed, self.frozen = found.number, found.version, found.changed, found.frozen
        self.tally, self.open = found.tally, found.open
        self.served, self.state = unpack_state(found.served, recipe), unpack_state(found.state, recipe)
        self.pin = None if found.pin is None else (found.pin[0], unpack_state(found.pin[1], recipe))
        self.pinned = Counter(entry.version for entry in self.open.values())
        self._states.clear()


def needed(body: bytes) -> tuple[frozenset[int], frozenset[int]]:
    """Return what is needed to go on from a checkpoint: the numbers of open lists, and versions."""
    found = unpack(body, _Checkpoint)
    recent = range(max(1, found.version - WINDOW), found.version + 1)
    numbers = frozenset(entry.number for entry in found.open.values())
    return numbers, frozenset(entry.version for entry in found.open.values()).union(recent)
