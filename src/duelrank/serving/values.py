"""What goes into the service and comes out of it: plain values that JSON decodes straight into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

__all__ = [
    "Document",
    "FeedbackCounts",
    "FeedbackEvent",
    "Invalid",
    "RankAnswer",
    "RankRequest",
    "Ranked",
    "RankerInfo",
    "RankerSpec",
    "Rejected",
    "Settings",
    "VersionInfo",
]

Mode = Literal["learn", "shadow", "frozen"]


class RankerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a ranker is made of; it never changes after the ranker was made.

    Parameters
    ----------
    name
        Letters, digits and ``_ . -``, the first a letter or digit, at most 100.
    algorithm
        A recipe, such as ``"mgd-dsp"``.
    features
        Names, in the order of dense arrays.
    normalisation
        As `duelrank.export.Normalisation` has it in JSON: none, per query, or fixed.
    length
        How many documents a list has where a request does not say.
    exploration
        The share of lists that explore; the others are in the order of the current weights, and nothing is learned from them.
    mode
        "learn"; "shadow" serves the documents in the order in which the client sent them, or in that of a version which was
        pinned, and learns from what users do with that; "frozen" serves the current weights and learns nothing until it is
        resumed.
    seed
        Of all that is drawn.
    close_after
        Seconds after which a list that nobody closed counts as closed.
    """

    name: str
    algorithm: str
    features: tuple[str, ...]
    normalisation: dict[str, Any] = msgspec.field(default_factory=lambda: {"kind": "none"})
    length: int = 10
    exploration: float = 1.0
    mode: Mode = "learn"
    seed: int = 0
    close_after: float = 1800.0


class RankerInfo(msgspec.Struct, frozen=True):
    """A ranker as it is now.

    Beside its spec: how many lists were made (``impressions``), how many closed ones were learned from or had no click
    (``learned``), were closed without learning, because they did not explore or learning was frozen (``skipped``), could
    not be learned from, which is never normal (``failed``), and are still ``open``; the version that a shadow serves
    (``pinned``), None where it serves the client's own order. In a process that does not learn itself
    these are as old as the newest model version.
    """

    name: str
    algorithm: str
    features: tuple[str, ...]
    normalisation: dict[str, Any]
    length: int
    exploration: float
    mode: Mode
    seed: int
    close_after: float
    impressions: int
    learned: int
    skipped: int
    failed: int
    open: int
    model_version: int
    updates: int
    created: float
    frozen: bool
    pinned: int | None = None


class Document(msgspec.Struct, frozen=True, gc=False):
    """A candidate: its id, and its features in order or by name."""

    id: str
    features: list[float] | dict[str, float]


class RankRequest(msgspec.Struct, frozen=True):
    """Documents to be ordered.

    Parameters
    ----------
    documents
        With ids that differ.
    impression_id
        Any text that names this list; the same again gives the same list again. Made up where it is not given.
    length
        How many documents to show; the ranker's own where it is not given.
    explain
        Whether to say how the scores come about.
    """

    documents: list[Document]
    impression_id: str | None = None
    length: int | None = None
    explain: bool = False


class Ranked(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A document in a list; ``position`` counts from 1. With ``explain``: its score, and what each feature adds to that."""

    id: str
    position: int
    score: float | None = None
    explain: dict[str, float] | None = None


class RankAnswer(msgspec.Struct, frozen=True):
    """A list to show."""

    impression_id: str
    model_version: int
    ranking: list[Ranked]


class FeedbackEvent(msgspec.Struct, frozen=True):
    """What a user did with a list.

    Parameters
    ----------
    event_id
        Names this event, so that it counts once however often it is sent; made from the content where it is not given.
    impression_id
        The list.
    clicks
        Ids of documents that were clicked; each counts once per list.
    examined
        How many positions were looked at, only where that was observed.
    close
        Whether nothing more will come.
    time
        By the client's clock; kept, and used for nothing.
    """

    impression_id: str
    event_id: str | None = None
    clicks: list[str] = []
    examined: int | None = None
    close: bool = False
    time: float | None = None


class Rejected(msgspec.Struct, frozen=True):
    """An event that could not be decoded: it takes its place among the others, so that they are counted."""

    event_id: str | None
    reason: str


class Invalid(msgspec.Struct, frozen=True):
    """Why an event, the ``index``-th of its request from 0, was not taken; or which of its clicks were not."""

    index: int
    event_id: str | None
    reason: str


class FeedbackCounts(msgspec.Struct, frozen=True):
    """What became of the events of a request: each is counted once, in one of the first four or in ``invalid``.

    An event of which some clicks are for documents that were not shown is accepted with the others, and also named in
    ``invalid``; with none left (and nothing else said) it is invalid only.
    """

    accepted: int = 0
    duplicate: int = 0
    unknown: int = 0
    expired: int = 0
    invalid: list[Invalid] = []


class VersionInfo(msgspec.Struct, frozen=True):
    """A model version that is still there: made at a time, of all events up to a number."""

    version: int
    time: float
    number: int
    current: bool


@dataclass(frozen=True)
class Settings:
    """How a service works; all times in seconds.

    Parameters
    ----------
    publish_every
        The least time between two model versions.
    poll_every
        How often a process looks for what others have done.
    retention
        How long events are kept at least, once they were learned from.
    keep_versions
        How many model versions are kept, beside those that open lists were made with.
    max_open
        How many lists of one ranker may be open; beyond that, the oldest are closed early.
    max_documents
        In one request.
    max_features
        Of one ranker.
    max_id
        Bytes of an id of a list, a document or an event.
    max_events
        In one request.
    max_rankers
        In one store.
    recent
        How many lists are remembered in memory, so that feedback on them needs no look into the store.
    tidy_every
        How often old events and versions are removed.
    """

    publish_every: float = 1.0
    poll_every: float = 0.5
    retention: float = 7 * 86400.0
    keep_versions: int = 20
    max_open: int = 100_000
    max_documents: int = 1000
    max_features: int = 5000
    max_id: int = 512
    max_events: int = 10_000
    max_rankers: int = 1000
    recent: int = 4096
    tidy_every: float = 60.0
