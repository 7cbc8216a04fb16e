"""Metrics for Prometheus: requests, events, learning, features, the store, and each ranker."""

from __future__ import annotations

import asyncio
import math
import os
from bisect import bisect_left
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from duelrank.service.http.schema import ExperimentInfo, GuardInfo
from duelrank.service.settings import Observer

if TYPE_CHECKING:
    from duelrank.service.definition import GuardEvent

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
NORMS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
#: The number of closed impressions over which the click-through rate and the reciprocal rank are averaged, approximately.
MEMORY = 1000

#: The environment variable with the folder in which several workers keep their metrics; prometheus_client reads it too.
SHARED = "PROMETHEUS_MULTIPROC_DIR"

#: Seconds after which counts of requests are written to the registry, and so to the files that other processes read.
WRITE_SECONDS = 0.25

#: How the values of several workers are combined: the sum over running workers, the largest, or the newest.
Together = Literal["livesum", "max", "livemostrecent"]

#: The gauges of a guard, whose names begin with duelrank_guard_.
_GUARD = {
    "win_rate": "Share of decisive guard lists that the learned ranker has won in this period.",
    "win_rate_low": "Lower end of the confidence band of the win rate, valid at all times.",
    "win_rate_high": "Upper end of the confidence band of the win rate.",
    "win_rate_lately": "Share that the learned ranker has won of about the last hundred decisive guard lists.",
    "e_value_log10": "Logarithm to base 10 of the e-value that the learned ranker is better.",
    "statistic": "Statistic of the harm detector.",
    "threshold": "The statistic at which an alarm is raised.",
    "rung": "Rung of the ladder that the ranker is on, from 1.",
    "learned_share": "Share of the lists, guard lists excluded, that the learned ranker decides.",
    "alarm": "1 while an alarm is active.",
    "anonymous": "Share of about the last hundred decisive guard lists that had no user_id.",
    "waiting": "Closed guard lists that are not counted yet, because an earlier one is still open.",
    "imitating": "1 while all lists have the client's order and the ranker learns to imitate it, otherwise 0.",
}


#: The gauges of a pair of systems of an experiment, whose names begin with duelrank_experiment_.
_PAIR = {
    "wins": "Counted lists of an experiment that one system has won against another one.",
    "losses": "Counted lists of an experiment that one system has lost against another one.",
    "win_rate": "Share of the lists with a winner that one system has won against another one.",
    "win_rate_low": "Lower end of the confidence band of the win rate, valid at all times.",
    "win_rate_high": "Upper end of the confidence band of the win rate.",
    "p_value": "P-value of the difference between two systems, valid at all times.",
}


class _Pending:
    """Counts of requests, in memory until they are added to the registry together: adding each one takes ten times as long.

    They belong to one event loop; without one they are added at once.
    """

    def __init__(self) -> None:
        self._counts: dict[Counter, float] = {}
        self._times: dict[Histogram, list[float]] = {}
        self._due = False

    def inc(self, counter: Counter, amount: float = 1.0) -> None:
        """Increase a counter."""
        self._counts[counter] = self._counts.get(counter, 0.0) + amount
        if not self._due:
            self._schedule()

    def observe(self, histogram: Histogram, seconds: float) -> None:
        """Add a duration to a histogram with the buckets `SECONDS`."""
        found = self._times.get(histogram) or self._times.setdefault(histogram, [0.0] * (len(SECONDS) + 2))
        found[bisect_left(SECONDS, seconds)] += 1.0
        found[-1] += seconds
        if not self._due:
            self._schedule()

    def _schedule(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.write()
        else:
            self._due = True
            loop.call_later(WRITE_SECONDS, self.write)

    def write(self) -> None:
        """Add the counts to the registry."""
        counts, times, self._counts, self._times, self._due = self._counts, self._times, {}, {}, False
        for counter, amount in counts.items():
            counter.inc(amount)
        for histogram, (*buckets, total) in times.items():
            histogram._sum.inc(total)
            for bucket, count in zip(histogram._buckets, buckets, strict=True):
                if count:
                    bucket.inc(count)


class Metrics(Observer):
    """Counts events of the service, in a separate registry.

    Labels are paths of the service, statuses, outcomes and names of existing rankers, so their number is bounded.
    """

    media_type = b"text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._averages: dict[str, tuple[int, float, float]] = {}
        self._lock = Lock()
        self._latencies: dict[str, Histogram] = {}
        self._lists: dict[str, tuple[Counter, Counter]] = {}
        self._pending = _Pending()
        self._make_requests(registry)
        self._make_learning(registry)
        self._make_state(registry)
        self._make_guards(registry)
        self._make_experiments(registry)

    def _make_requests(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(f"duelrank_{name}", help, labels, registry=registry)

        def histogram(name: str, help: str, *labels: str) -> Histogram:
            return Histogram(f"duelrank_{name}", help, labels, buckets=SECONDS, registry=registry)

        self._http = counter("http_requests_total", "Requests.", "method", "path", "status")
        self._seconds = histogram("http_request_seconds", "Time to answer, including the body.", "method", "path")
        self._ranked = counter("rank_requests_total", "Impressions made.", "ranker")
        self._documents = counter("rank_documents_total", "Documents ranked.", "ranker")
        self._latency = histogram("rank_latency_seconds", "Time to make and store an impression.", "ranker")
        self._events = counter("feedback_events_total", "Feedback events by outcome.", "ranker", "outcome")
        self._backfilled = counter(
            "backfilled_lists_total", "Logged lists of another system by outcome.", "ranker", "outcome"
        )
        self._features = counter("feature_trouble_total", "Questionable feature values by kind.", "ranker", "kind")

    def _make_learning(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(f"duelrank_{name}", help, ("ranker", *labels), registry=registry)

        self._learned = counter("learned_impressions_total", "Closed impressions that were learned from.")
        self._skipped = counter(
            "skipped_impressions_total", "Closed impressions with feedback that were not learned from.", "reason"
        )
        self._silent = counter("no_feedback_impressions_total", "Closed impressions without any feedback.")
        self._clicked = counter("clicked_impressions_total", "Closed impressions with a click.")
        self._clicks = counter("clicks_total", "Clicks on closed impressions.")
        self._updates = counter("updates_total", "Impressions that changed the weights.")
        self._norm = Histogram(
            "duelrank_update_norm",
            "Distance by which an impression moved the weights.",
            ("ranker",),
            buckets=NORMS,
            registry=registry,
        )
        self._failures = counter("failures_total", "Unexpected failures by kind.", "what")

    def _make_state(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, help: str, together: Together, *labels: str) -> Gauge:
            return Gauge(f"duelrank_{name}", help, labels, registry=registry, multiprocess_mode=together)

        recent = f"of the last {MEMORY} or so closed impressions"
        self._version = gauge("model_version", "Version that is served.", "max", "ranker")
        self._rate = gauge("click_through_rate", f"Share with a click, {recent}.", "livemostrecent", "ranker")
        self._reciprocal = gauge(
            "click_reciprocal_rank", f"Mean of 1 / position of the first click, {recent}.", "livemostrecent", "ranker"
        )
        self._open = gauge("open_impressions", "Open impressions.", "livemostrecent", "ranker")
        self._lag = gauge("learner_lag_events", "Events that the leader has not applied yet.", "livemostrecent")
        self._age = gauge(
            "oldest_unlearned_event_age_seconds",
            "Age of the oldest event that is not applied yet.",
            "livemostrecent",
        )
        self._bytes = gauge("store_bytes", "Size of the store.", "livemostrecent")
        self._free = gauge(
            "store_free_bytes", "Free space on the disk of the store; NaN if not known.", "livemostrecent"
        )
        self._days = gauge(
            "store_days_left",
            "Days until the disk is full at the current rate; NaN if not known.",
            "livemostrecent",
        )
        self._leading = gauge("leading", "1 in the leader, the process that learns.", "livesum")

    def _make_guards(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str, label: str) -> Counter:
            return Counter(f"duelrank_guard_{name}", help, ("ranker", label), registry=registry)

        self._guard_lists = counter("lists_total", "Counted guard lists by outcome.", "outcome")
        self._guard_events = counter("events_total", "Alarms, promotions, and resumes after an alarm.", "event")
        self._guard_gauges = {
            name: Gauge(
                f"duelrank_guard_{name}", help, ("ranker",), registry=registry, multiprocess_mode="livemostrecent"
            )
            for name, help in _GUARD.items()
        }
        self._guarded: set[str] = set()

    def _make_experiments(self, registry: CollectorRegistry) -> None:
        help = "Counted lists of an experiment, and those that do not count, by outcome."
        self._experiment_lists = Counter(
            "duelrank_experiment_lists_total", help, ("ranker", "outcome"), registry=registry
        )
        pair = ("ranker", "one", "other")
        self._experiment_gauges = {
            name: Gauge(
                f"duelrank_experiment_{name}", help, pair, registry=registry, multiprocess_mode="livemostrecent"
            )
            for name, help in _PAIR.items()
        }

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format; with several workers, those of all."""
        self._pending.write()
        if os.environ.get(SHARED):
            from prometheus_client.multiprocess import MultiProcessCollector

            together = CollectorRegistry()
            MultiProcessCollector(together)  # type: ignore[no-untyped-call]
            return generate_latest(together)
        return generate_latest(self.registry)

    def requests(self, method: str, path: str) -> Callable[[int, float], None]:
        """Return a function that counts a request of this path, given its status and duration."""
        pending, seconds_of = self._pending, self._seconds.labels(method, path)
        by_status: dict[int, Counter] = {}

        def count(status: int, seconds: float) -> None:
            if status not in by_status:
                by_status[status] = self._http.labels(method, path, str(status))
            pending.inc(by_status[status])
            pending.observe(seconds_of, seconds)

        return count

    def record_rank_time(self, name: str, seconds: float) -> None:
        """Record the time to make and store an impression."""
        if name not in self._latencies:
            self._latencies[name] = self._latency.labels(name)
        self._pending.observe(self._latencies[name], seconds)

    def ranked(self, name: str, n_documents: int) -> None:
        """Count an impression and its documents."""
        if name not in self._lists:
            self._lists[name] = self._ranked.labels(name), self._documents.labels(name)
        lists, documents = self._lists[name]
        self._pending.inc(lists)
        self._pending.inc(documents, n_documents)

    def fed(self, name: str, outcome: str, count: int) -> None:
        """Count feedback events by outcome."""
        self._events.labels(name, outcome).inc(count)

    def backfilled(self, name: str, outcome: str, count: int) -> None:
        """Count logged lists of another system by outcome."""
        self._backfilled.labels(name, outcome).inc(count)

    def closed(self, name: str, outcome: str, norm: float, clicks: int, reciprocal_rank: float) -> None:
        """Count a closed impression; averages start as plain means, and then forget slowly."""
        if outcome == "learned":
            self._learned.labels(name).inc()
            self._norm.labels(name).observe(norm)
        self._silent.labels(name).inc(outcome == "no_feedback")
        self._clicks.labels(name).inc(clicks)
        self._clicked.labels(name).inc(clicks > 0)
        self._updates.labels(name).inc(norm > 0.0)
        with self._lock:
            seen, rate, reciprocal = self._averages.get(name, (0, 0.0, 0.0))
            seen = min(seen + 1, MEMORY)
            rate += ((clicks > 0) - rate) / seen
            reciprocal += (reciprocal_rank - reciprocal) / seen
            self._averages[name] = (seen, rate, reciprocal)
        self._rate.labels(name).set(rate)
        self._reciprocal.labels(name).set(reciprocal)

    def skipped(self, name: str, reason: str) -> None:
        """Count a closed impression that was not learned from."""
        self._skipped.labels(name, reason).inc()

    def published(self, name: str, version: int) -> None:
        """Record the version that is served."""
        self._version.labels(name).set(version)

    def experiment_list(self, name: str, outcome: str) -> None:
        """Count a list of an experiment."""
        self._experiment_lists.labels(name, outcome).inc()

    def experiment(self, name: str, info: ExperimentInfo) -> None:
        """Update the gauges of an experiment."""
        for pair in info.pairs:
            values = (pair.wins, pair.losses, pair.win_rate, pair.low, pair.high, pair.p_value)
            for gauge, value in zip(self._experiment_gauges.values(), values, strict=True):
                gauge.labels(name, pair.one, pair.other).set(value)

    def deleted(self, name: str) -> None:
        """Remove the labels of a deleted ranker or experiment; several workers share files from which nothing can be removed."""
        self._averages.pop(name, None)
        self._latencies.pop(name, None)
        self._lists.pop(name, None)
        self._forget_guard(name)
        if not os.environ.get(SHARED):
            for metric in (*vars(self).values(), *self._experiment_gauges.values()):
                if isinstance(metric, MetricWrapperBase) and "ranker" in metric._labelnames:
                    metric.remove_by_labels({"ranker": name})

    def guard_list(self, name: str, outcome: str) -> None:
        """Count a closed guard list."""
        self._guard_lists.labels(name, outcome).inc()

    def guard_event(self, name: str, event: GuardEvent, info: GuardInfo) -> None:
        """Count an event of a guard, and update its gauges."""
        self._guard_events.labels(name, event).inc()
        self.guard(name, info)

    def guard(self, name: str, info: GuardInfo | None) -> None:
        """Update the gauges of a guard, or remove them if the ranker no longer has a guard."""
        if info is None:
            self._forget_guard(name)
            return
        self._guarded.add(name)
        self._set_guard(
            name,
            win_rate=info.win_rate,
            win_rate_low=info.low,
            win_rate_high=info.high,
            win_rate_lately=info.lately,
            e_value_log10=math.log10(info.e_value) if info.e_value > 0.0 else -math.inf,
            statistic=info.statistic,
            threshold=info.threshold,
            rung=info.rung.number,
            learned_share=info.learned_share,
            alarm=info.state == "alarm",
            anonymous=info.anonymous,
            waiting=info.waiting,
            imitating=info.phase == "imitating",
        )

    def _set_guard(self, name: str, **values: float) -> None:
        for key, value in values.items():
            self._guard_gauges[key].labels(name).set(value)

    def _forget_guard(self, name: str) -> None:
        """Remove the gauges of a guard; if workers share files, set them to NaN, which ends alerts."""
        if name not in self._guarded:
            return
        self._guarded.discard(name)
        if os.environ.get(SHARED):
            self._set_guard(name, **dict.fromkeys(_GUARD, math.nan))
        else:
            for gauge in self._guard_gauges.values():
                gauge.remove(name)

    def feature_trouble(self, name: str, kind: str, count: int) -> None:
        """Count feature values that were missing, NaN, infinite or out of range."""
        self._features.labels(name, kind).inc(count)

    def failed(self, name: str, what: str) -> None:
        """Count an unexpected failure."""
        self._failures.labels(name, what).inc()

    def open_impressions(self, name: str, count: int) -> None:
        """Record the number of open impressions."""
        self._open.labels(name).set(count)

    def lag(self, events: int, seconds: float) -> None:
        """Record the lag of the leader."""
        self._lag.set(events)
        self._age.set(seconds)

    def store(self, bytes: int, free: int | None, days_left: float | None) -> None:
        """Record the size of the store, and the free space."""
        self._bytes.set(bytes)
        self._free.set(float("nan") if free is None else free)
        self._days.set(float("nan") if days_left is None else days_left)

    def leading(self, leads: bool) -> None:
        """Record whether this process is the leader."""
        self._leading.set(leads)
        if not leads:  # the next leader reports them
            self.lag(0, 0.0)
            for name in list(self._guarded):
                self._forget_guard(name)
            if not os.environ.get(SHARED):
                for gauge in self._experiment_gauges.values():
                    gauge.clear()
