"""Log lines and traces, as operators see them."""

import json
import logging
import re

import pytest
from tests.service.http.conftest import DOCUMENTS, SHOP, TestClient

from duelrank.core.errors import StoreFull, StoreLocked
from duelrank.service.http import KeyRing, create_app
from duelrank.service.http.telemetry import Repeats, configure_logging, traced


@pytest.fixture
def configured(capsys):
    """Configure the log, and return what was written since, line by line."""
    names = ("", "duelrank", "uvicorn.access", "duelrank.core.compiling", "duelrank.experiments")
    loggers = [logging.getLogger(name) for name in names]
    before = [(each.level, each.handlers[:], each.filters, each.propagate) for each in loggers]

    def configure(*arguments):
        configure_logging(*arguments)
        return lambda: capsys.readouterr().err.splitlines()

    yield configure
    for logger, (level, handlers, filters, propagate) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:], logger.filters = handlers, filters
        logger.propagate = propagate


class TestLog:
    TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"

    def test_lines_have_a_time(self, configured):
        lines = configured("text")
        logging.getLogger("duelrank.service").info("the kernels are compiled")
        logging.getLogger("somebody.else").info("nobody wants to know")
        (line,) = lines()
        assert re.fullmatch(self.TIME + " INFO duelrank.service: the kernels are compiled", line)

    def test_json(self, configured):
        lines = configured("json")
        logging.getLogger("duelrank.service").warning("two\nlines of %s", "ü")
        try:
            raise ValueError("oh")
        except ValueError:
            logging.getLogger("duelrank").exception("failed")
        first, second = map(json.loads, lines())
        assert re.fullmatch(self.TIME, first.pop("time"))
        assert first.pop("process") > 0
        assert first == {"level": "WARNING", "logger": "duelrank.service", "message": "two\nlines of ü"}
        assert "ValueError: oh" in second["exception"]

    def test_requests_if_wanted(self, configured):
        access = logging.getLogger("uvicorn.access")
        lines = configured("text", False)
        access.info("GET /healthz")
        assert lines() == []
        lines = configured("text", True)
        access.info("GET /healthz")
        assert len(lines()) == 1

    def test_requests_have_no_query_string(self, configured):
        lines = configured("text", True)
        access = ("127.0.0.1:5", "GET", "/v1/rankers/shop/compare?impression=secret", "1.1", 200)
        logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', *access)
        (line,) = lines()
        assert line.endswith('127.0.0.1:5 - "GET /v1/rankers/shop/compare HTTP/1.1" 200')


class TestRepeats:
    @pytest.fixture
    def log(self):
        """A logger whose lines are kept, with a clock to be set."""
        logger, lines, now = logging.Logger("test"), [], [0.0]
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(record.getMessage())
        handler.addFilter(Repeats(60.0, lambda: now[0], max_kinds=3))
        logger.addHandler(handler)
        return logger, lines, now

    def test_one_line_a_minute_with_a_count(self, log):
        logger, lines, now = log
        for second in range(180):
            now[0] = float(second)
            logger.error("request %s failed: %s", f"r{second}", StoreFull("no room"))
        assert lines == [
            "request r0 failed: no room",
            "request r60 failed: no room (and 59 more since the last line of this kind)",
            "request r120 failed: no room (and 59 more since the last line of this kind)",
        ]

    def test_what_differs_is_written(self, log):
        logger, lines, _ = log
        for error in (StoreFull("a"), StoreLocked("b"), StoreFull("c")):
            logger.error("request %s failed: %s", "r", error)
        logger.warning("another message")
        assert lines == ["request r failed: a", "request r failed: b", "another message"]

    def test_milestones_are_never_held_back(self, log):
        logger, lines, _ = log
        for _ in range(3):
            logger.info("published")
        assert len(lines) == 3

    def test_the_memory_is_bounded(self, log):
        logger, lines, _ = log
        for number in range(100):
            logger.error(f"trouble {number}")
        assert len(lines) == 100
        assert len(logger.handlers[0].filters[0]._seen) == 3

    def test_a_full_disk_over_http(self, client, service, caplog):
        caplog.handler.addFilter(repeats := Repeats())
        service.raised = StoreFull("no room")
        for _ in range(20):
            assert client.post("/v1/rankers/shop/rank", json={"documents": DOCUMENTS}).status_code == 503
        caplog.handler.removeFilter(repeats)
        assert caplog.text.count("no room") == 1


class TestTraces:
    @pytest.fixture
    def spans(self):
        export = pytest.importorskip("opentelemetry.sdk.trace.export")
        memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
        provider = pytest.importorskip("opentelemetry.sdk.trace").TracerProvider()
        provider.add_span_processor(export.SimpleSpanProcessor(memory))
        return provider, memory.get_finished_spans

    def test_each_request_is_a_span_without_the_name_of_its_ranker(self, service, storage, spans):
        provider, finished = spans
        app = create_app(service, KeyRing(storage))
        with TestClient(traced(app, app.routes, provider), "http://127.0.0.1", client=("127.0.0.1", 5)) as client:
            client.post("/v1/rankers", json=SHOP)
            client.post("/v1/rankers/shop/rank", json={"documents": DOCUMENTS})
            client.get("/healthz")
            client.get("/v1/rankers/nobody")
        names = [span.name for span in finished()]
        assert names == ["POST /v1/rankers", "POST /v1/rankers/{name}/rank", "GET /v1/rankers/{name}"]
        statuses = [
            span.attributes.get("http.status_code", span.attributes.get("http.response.status_code"))
            for span in finished()
        ]
        assert statuses == [201, 200, 404]

    @pytest.mark.parametrize(
        "environment",
        [{}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}],
    )
    def test_without_a_configuration_nothing_is_wrapped(self, service, storage, monkeypatch, environment):
        for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        app = create_app(service, KeyRing(storage))
        assert traced(app) is app
