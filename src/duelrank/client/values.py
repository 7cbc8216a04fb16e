"""What goes to the service and what comes back from it, as small frozen values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

from duelrank.errors import DataFormatError

__all__ = [
    "Answer",
    "FeedbackCounts",
    "FeedbackEvent",
    "Invalid",
    "RankAnswer",
    "Ranked",
    "RankerInfo",
    "VersionInfo",
    "new_id",
]


def new_id() -> str:
    """Make up an id that nobody else has: it stays the same over all retries of one call, which makes these safe."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class FeedbackEvent:
    """What a user did with a list that was shown.

    Parameters
    ----------
    impression_id
        Of which list, as `RankAnswer` has it.
    clicks
        The ids of the documents that were clicked.
    examined
        How many documents from the top the user has seen, where this was really observed.
    close
        Nothing more will come for this list: the ranker may learn from it now.
    event_id
        Tells the event from all others; one is made up. An event that is sent twice counts once.
    """

    impression_id: str
    clicks: Sequence[str] = ()
    examined: int | None = None
    close: bool = False
    event_id: str = field(default_factory=new_id)

    def as_dict(self) -> dict[str, Any]:
        """Return the event as the service reads it."""
        clicks = [self.clicks] if isinstance(self.clicks, str) else list(self.clicks)
        content = {"event_id": self.event_id, "impression_id": self.impression_id, "clicks": clicks}
        examined = {} if self.examined is None else {"examined": int(self.examined)}
        return content | examined | {"close": self.close}


class Answer:
    """A value that the service sends as a JSON object; fields that this version does not know are passed over."""

    __slots__ = ()

    @classmethod
    def read(cls, content: Any) -> Self:
        """Make the value from the decoded object."""
        known = fields(cls)  # type: ignore[arg-type]  # all subclasses are dataclasses
        if not isinstance(content, Mapping):
            raise DataFormatError(f"the service answered {content!r} where an object was expected")
        lacking = [
            each.name
            for each in known
            if each.name not in content and each.default is MISSING and each.default_factory is MISSING
        ]
        if lacking:
            raise DataFormatError(f"the answer of the service lacks {', '.join(lacking)}: is this a duelrank service?")
        return cls(**{each.name: content[each.name] for each in known if each.name in content})

    @classmethod
    def read_all(cls, content: Any) -> tuple[Self, ...]:
        """Make one value of each object of a decoded array."""
        if not isinstance(content, Sequence) or isinstance(content, str | bytes):
            raise DataFormatError(f"the service answered {content!r} where an array was expected")
        return tuple(cls.read(each) for each in content)


@dataclass(frozen=True, slots=True)
class Ranked(Answer):
    """A document of a list: its position from 1, and where it was asked for, its score and what each feature adds to it."""

    id: str
    position: int
    score: float | None = None
    explain: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class RankAnswer(Answer):
    """A list to be shown, best first, and the impression id that its clicks must carry."""

    impression_id: str
    model_version: int
    ranking: tuple[Ranked, ...]

    def __post_init__(self) -> None:
        if not all(isinstance(each, Ranked) for each in self.ranking):
            object.__setattr__(self, "ranking", Ranked.read_all(self.ranking))

    @property
    def ids(self) -> list[str]:
        """The ids of the documents, best first."""
        return [each.id for each in self.ranking]


@dataclass(frozen=True, slots=True)
class Invalid(Answer):
    """An event, or a click of one, that the service could not use, and why; ``index`` counts the events sent, from 0."""

    index: int
    reason: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class FeedbackCounts(Answer):
    """What became of the events of one call."""

    accepted: int
    duplicate: int
    unknown: int
    expired: int
    invalid: tuple[Invalid, ...] = ()

    def __post_init__(self) -> None:
        if not all(isinstance(each, Invalid) for each in self.invalid):
            object.__setattr__(self, "invalid", Invalid.read_all(self.invalid))


@dataclass(frozen=True, slots=True)
class RankerInfo(Answer):
    """A ranker: how it was made, and how far it has come.

    Of its lists (``impressions``), some are still ``open``; the closed ones were learned from or had no click (``learned``), did
    not explore or came while the ranker was frozen (``skipped``), or, which is never normal, could not be learned from
    (``failed``). A shadow serves the version ``pinned``, or where that is None, the caller's own order.
    """

    name: str
    algorithm: str
    features: Sequence[str]
    impressions: int
    learned: int
    model_version: int
    normalisation: Mapping[str, Any] = field(default_factory=lambda: {"kind": "none"})
    length: int = 10
    exploration: float = 1.0
    mode: str = "learn"
    seed: int = 0
    close_after: float | None = None
    open: int = 0
    skipped: int = 0
    failed: int = 0
    updates: int = 0
    created: float | None = None
    frozen: bool = False
    pinned: int | None = None


@dataclass(frozen=True, slots=True)
class VersionInfo(Answer):
    """A stored version of a model: when it was published, and whether lists are made from it now."""

    version: int
    time: float
    number: int | None = None
    current: bool = False
