"""Who watches the service: methods that it calls when something has happened."""

from __future__ import annotations

from typing import Literal

from duelrank.api import GuardInfo

__all__ = ["GuardEvent", "Observer"]

#: What a guard has done: raised an alarm, or led a ranker one rung up; or an operator has ended an alarm.
GuardEvent = Literal["alarm", "promotion", "resume"]


class Observer:
    """Is told what happens; by itself it does nothing. Methods are called from several threads and must be quick.

    Examples
    --------
    >>> from duelrank.serving import Observer
    >>> class Count(Observer):
    ...     total = 0
    ...     def ranked(self, name, n_documents):
    ...         self.total += n_documents
    >>> counting = Count()
    >>> counting.ranked("shop", 10)
    >>> counting.total
    10
    """

    def ranked(self, name: str, n_documents: int) -> None:
        """An impression was made of so many documents."""

    def fed(self, name: str, outcome: str, count: int) -> None:
        """So many feedback events had an outcome: accepted, duplicate, unknown, expired or invalid."""

    def backfilled(self, name: str, outcome: str, count: int) -> None:
        """So many lists that another system ranked had an outcome: accepted, duplicate or invalid."""

    def closed(self, name: str, outcome: str, norm: float, clicks: int, reciprocal_rank: float) -> None:
        """An impression was closed, and "learned" from, had "no_feedback", was "skipped" or "failed".

        Then how far the weights moved, its clicks, and 1 / position of the first (0 without a click).
        """

    def published(self, name: str, version: int) -> None:
        """A model version is served from now on."""

    def guard_list(self, name: str, outcome: str) -> None:
        """A guard list was closed: "win", "loss", "tie", "no_click", "repeated" where its user had voted that day, or "ignored"."""

    def guard(self, name: str, info: GuardInfo | None) -> None:
        """How a ranker does against its baseline now, in the process that learns; None where it has no guard any more."""

    def guard_event(self, name: str, event: GuardEvent, info: GuardInfo) -> None:
        """A guard has done something, in the process that learns; once each time, not when it is restored."""

    def deleted(self, name: str) -> None:
        """A ranker is gone."""

    def feature_trouble(self, name: str, kind: str, count: int) -> None:
        """So many feature values were "missing", "nan" or "infinite", or "out_of_range" of fixed scalings."""

    def failed(self, name: str, what: str) -> None:
        """Something went wrong that should not: "learn" (an impression that could not be learned from) or "store"."""

    def open_impressions(self, name: str, count: int) -> None:
        """So many impressions are open."""

    def lag(self, events: int, seconds: float) -> None:
        """The learner has so many events of the log before it, and the oldest of them is so old."""

    def leading(self, leads: bool) -> None:
        """Whether this process is the one that learns."""

    def store(self, bytes: int, free: int | None, days_left: float | None) -> None:
        """The store has so many bytes, its disk so many free ones, which last so many days at the rate of late."""
