"""The history of a ranker: counts per minute, hour and day, computed from its events alone.

Finished points of a step are collected in blocks; a full block leaves the recorder and is saved in the store, so that the recorder
stays small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import msgspec

from duelrank.service.definition import LIST_KINDS, Step
from duelrank.service.log import pack, unpack

Number = TypeVar("Number", int, float)

#: Seconds of each step, and the number of points in a block.
STEPS: dict[Step, tuple[int, int]] = {"minute": (60, 20), "hour": (3600, 12), "day": (86_400, 16)}
#: The number of points of a step that are kept, and the most in one answer.
MAX_POINTS = 2000
#: The number of positions at which clicks are counted.
MAX_POSITIONS = 50
#: Minutes by which the clocks of several processes may differ.
CLOCK_TOLERANCE = 60
#: The maximum number of marks in one block; beyond that the oldest are removed.
MAX_MARKS = 100

_N = len(LIST_KINDS)


@dataclass(frozen=True)
class StepEnd:
    """The state of a ranker at the end of a step: its version, weights (see `Definition.rises`), and guard.

    The guard: wins and losses of its period, the detector's statistic, the share of lists that the learned ranker decides.
    """

    version: int
    weights: bytes
    guard: tuple[int, int, float, float] | None


class Point(msgspec.Struct, array_like=True):
    """Counts over one step, the ``at``-th since 1970; lists are counted by their kind."""

    at: int
    events: int = 0
    made: list[int] = msgspec.field(default_factory=lambda: [0] * _N)
    closed: list[int] = msgspec.field(default_factory=lambda: [0] * _N)
    clicked: list[int] = msgspec.field(default_factory=lambda: [0] * _N)
    ranks: list[float] = msgspec.field(default_factory=lambda: [0.0] * _N)
    no_feedback: int = 0
    learned: int = 0
    failed: int = 0
    missing: int = 0
    out_of_range: int = 0
    wins: int = 0
    losses: int = 0
    shown: list[int] = []
    clicks: list[int] = []
    version: int = 1
    weights: bytes = b""
    guard: tuple[int, int, float, float] | None = None

    def add(self, other: Point) -> None:
        """Add the counts of a shorter step, and copy the state at its end."""
        for name in ("events", "no_feedback", "learned", "failed", "missing", "out_of_range", "wins", "losses"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("made", "closed", "clicked", "ranks", "shown", "clicks"):
            setattr(self, name, sum_lists(getattr(self, name), getattr(other, name)))
        self.version, self.weights, self.guard = other.version, other.weights, other.guard

    def finish(self, end: StepEnd) -> None:
        """Set the state of the ranker at the end of the step."""
        self.version, self.weights, self.guard = end.version, end.weights, end.guard


def sum_lists(one: list[Number], other: list[Number]) -> list[Number]:
    """Add two lists element by element; missing elements count as 0."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return [a + b for a, b in zip(longer, shorter, strict=False)] + longer[len(shorter) :]


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """A control event at a time, with the version that was served."""

    time: float
    event: str
    text: str
    version: int


class Block(msgspec.Struct, array_like=True):
    """Finished points of one step, and the marks of their time; blocks are numbered from 1."""

    number: int
    points: list[Point] = []
    marks: list[Mark] = []


class HistoryState(msgspec.Struct, array_like=True):
    """The state of a recorder, by step: open points, open blocks, and the number of blocks that were begun.

    ``since`` is the number of the event after which it began.
    """

    since: int
    open: dict[str, Point] = {}
    blocks: dict[str, Block] = {}
    begun: dict[str, int] = {}


class Recorder:
    """Records the history of one ranker, event by event; it depends on the events only, as the machine does.

    Parameters
    ----------
    since
        Number of the event after which it begins.
    """

    def __init__(self, since: int) -> None:
        #: The state that a checkpoint has to contain.
        self.state = HistoryState(since)
        self._minute: Point | None = None
        #: Full blocks, to be saved in the store.
        self.done: list[tuple[Step, Block]] = []

    @property
    def since(self) -> int:
        """The number of the event after which it began."""
        return self.state.since

    def begin_event(self, time: float, end: Callable[[], StepEnd]) -> None:
        """Begin an event; if it belongs to another minute, finish the last minute.

        Parameters
        ----------
        time
            Time of the event. A time that is earlier by less than `CLOCK_TOLERANCE` counts in the current minute.
        end
            Returns the state of the ranker before the event.
        """
        at = int(time // 60)
        if self._minute is None:
            self._minute = self._opened("minute", at)
        elif at > self._minute.at or at < self._minute.at - CLOCK_TOLERANCE:
            self._end_minute(end())
            self._minute = self._opened("minute", at)

    def count_event(self) -> None:
        """Count an applied event."""
        self._current.events += 1

    @property
    def _current(self) -> Point:
        assert self._minute is not None, "no event was counted yet"
        return self._minute

    def made(self, list_kind: int, missing: int, out_of_range: int) -> None:
        """Count a list, and its feature values that were missing or out of range."""
        now = self._current
        now.made[list_kind] += 1
        now.missing += missing
        now.out_of_range += out_of_range

    def closed(self, list_kind: int, length: int, clicks: Sequence[int], outcome: str) -> None:
        """Count a closed list of ``length`` documents, with clicks at positions from 0."""
        now = self._current
        if outcome == "no_feedback":
            now.no_feedback += 1
            return
        now.learned += outcome == "learned"
        now.failed += outcome == "failed"
        now.closed[list_kind] += 1
        now.clicked[list_kind] += bool(clicks)
        now.ranks[list_kind] += 1.0 / (clicks[0] + 1) if clicks else 0.0
        length = min(length, MAX_POSITIONS)
        for counts in (now.shown, now.clicks):
            counts.extend([0] * (length - len(counts)))
        for place in range(length):
            now.shown[place] += 1
        for place in clicks:
            if place < length:
                now.clicks[place] += 1

    def voted(self, vote: str) -> None:
        """Count a guard list."""
        self._current.wins += vote == "win"
        self._current.losses += vote == "loss"

    def mark(self, time: float, event: str, text: str, version: int) -> None:
        """Record a control event."""
        for step in STEPS:
            block = self._block(step)
            block.marks.append(Mark(time, event, text, version))
            del block.marks[:-MAX_MARKS]

    def _opened(self, step: Step, at: int) -> Point:
        return self.state.open.setdefault(step, Point(at))

    def _block(self, step: Step) -> Block:
        """Return the open block, a new one if there is none."""
        if step not in self.state.blocks:
            self.state.begun[step] = self.state.begun.get(step, 0) + 1
            self.state.blocks[step] = Block(self.state.begun[step])
        return self.state.blocks[step]

    def _end_minute(self, end: StepEnd) -> None:
        """Finish the minute and add it to its hour; finish the hour if it is over, and so on."""
        point = self.state.open.pop("minute")
        point.finish(end)
        self._put_away("minute", point)
        self._add("hour", point, "minute")

    def _put_away(self, step: Step, point: Point) -> None:
        block = self._block(step)
        block.points.append(point)
        if len(block.points) == STEPS[step][1]:
            self.done.append((step, block))  # first: a reader in another thread must find it
            del self.state.blocks[step]

    def _add(self, step: Step, part: Point, shorter: Step) -> None:
        at = part.at * STEPS[shorter][0] // STEPS[step][0]
        open = self.state.open.get(step)
        if open is not None and open.at != at:
            del self.state.open[step]
            self._put_away(step, open)
            if step == "hour":
                self._add("day", open, "hour")
            open = None
        (open or self._opened(step, at)).add(part)

    def copy(self, end: StepEnd) -> HistoryState:
        """Return a copy of the state, from any thread, in which the open minute ends like this."""
        state = unpack(pack(self.state), HistoryState)  # packed in one call: no other thread changes it in between
        if (minute := state.open.get("minute")) is not None:
            minute.finish(end)
        return state

    def restore(self, state: HistoryState | None, since: int) -> None:
        """Continue from a state, or begin after an event."""
        self.state = HistoryState(since) if state is None else state
        self._minute = self.state.open.get("minute")
        self.done = []


def block_kind(step: Step) -> str:
    """Return the kind of snapshot in which blocks of a step are saved."""
    return f"history-{step}"


def select_points(
    step: Step, blocks: Sequence[Block], state: HistoryState, start: float | None, end: float | None
) -> tuple[list[Point], list[Mark]]:
    """Return the newest points of a step, and the marks of their time, in the order of time.

    Parameters
    ----------
    step
        "minute", "hour" or "day".
    blocks
        Saved blocks, oldest first.
    state
        State of the recorder.
    start, end
        Seconds since 1970; points that end before ``start`` or begin after ``end`` are left out.
    """
    own = state.blocks.get(step)
    every = list(blocks)
    if own is not None and not (blocks and blocks[-1].number == own.number):
        every.append(own)
    points = [point for block in every for point in block.points]
    shorter: tuple[Step, ...] = ("day", "hour", "minute")
    for each in shorter[shorter.index(step) :]:
        if (open := state.open.get(each)) is not None:
            _join(points, open, open.at * STEPS[each][0] // STEPS[step][0])
    length = STEPS[step][0]
    first, last = -math.inf if start is None else start, math.inf if end is None else end
    points = _in_order(points)
    points = [each for each in points if first < (each.at + 1) * length and each.at * length <= last][-MAX_POINTS:]
    if len(points) == MAX_POINTS:
        first = max(first, points[0].at * length)
    marks = [mark for block in every for mark in block.marks if first <= mark.time <= last]
    return points, sorted(marks, key=lambda mark: mark.time)


def _in_order(points: list[Point]) -> list[Point]:
    """Return points in the order of time: if a clock had jumped ahead, some are late, and some are there twice."""
    if all(one.at < other.at for one, other in pairwise(points)):
        return points
    ordered: list[Point] = []
    for each in sorted(points, key=lambda point: point.at):
        _join(ordered, each, each.at)
    return ordered


def _join(points: list[Point], part: Point, at: int) -> None:
    """Add a point to the last one if that is of the same time, or append it; the given points are not changed."""
    joined = Point(at)
    if points and points[-1].at == at:
        joined.add(points.pop())
    joined.add(part)
    points.append(joined)
