"""Settings of a service, its clocks, and the observer that receives its events."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duelrank.service.definition import GuardEvent
    from duelrank.service.http import schema

#: The representation of a new ranker whose spec names none. It is stored in the spec of the ranker, so another default changes
#: nothing for existing rankers.
DEFAULT_REPRESENTATION = "curves"
#: Leases: of the leader; and on a store that is for one process that serves, of that process.
LEASE, SERVING = "learner", "serving"
ONE_SERVER = (
    "another process serves from this store, and a SQLite store is for one process; stop the other one first, or use PostgreSQL "
    "for several processes"
)


@dataclass(frozen=True)
class Settings:
    """Limits and intervals of a service; all times are in seconds.

    Parameters
    ----------
    publish_every
        Minimum time between two model versions.
    poll_every
        Interval at which a process looks for changes made by others.
    retention
        Minimum time for which events are kept after they were learned from.
    keep_features
        Minimum time for which the features of impressions are kept after they were learned from; a replay can go back this far.
        With 0 they are dropped as soon as the three newest checkpoints do not need them.
    keep_versions
        Number of the newest model versions that are kept, in addition to those that made open impressions. Of older versions the
        first of each minute is kept for an hour, of each hour for a day, of each day for 31 days; versions with a label are kept
        until the label is removed.
    max_open
        Maximum number of open impressions of one ranker, and of closed guard lists that wait for one of them; beyond that, the
        oldest are closed early.
    max_documents
        Maximum number of documents in one request.
    max_features
        Maximum number of features of one ranker.
    max_id
        Maximum number of bytes in the id of an impression, a document or an event.
    max_events
        Maximum number of events in one request.
    max_rankers
        Maximum number of rankers in one store.
    remember_queries, remember_documents
        Maximum numbers of queries, and of documents of a query, that the algorithm of a ranker may remember. The algorithm decides
        how many it remembers, because a replay must remember the same.
    recent
        Number of impressions that are cached in memory, so that feedback on them needs no query to the store.
    tidy_every
        Interval at which old features, events and versions are removed.
    warm_up
        Recipes that are compiled before the service is ready.
    webhook
        The http or https address that receives events of guards, for rankers whose guard has no webhook.
    private_webhooks
        Whether webhooks may go to addresses that are not public, such as this machine, its network, or services of its cloud.
    salt
        Bytes, at most 64, that new rankers mix into the random numbers of their lists, for repeatable tests and simulations. None,
        the right choice in production, draws secret random bytes for each ranker.

    Examples
    --------
    Keep features for a day; events are kept for a week, the default:

    >>> from duelrank.service import Settings
    >>> settings = Settings(keep_features=24 * 3600.0)
    >>> settings.keep_features / 3600, settings.retention / 3600
    (24.0, 168.0)
    """

    publish_every: float = 1.0
    poll_every: float = 0.5
    retention: float = 7 * 86400.0
    keep_features: float = 0.0
    keep_versions: int = 20
    max_open: int = 100_000
    max_documents: int = 1000
    max_features: int = 5000
    max_id: int = 512
    max_events: int = 10_000
    max_rankers: int = 1000
    remember_queries: int = 100_000
    remember_documents: int = 100
    recent: int = 4096
    tidy_every: float = 60.0
    warm_up: tuple[str, ...] = ()
    webhook: str | None = None
    private_webhooks: bool = False
    salt: bytes | None = None


class Clock:
    """The clocks of this computer; tests replace them."""

    def time(self) -> float:
        """Return seconds since 1970; may jump in both directions."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never goes back."""
        return time.monotonic()


class Observer:
    """Receives events of a service; the methods of this class do nothing. They are called from several threads and must be fast.

    Examples
    --------
    >>> from duelrank.service import Observer
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
        """An impression of ``n_documents`` candidates was made."""

    def fed(self, name: str, outcome: str, count: int) -> None:
        """A number of feedback events had an outcome: accepted, duplicate, unknown, expired or invalid."""

    def backfilled(self, name: str, outcome: str, count: int) -> None:
        """A number of logged lists of another system had an outcome: accepted, duplicate or invalid."""

    def closed(self, name: str, outcome: str, norm: float, clicks: int, reciprocal_rank: float) -> None:
        """An impression was closed.

        Parameters
        ----------
        name
            Name of the ranker.
        outcome
            "learned", "no_feedback", "skipped" or "failed".
        norm
            Distance by which the weights moved.
        clicks
            Number of clicks.
        reciprocal_rank
            1 / position of the first click, 0 without a click.
        """

    def skipped(self, name: str, reason: str) -> None:
        """A closed impression with feedback was not learned from: "guard", "baseline", "greedy", "frozen", "alarm" or "old"."""

    def published(self, name: str, version: int) -> None:
        """A new model version is served."""

    def guard_list(self, name: str, outcome: str) -> None:
        """A guard list was closed: "win", "loss", "tie", "no_click", "repeated" (its user had voted that day) or "ignored"."""

    def guard(self, name: str, info: schema.GuardInfo | None) -> None:
        """The evidence of a guard has changed; None if the ranker no longer has a guard. Called in the leader only."""

    def guard_event(self, name: str, event: GuardEvent, info: schema.GuardInfo) -> None:
        """A guard has raised an alarm or promoted a ranker, or an alarm has ended; called in the leader, once for each event."""

    def experiment_list(self, name: str, outcome: str) -> None:
        """A list of an experiment is counted, "decisive", "tie" or "no_click"; or not: "repeated", "no_feedback" or "failed"."""

    def experiment(self, name: str, info: schema.ExperimentInfo) -> None:
        """The counts of an experiment have changed. Called in the leader only."""

    def deleted(self, name: str) -> None:
        """A ranker or an experiment was deleted."""

    def feature_trouble(self, name: str, kind: str, count: int) -> None:
        """A number of feature values were "missing", "nan", "infinite", or "out_of_range" of fixed scalings."""

    def failed(self, name: str, what: str) -> None:
        """An unexpected failure: "learn" (an impression could not be learned from), "store" or "background"."""

    def open_impressions(self, name: str, count: int) -> None:
        """The number of open impressions of a ranker."""

    def lag(self, events: int, seconds: float) -> None:
        """The number of events that the leader has not applied yet, and the age of the oldest of them."""

    def leading(self, leads: bool) -> None:
        """Whether this process is the leader."""

    def store(self, bytes: int, free: int | None, days_left: float | None) -> None:
        """Store size, free space on its disk, and days until the disk is full at the current rate."""
