"""What a ranker did over time: counts per minute, hour and day, made from its events alone.

Points of one step that are done are gathered in blocks; a block that is full leaves the history and is kept in the store, so that
what stays here is small whatever happens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

import msgspec
import numpy as np

from duelrank.api import History, HistoryGuard, HistoryMark
from duelrank.evidence import ConfidenceSequence
from duelrank.serving.log.bodies import BASELINE, EXPLORED, GREEDY, GUARD, OLD, SHADOW, pack, unpack
from duelrank.serving.ranker.definition import MOST_FEATURES

__all__ = [
    "HISTORY",
    "KINDS",
    "MOST_POINTS",
    "STEPS",
    "Block",
    "End",
    "HistoryState",
    "Recorder",
    "Step",
    "block_kind",
    "history_of",
]

Step: TypeAlias = Literal["minute", "hour", "day"]
Number = TypeVar("Number", int, float)

#: The kind of snapshot in which followers find what is not in a block yet.
HISTORY = "history"
#: Seconds of each step, and how many points make a block.
STEPS: dict[Step, tuple[int, int]] = {"minute": (60, 20), "hour": (3600, 12), "day": (86_400, 16)}
#: So many points of a step are kept, and leave the service at once.
MOST_POINTS = 2000
#: Clicks at so many positions are counted.
MOST_POSITIONS = 50
#: Minutes by which clocks of several processes may differ.
TOLERANCE = 60
#: Marks in one block; beyond that the oldest go.
MOST_MARKS = 100

#: Kinds of lists, by the way in which their order came about.
KINDS = {GREEDY: "greedy", EXPLORED: "explored", SHADOW: "shadow", GUARD: "guard", BASELINE: "baseline", OLD: "old"}
_N = len(KINDS)


@dataclass(frozen=True)
class End:
    """How a ranker was at the end of a step: its version, weights (see `Definition.rises`), and its guard.

    The guard: wins and losses of its period, the detector's statistic, the share of lists that the learned ranker decides.
    """

    version: int
    weights: bytes
    guard: tuple[int, int, float, float] | None


class Point(msgspec.Struct, array_like=True):
    """Counts over one step, the ``at``-th since 1970; lists are by the way in which they came about."""

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
        """Add the counts of a shorter step; how it ended is how that one ended."""
        for name in ("events", "no_feedback", "learned", "failed", "missing", "out_of_range", "wins", "losses"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("made", "closed", "clicked", "ranks", "shown", "clicks"):
            setattr(self, name, _sum(getattr(self, name), getattr(other, name)))
        self.version, self.weights, self.guard = other.version, other.weights, other.guard


def _sum(one: list[Number], other: list[Number]) -> list[Number]:
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return [a + b for a, b in zip(longer, shorter, strict=False)] + longer[len(shorter) :]


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """Something that happened, at a time, when a version was served."""

    time: float
    event: str
    text: str
    version: int


class Block(msgspec.Struct, array_like=True):
    """Points of one step that are done, and what happened in their time; blocks are counted from 1."""

    number: int
    points: list[Point] = []
    marks: list[Mark] = []


class HistoryState(msgspec.Struct, array_like=True):
    """All that a recorder has, by step: open points, open blocks, and how many blocks were begun.

    ``since`` is the number of the event behind which it began.
    """

    since: int
    open: dict[str, Point] = {}
    blocks: dict[str, Block] = {}
    begun: dict[str, int] = {}


class Recorder:
    """Records what happens to one ranker, event by event. A function of the events, as the machine is.

    Parameters
    ----------
    since
        The number of the event behind which it begins.
    """

    def __init__(self, since: int) -> None:
        self._state = HistoryState(since)
        self._minute: Point | None = None
        #: Blocks that are full, to be kept elsewhere.
        self.done: list[tuple[Step, Block]] = []

    @property
    def since(self) -> int:
        """The number of the event behind which it began."""
        return self._state.since

    def begin(self, time: float, end: Callable[[], End]) -> None:
        """Come to an event; where it begins another minute, the last one is done.

        Parameters
        ----------
        time
            Of the event. Where clocks differ a little, minutes do not go back; where one had jumped ahead, they do.
        end
            How the ranker is before the event.
        """
        at = int(time // 60)
        if self._minute is None:
            self._minute = self._opened("minute", at)
        elif at > self._minute.at or at < self._minute.at - TOLERANCE:
            self._end_minute(end())
            self._minute = self._opened("minute", at)

    def count(self) -> None:
        """An event was applied."""
        self._now.events += 1

    @property
    def _now(self) -> Point:
        assert self._minute is not None, "no event was counted yet"
        return self._minute

    def made(self, way: int, missing: int, out_of_range: int) -> None:
        """A list was made."""
        now = self._now
        now.made[way] += 1
        now.missing += missing
        now.out_of_range += out_of_range

    def closed(self, way: int, length: int, clicks: Sequence[int], outcome: str, vote: str) -> None:
        """A list was closed, of so many documents, with clicks at positions from 0."""
        now = self._now
        if outcome == "no_feedback":
            now.no_feedback += 1
            return
        now.learned += outcome == "learned"
        now.failed += outcome == "failed"
        now.closed[way] += 1
        now.clicked[way] += bool(clicks)
        now.ranks[way] += 1.0 / (clicks[0] + 1) if clicks else 0.0
        now.wins += vote == "win"
        now.losses += vote == "loss"
        length = min(length, MOST_POSITIONS)
        for counts in (now.shown, now.clicks):
            counts.extend([0] * (length - len(counts)))
        for place in range(length):
            now.shown[place] += 1
        for place in clicks:
            if place < length:
                now.clicks[place] += 1

    def mark(self, time: float, event: str, text: str, version: int) -> None:
        """Something happened."""
        for step in STEPS:
            block = self._block(step)
            block.marks.append(Mark(time, event, text, version))
            del block.marks[:-MOST_MARKS]

    def _opened(self, step: Step, at: int) -> Point:
        return self._state.open.setdefault(step, Point(at))

    def _block(self, step: Step) -> Block:
        """Return the open block, which begins here where there is none."""
        if step not in self._state.blocks:
            self._state.begun[step] = self._state.begun.get(step, 0) + 1
            self._state.blocks[step] = Block(self._state.begun[step])
        return self._state.blocks[step]

    def _end_minute(self, end: End) -> None:
        """Put the minute away, and add it to its hour; an hour that is over is put away then, and so on."""
        point = self._state.open.pop("minute")
        point.version, point.weights, point.guard = end.version, end.weights, end.guard
        self._put_away("minute", point)
        self._add("hour", point, "minute")

    def _put_away(self, step: Step, point: Point) -> None:
        block = self._block(step)
        block.points.append(point)
        if len(block.points) == STEPS[step][1]:
            self.done.append((step, block))  # first: who reads in another thread must find it
            del self._state.blocks[step]

    def _add(self, step: Step, part: Point, shorter: Step) -> None:
        at = part.at * STEPS[shorter][0] // STEPS[step][0]
        open = self._state.open.get(step)
        if open is not None and open.at != at:
            del self._state.open[step]
            self._put_away(step, open)
            if step == "hour":
                self._add("day", open, "hour")
            open = None
        (open or self._opened(step, at)).add(part)

    def copy(self, end: End) -> HistoryState:
        """Return a copy of everything, from any thread, in which the open minute ends like this."""
        state = unpack(pack(self._state), HistoryState)  # packed in one go: nobody changes it meanwhile
        if (minute := state.open.get("minute")) is not None:
            minute.version, minute.weights, minute.guard = end.version, end.weights, end.guard
        return state

    def note(self) -> HistoryState:
        """Return all that is needed to go on from here."""
        return self._state

    def restore(self, noted: HistoryState | None, since: int) -> None:
        """Go on from what was noted, or begin behind an event."""
        self._state = HistoryState(since) if noted is None else noted
        self._minute = self._state.open.get("minute")
        self.done = []


def block_kind(step: Step) -> str:
    """Return the kind of snapshot that blocks of a step are kept as."""
    return f"history-{step}"


def history_of(
    name: str,
    step: Step,
    blocks: Sequence[Block],
    state: HistoryState,
    features: Sequence[str],
    digest: bytes,
    start: float | None = None,
    end: float | None = None,
) -> History:
    """Return what is known of a step, the newest points at most, as one list per number.

    Parameters
    ----------
    name, features
        Of the ranker.
    step
        Which.
    blocks
        Those that are kept elsewhere, oldest first.
    state
        The rest.
    digest
        Of the names of the features.
    start, end
        Seconds since 1970 that points must not be before, or behind.
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
    points = [each for each in points if first < (each.at + 1) * length and each.at * length <= last][-MOST_POINTS:]
    if len(points) == MOST_POINTS:
        first = max(first, points[0].at * length)
    marks = [mark for block in every for mark in block.marks if first <= mark.time <= last]
    return _columns(name, step, points, sorted(marks, key=lambda mark: mark.time), features, digest)


def _in_order(points: list[Point]) -> list[Point]:
    """Return points as time goes: where a clock had jumped ahead, some come late, and some twice."""
    if all(one.at < other.at for one, other in pairwise(points)):
        return points
    ordered: list[Point] = []
    for each in sorted(points, key=lambda point: point.at):
        _join(ordered, each, each.at)
    return ordered


def _join(points: list[Point], part: Point, at: int) -> None:
    """Add an open point to the last one of its time, or behind it; those that are given stay as they are."""
    joined = Point(at)
    if points and points[-1].at == at:
        joined.add(points.pop())
    joined.add(part)
    points.append(joined)


def _columns(
    name: str, step: Step, points: list[Point], marks: list[Mark], features: Sequence[str], digest: bytes
) -> History:
    shown: list[int] = []
    clicks: list[int] = []
    for each in points:
        shown, clicks = _sum(shown, each.shown), _sum(clicks, each.clicks)
    made = {kind: [each.made[way] for each in points] for way, kind in KINDS.items() if way != OLD}
    return History(
        name=name,
        step=step,
        seconds=STEPS[step][0],
        time=[float(each.at * STEPS[step][0]) for each in points],
        lists=made,
        closed={kind: [each.closed[way] for each in points] for way, kind in KINDS.items()},
        clicked={kind: [each.clicked[way] for each in points] for way, kind in KINDS.items()},
        reciprocal_rank={
            kind: [each.ranks[way] / each.closed[way] if each.closed[way] else None for each in points]
            for way, kind in KINDS.items()
        },
        no_feedback=[each.no_feedback for each in points],
        learned=[each.learned for each in points],
        failed=[each.failed for each in points],
        events=[each.events for each in points],
        trouble={"missing": [each.missing for each in points], "out_of_range": [each.out_of_range for each in points]},
        model_version=[each.version for each in points],
        weights=_weights(points, features[:MOST_FEATURES], digest),
        positions_shown=shown,
        positions_clicked=clicks,
        guard=_guard(points),
        marks=[HistoryMark(each.time, each.event, each.text, each.version) for each in marks],
    )


def _weights(points: list[Point], names: Sequence[str], digest: bytes) -> dict[str, list[float | None]]:
    """Return weights by name; those of other features than there are now are left out."""
    unknown: list[float | None] = [None] * len(names)
    rows = [_row(each.weights[4:]) if each.weights[:4] == digest else unknown for each in points]
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _row(weights: bytes) -> list[float | None]:
    row: list[float | None] = np.frombuffer(weights, "<f4").astype(np.float64).tolist()
    return row


def _guard(points: list[Point]) -> HistoryGuard | None:
    if all(each.guard is None for each in points):
        return None
    bands = [None if each.guard is None else ConfidenceSequence(*each.guard[:2]) for each in points]
    return HistoryGuard(
        wins=[each.wins for each in points],
        losses=[each.losses for each in points],
        win_rate=[None if band is None else band.rate for band in bands],
        low=[None if band is None else band.interval[0] for band in bands],
        high=[None if band is None else band.interval[1] for band in bands],
        statistic=[None if each.guard is None else each.guard[2] for each in points],
        learned_share=[None if each.guard is None else each.guard[3] for each in points],
    )
