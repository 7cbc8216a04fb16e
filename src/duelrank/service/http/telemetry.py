"""Logging to stderr, and traces if OpenTelemetry is configured."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import entry_points
from typing import Any, Literal

from starlette.routing import Match, Route
from starlette.types import ASGIApp, Scope

LogFormat = Literal["text", "json"]

log = logging.getLogger(__name__)


def configure_logging(form: LogFormat = "text", access_log: bool = False) -> None:
    """Log to stderr: warnings of all packages, messages of the service, and every request if wanted."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    handler.addFilter(Repeats())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("duelrank").setLevel(logging.INFO)
    logging.getLogger("uvicorn.access").setLevel(logging.INFO if access_log else logging.WARNING)
    # Other commands show the first two as plain lines; uvicorn disables the third if it logs no requests.
    for name in ("duelrank.core.compiling", "duelrank.experiments", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").filters = [_without_query]


def _without_query(record: logging.LogRecord) -> bool:
    """Remove the query string from the log line of a request: it may contain private data."""
    if isinstance(record.args, tuple):
        record.args = tuple(arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args)
    return True


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Text(logging.Formatter):
    """``2026-01-02T03:04:05.678Z INFO duelrank.service: message``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return _time(record)


class _Json(logging.Formatter):
    """One JSON object on each line."""

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False)


class Repeats(logging.Filter):
    """Passes one warning or error of a kind per time window, with the number of those that were suppressed before it.

    A kind is a logger, a level, a message without its values, and the classes of the errors among these: a full disk makes one line
    per minute, not one per request.

    Parameters
    ----------
    window
        Seconds in which one line of a kind is passed.
    clock
        Clock, for tests.
    max_kinds
        Maximum number of remembered kinds.
    """

    def __init__(
        self, window: float = 60.0, clock: Callable[[], float] = time.monotonic, max_kinds: int = 1000
    ) -> None:
        super().__init__()
        self._window, self._clock, self._max_kinds = window, clock, max_kinds
        self._seen: OrderedDict[tuple[object, ...], tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log this record."""
        if record.levelno < logging.WARNING:
            return True
        held = self._held(_kind(record))
        if held is None:
            return False
        if held:
            record.msg, record.args = (
                f"{record.getMessage()} (and {held:,} more since the last line of this kind)",
                (),
            )
        return True

    def _held(self, kind: tuple[object, ...]) -> int | None:
        """Return the number of suppressed records of a kind since the last line, None to suppress this one too."""
        now = self._clock()
        with self._lock:
            since, held = self._seen.get(kind, (-float("inf"), 0))
            if now - since < self._window:
                self._seen[kind] = (since, held + 1)
                return None
            self._seen[kind] = (now, 0)
            self._seen.move_to_end(kind)
            if len(self._seen) > self._max_kinds:
                self._seen.popitem(last=False)
        return held


def _kind(record: logging.LogRecord) -> tuple[object, ...]:
    values = record.args if isinstance(record.args, tuple) else ()
    errors = [type(value) for value in values if isinstance(value, BaseException)]
    raised = record.exc_info[0] if record.exc_info else None
    return (record.name, record.levelno, record.msg, raised, *errors)


# OpenTelemetry

_CONFIGURED = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTERS = {"otlp": ("otlp", "otlp_proto_http", "otlp_proto_grpc")}
_QUIET = "healthz,readyz,metrics"


def traced(app: ASGIApp, routes: Sequence[Any] = (), provider: Any = None) -> ASGIApp:
    """Wrap an application such that each request is a span, if OpenTelemetry is installed and configured.

    It is configured if the environment names an exporter (``OTEL_TRACES_EXPORTER``) or the address of a collector
    (``OTEL_EXPORTER_OTLP_ENDPOINT``), or if a ``provider`` is given. Otherwise the application is returned unchanged.
    """
    if provider is None and not _is_configured():
        return app
    try:
        from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
    except ImportError:
        log.warning("OTEL_* is set, but traces need: pip install 'duelrank[otel]'")
        return app
    return OpenTelemetryMiddleware(
        app,
        excluded_urls=os.environ.get("OTEL_PYTHON_ASGI_EXCLUDED_URLS", _QUIET),
        default_span_details=lambda scope: _span(scope, routes),
        tracer_provider=provider or _provider(),
        exclude_spans=["receive", "send"],
    )


def _is_configured() -> bool:
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(os.environ.get(name) for name in _CONFIGURED)


def _provider() -> Any:
    """Return the provider that is already configured, such as by opentelemetry-instrument; otherwise configure one."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return trace.get_tracer_provider()
    service = os.environ.get("OTEL_SERVICE_NAME", "duelrank")
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        exporter = _exporter(name.strip())
        if exporter is not None:
            provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def _exporter(name: str) -> Any:
    known = {each.name: each for each in entry_points(group="opentelemetry_traces_exporter")}
    for candidate in _EXPORTERS.get(name, (name,)):
        if candidate in known:
            return known[candidate].load()()
    log.warning("no OpenTelemetry exporter %r is installed; installed: %s", name, ", ".join(sorted(known)) or "none")
    return None


def _span(scope: Scope, routes: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a span: the path of the operation, without names of rankers."""
    for route in routes:
        if isinstance(route, Route) and route.matches(scope)[0] == Match.FULL:
            return f"{scope['method']} {route.path}", {"http.route": route.path}
    return str(scope["method"]), {}
