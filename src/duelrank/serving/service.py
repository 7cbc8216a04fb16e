"""The service: rank, feedback, learn. Everything it has promised is in the store before it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from duelrank.export import LinearModel
from duelrank.serving.observer import Observer
from duelrank.serving.values import (
    FeedbackCounts,
    FeedbackEvent,
    RankAnswer,
    RankerInfo,
    RankerSpec,
    RankRequest,
    Rejected,
    Settings,
    VersionInfo,
)
from duelrank.storage import Storage

__all__ = ["Service"]


class Service:
    """Rankers in a store, served and taught. All coroutines belong to the event loop that `start` was called in.

    Errors: `NotReady` before everything was restored, `UnknownName` for a ranker that nobody made, `Conflict` for a name that
    is taken by another spec, `LimitExceeded` for too much of something, `InvalidValue`, `ShapeMismatch` and `InvalidRecipe` for
    what makes no sense, `StorageFailure` (whose ``retryable`` says whether to try again) where the store does not do its part.

    Parameters
    ----------
    storage
        The store, which the service does not close.
    settings
        Limits and times.
    """

    def __init__(self, storage: Storage, settings: Settings | None = None) -> None:
        self.storage, self.settings = storage, settings or Settings()
        self.observer = Observer()

    @property
    def ready(self) -> bool:
        """Whether all rankers were restored, so that requests can be answered."""
        raise NotImplementedError

    @property
    def failure(self) -> Exception | None:
        """What keeps the background from going on, None where nothing does; it is tried again every second."""
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to restore, to serve and to learn in the background; returns at once, see `wait_ready`."""
        raise NotImplementedError

    async def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until it is ready; raises what keeps it from that (`NotReady` where it is only time)."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the background, having saved what was learned; may be called twice."""
        raise NotImplementedError

    async def create(self, spec: RankerSpec) -> RankerInfo:
        """Make a ranker; the same spec again gives the same answer, another one under its name is a `Conflict`."""
        raise NotImplementedError

    def rankers(self) -> list[RankerInfo]:
        """Return all rankers, by name."""
        raise NotImplementedError

    def ranker(self, name: str) -> RankerInfo:
        """Return one ranker."""
        raise NotImplementedError

    async def rank(self, name: str, request: RankRequest) -> RankAnswer:
        """Return the list to show; when it returns, the list is in the store."""
        raise NotImplementedError

    async def feedback(self, name: str, events: Sequence[FeedbackEvent | Rejected]) -> FeedbackCounts:
        """Take what users did; when it returns, the accepted events are in the store."""
        raise NotImplementedError

    async def control(
        self, name: str, action: Literal["freeze", "resume", "rollback"], version: int | None = None
    ) -> RankerInfo:
        """Stop to learn, go on, or go back to a version (which becomes a new one); returns when it has happened."""
        raise NotImplementedError

    def versions(self, name: str) -> list[VersionInfo]:
        """Return the versions that one can go back to, oldest first; reads the store."""
        raise NotImplementedError

    def model(self, name: str, version: int | None = None) -> LinearModel:
        """Return the model of a version, or the current one; an earlier one is read from the store."""
        raise NotImplementedError
