"""What Prometheus sees: requests, events, learning, features, and the rankers' own numbers."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from duelrank.serving.observer import Observer

__all__ = ["Metrics"]

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
NORMS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
MEMORY = 1000
"""The click-through rate and its like are averages over about so many closed lists; counters have the whole story."""


class Metrics(Observer):
    """Counts what happens, in a registry of its own.

    Labels are paths of the service, statuses, outcomes and names of rankers that exist, so their number is bounded.
    """

    media_type = b"text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(f"duelrank_{name}", help, labels, registry=registry)

        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(f"duelrank_{name}", help, labels, registry=registry)

        def histogram(name: str, help: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"duelrank_{name}", help, labels, buckets=buckets, registry=registry)

        self._http = counter("http_requests_total", "Requests.", "method", "path", "status")
        self._seconds = histogram("http_request_seconds", "Time to answer, body and all.", SECONDS, "method", "path")
        self._ranked = counter("rank_requests_total", "Lists that were made.", "ranker")
        self._documents = counter("rank_documents_total", "Documents that were ordered.", "ranker")
        self._latency = histogram("rank_latency_seconds", "Time to make a list and store it.", SECONDS, "ranker")
        self._events = counter("feedback_events_total", "Feedback events by what became of them.", "ranker", "outcome")
        self._learned = counter("learned_impressions_total", "Closed lists that the learner came to.", "ranker")
        self._clicked = counter("clicked_impressions_total", "Those of them with a click.", "ranker")
        self._clicks = counter("clicks_total", "Clicks on them.", "ranker")
        self._updates = counter("updates_total", "Those that changed the weights.", "ranker")
        self._norm = histogram("update_norm", "How far one list moved the weights.", NORMS, "ranker")
        self._version = gauge("model_version", "The version that is served.", "ranker")
        self._rate = gauge("click_through_rate", f"Share of lists with a click, of the last {MEMORY} or so.", "ranker")
        self._reciprocal = gauge(
            "click_reciprocal_rank", f"Mean of 1 / position of the first click, of the last {MEMORY} or so.", "ranker"
        )
        self._features = counter(
            "feature_trouble_total", "Feature values that were not as they should be.", "ranker", "kind"
        )
        self._failures = counter("failures_total", "What should never happen.", "ranker", "what")
        self._open = gauge("open_impressions", "Lists that still wait for clicks.", "ranker")
        self._age = gauge("oldest_unlearned_event_age_seconds", "How far the learner is behind.", "ranker")
        self._leading = gauge("leading", "1 in the process that learns.")
        self._averages: dict[str, tuple[int, float, float]] = {}
        self._lock = Lock()
        self._latencies: dict[str, Callable[[float], None]] = {}

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)

    def requests(self, method: str, path: str) -> Callable[[int, float], None]:
        """Return a function that counts a request of this path, by its status and seconds."""
        observe = self._seconds.labels(method, path).observe
        by_status: dict[int, Callable[[], None]] = {}

        def count(status: int, seconds: float) -> None:
            if status not in by_status:
                by_status[status] = self._http.labels(method, path, str(status)).inc
            by_status[status]()
            observe(seconds)

        return count

    def listed(self, name: str, seconds: float) -> None:
        """A list was made and stored in so many seconds."""
        if name not in self._latencies:
            self._latencies[name] = self._latency.labels(name).observe
        self._latencies[name](seconds)

    def ranked(self, name: str, n_documents: int) -> None:
        """A list was made of so many documents."""
        self._ranked.labels(name).inc()
        self._documents.labels(name).inc(n_documents)

    def fed(self, name: str, outcome: str, count: int) -> None:
        """So many events had an outcome."""
        self._events.labels(name, outcome).inc(count)

    def learned(self, name: str, norm: float, clicks: int, reciprocal_rank: float) -> None:
        """A list was closed; averages forget slowly, and start as plain means."""
        self._learned.labels(name).inc()
        self._clicks.labels(name).inc(clicks)
        self._clicked.labels(name).inc(clicks > 0)
        self._updates.labels(name).inc(norm > 0.0)
        self._norm.labels(name).observe(norm)
        with self._lock:
            seen, rate, reciprocal = self._averages.get(name, (0, 0.0, 0.0))
            seen = min(seen + 1, MEMORY)
            rate += ((clicks > 0) - rate) / seen
            reciprocal += (reciprocal_rank - reciprocal) / seen
            self._averages[name] = (seen, rate, reciprocal)
        self._rate.labels(name).set(rate)
        self._reciprocal.labels(name).set(reciprocal)

    def published(self, name: str, version: int) -> None:
        """A model version is served from now on."""
        self._version.labels(name).set(version)

    def feature_trouble(self, name: str, kind: str, count: int) -> None:
        """So many feature values were missing, NaN, infinite or out of range."""
        self._features.labels(name, kind).inc(count)

    def failed(self, name: str, what: str) -> None:
        """Something went wrong that should not."""
        self._failures.labels(name, what).inc()

    def open_impressions(self, name: str, count: int) -> None:
        """So many lists are open."""
        self._open.labels(name).set(count)

    def oldest_unlearned_age(self, name: str, seconds: float) -> None:
        """The oldest event that the learner has not come to yet is so old."""
        self._age.labels(name).set(seconds)

    def leading(self, leads: bool) -> None:
        """Whether this process is the one that learns."""
        self._leading.set(leads)
