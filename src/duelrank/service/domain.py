"""Defines what a ranker is: its specification, changes of it, and how far it has come; no HTTP, no disk.

`duelrank.service.http.schema` has the structs of the API, and `duelrank.service.log` those of the store; `converted` turns one kind
into another. The structs that are encoded as arrays are also parts of checkpoints: their fields are only appended, with defaults.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from duelrank.evidence import Guard, GuardSpec

T = TypeVar("T")

#: The action of a feedback event that names none.
CLICK = "click"
#: The most characters in the name of an action.
MAX_ACTION_NAME = 100

#: How the order of a list was made. A GUARD list is a team draft of the learned ranker and the client's order, a BASELINE list has
#: the client's order. The machine uses OLD for lists that are no longer learned from or counted; it is never stored.
GREEDY, EXPLORED, SHADOW, GUARD, BASELINE, OLD = 0, 1, 2, 3, 4, 5
#: The names of these kinds in the API.
LIST_KINDS = {
    GREEDY: "greedy",
    EXPLORED: "explored",
    SHADOW: "shadow",
    GUARD: "guard",
    BASELINE: "baseline",
    OLD: "old",
}

Mode = Literal["learn", "shadow", "frozen"]
Precision = Literal["float32", "float64"]
Step = Literal["minute", "hour", "day"]
#: The outcome of a closed impression.
Outcome = Literal["learned", "no_feedback", "skipped", "failed"]
#: What a guard reports: an alarm, a promotion to the next rung, or the end of an alarm by an operator.
GuardEvent = Literal["alarm", "promotion", "resume"]


def converted(value: msgspec.Struct, kind: type[T]) -> T:
    """Convert a struct to another struct type with the same fields; fields that are not set stay so.

    The fields of the outer struct must be encoded under their own names.
    """
    fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
    given = {name: each for name, each in fields if each is not msgspec.UNSET}  # UNSET is not converted as such
    return msgspec.convert(given, kind, from_attributes=True)


class Start(msgspec.Struct, frozen=True):
    """The source of the first weights: weights by name, an exported model, or a version of another ranker."""

    weights: dict[str, float] | None = None
    model: dict[str, Any] | None = None
    ranker: str | None = None
    version: int | None = None


class RankerSpec(msgspec.Struct, frozen=True):
    """The specification of a ranker; `duelrank.service.http.schema.RankerSpec` explains the fields."""

    name: str
    algorithm: str
    features: tuple[str, ...]
    representation: str | dict[str, Any] | None = None
    length: int = 10
    exploration: float = 1.0
    mode: Mode = "learn"
    seed: int = 0
    close_after: float = 1800.0
    start: Start | None = None
    precision: Precision = "float64"
    retired: tuple[str, ...] = ()
    guard: GuardSpec | None = None
    actions: dict[str, float] = msgspec.field(default_factory=lambda: {CLICK: 1.0})


class Change(msgspec.Struct, frozen=True):
    """A change of a specification; fields that are not given stay as they are."""

    exploration: float | None = None
    close_after: float | None = None
    length: int | None = None
    mode: Mode | None = None
    add_features: tuple[str, ...] = ()
    retire_features: tuple[str, ...] = ()
    guard: GuardSpec | msgspec.UnsetType | None = msgspec.UNSET
    actions: dict[str, float] | None = None

    @property
    def given(self) -> list[str]:
        """The names of the fields that change something."""
        return [name for name in self.__struct_fields__ if getattr(self, name) != getattr(_NO_CHANGE, name)]


_NO_CHANGE = Change()


class OpenImpression(msgspec.Struct, array_like=True, gc=False):
    """An impression that is still open: its number in the log, and the feedback so far."""

    number: int
    time: float
    version: int
    list_kind: int
    clicks: list[int]
    examined: int | None
    has_feedback: bool
    teams: bytes = b""
    user: bytes = b""
    length: int = 0
    weights: dict[int, float] = {}  # of clicked positions whose weight is not 1

    def add_action(self, places: list[int], weight: float) -> None:
        """Count an action of this weight at some places; the heaviest action at a place counts."""
        known = set(self.clicks)
        for place in places:
            if place not in known or weight > self.weights.get(place, 1.0):
                self.weights = {**self.weights, place: weight}
                if weight == 1.0:
                    del self.weights[place]
        self.clicks = sorted(known.union(places))


class Tally(msgspec.Struct, array_like=True, gc=False):
    """Counts of impressions, and of closed ones by their outcome.

    ``late`` counts feedback events that arrived after their impression was closed, ``backfilled`` the logged lists of other systems
    that were learned from, and ``unused`` those that arrived too late for that.
    """

    impressions: int = 0
    learned: int = 0
    skipped: int = 0
    failed: int = 0
    late: int = 0
    no_feedback: int = 0
    backfilled: int = 0
    unused: int = 0


class Status(msgspec.Struct, frozen=True, array_like=True):
    """How far a ranker has come at an event; the leader saves it for followers."""

    number: int
    tally: Tally
    open: int
    updates: int
    guard: Guard | None = None
    labels: dict[int, str] = {}
