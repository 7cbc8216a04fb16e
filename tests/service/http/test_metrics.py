"""What Prometheus sees."""

import asyncio
import os
import subprocess
import sys
from inspect import cleandoc
from math import isnan

import pytest
from prometheus_client import Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.service.guards import guard_info
from tests.service.http.conftest import DOCUMENTS
from tests.waiting import until_async

from duelrank.service import Observer
from duelrank.service.http.metrics import MEMORY, SECONDS, Metrics


def samples(text):
    """Return {(name, labels): value}."""
    return {
        (sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_and_events(client):
    client.post("/v1/rankers/shop/rank", json={"impression_id": "i1", "documents": DOCUMENTS})
    client.post("/v1/rankers/shop/feedback", json=[{"impression_id": "i1"}, {"impression_id": "i2"}])
    client.post("/v1/rankers/nobody/rank", json={"documents": DOCUMENTS})
    client.get("/nowhere")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(answer.text)
    rank = ("method=POST", "path=/v1/rankers/{name}/rank")
    assert found["duelrank_http_requests_total", *rank, "status=200"] == 1
    assert found["duelrank_http_requests_total", *rank, "status=404"] == 1
    assert found["duelrank_http_request_seconds_count", *rank] == 2
    assert found["duelrank_http_requests_total", "method=other", "path=other", "status=404"] == 1
    assert found["duelrank_rank_requests_total", "ranker=shop"] == 1
    assert found["duelrank_rank_documents_total", "ranker=shop"] == 5
    assert found["duelrank_rank_latency_seconds_count", "ranker=shop"] == 1
    assert found["duelrank_feedback_events_total", "outcome=accepted", "ranker=shop"] == 1
    assert found["duelrank_feedback_events_total", "outcome=unknown", "ranker=shop"] == 1
    assert "nobody" not in answer.text, "names that clients make up must not become labels"


def test_durations_are_counted_as_prometheus_counts_them():
    metrics, durations = Metrics(), [0.0, 0.0005, 0.00051, 0.3, 10.0, 11.0]

    async def requests():
        for each in durations:
            metrics.record_rank_time("shop", each)
        assert not samples(generate_latest(metrics.registry).decode()).get(
            ("duelrank_rank_latency_seconds_sum", "ranker=shop")
        )
        return metrics.text()

    expected = Histogram("duelrank_rank_latency_seconds", "", ("ranker",), buckets=SECONDS, registry=None)
    for each in durations:
        expected.labels("shop").observe(each)
    found = samples(asyncio.run(requests()).decode())
    for sample in next(iter(expected.collect())).samples:
        if not sample.name.endswith("_created"):
            assert found[sample.name, *sorted(f"{key}={value}" for key, value in sample.labels.items())] == sample.value


def test_counts_reach_the_registry_without_a_request(monkeypatch):
    monkeypatch.setattr("duelrank.service.http.metrics.WRITE_SECONDS", 0.0)
    metrics = Metrics()

    async def request():
        metrics.ranked("shop", 20)
        await until_async(
            lambda: metrics.registry.get_sample_value("duelrank_rank_documents_total", {"ranker": "shop"}) == 20.0
        )

    asyncio.run(request())


def test_learning():
    metrics = Metrics()
    for outcome, clicks, reciprocal in (
        ("learned", 1, 1.0),
        ("no_feedback", 0, 0.0),
        ("learned", 2, 0.5),
        ("skipped", 0, 0.0),
    ):
        metrics.closed("shop", outcome, 0.01 * clicks, clicks, reciprocal)
    metrics.skipped("shop", "greedy")
    metrics.published("shop", 17)
    metrics.feature_trouble("shop", "nan", 3)
    metrics.failed("shop", "learn")
    metrics.open_impressions("shop", 5)
    metrics.lag(12, 1.5)
    metrics.store(1_000_000, 5_000_000, 2.5)
    metrics.leading(True)
    found = samples(metrics.text().decode())
    assert found["duelrank_learned_impressions_total", "ranker=shop"] == 2
    assert found["duelrank_skipped_impressions_total", "ranker=shop", "reason=greedy"] == 1
    assert found["duelrank_no_feedback_impressions_total", "ranker=shop"] == 1
    assert found["duelrank_clicked_impressions_total", "ranker=shop"] == 2
    assert found["duelrank_clicks_total", "ranker=shop"] == 3
    assert found["duelrank_updates_total", "ranker=shop"] == 2
    assert found["duelrank_update_norm_sum", "ranker=shop"] == pytest.approx(0.03)
    assert found["duelrank_click_through_rate", "ranker=shop"] == pytest.approx(0.5)
    assert found["duelrank_click_reciprocal_rank", "ranker=shop"] == pytest.approx(0.375)
    assert found["duelrank_model_version", "ranker=shop"] == 17
    assert found["duelrank_feature_trouble_total", "kind=nan", "ranker=shop"] == 3
    assert found["duelrank_failures_total", "ranker=shop", "what=learn"] == 1
    assert found["duelrank_open_impressions", "ranker=shop"] == 5
    assert found["duelrank_learner_lag_events",] == 12
    assert found["duelrank_oldest_unlearned_event_age_seconds",] == 1.5
    assert found["duelrank_store_bytes",] == 1_000_000
    assert found["duelrank_store_free_bytes",] == 5_000_000
    assert found["duelrank_store_days_left",] == 2.5
    assert found["duelrank_leading",] == 1


def test_guards():
    metrics = Metrics()
    for outcome in ("win", "win", "loss", "tie"):
        metrics.guard_list("shop", outcome)
    metrics.guard("shop", guard_info())
    found = samples(metrics.text().decode())
    assert found["duelrank_guard_lists_total", "outcome=win", "ranker=shop"] == 2
    assert found["duelrank_guard_lists_total", "outcome=tie", "ranker=shop"] == 1
    wanted = {
        "win_rate": 0.538, "win_rate_low": 0.512, "win_rate_high": 0.564, "win_rate_lately": 0.55, "e_value_log10": 4.4914,
        "statistic": 23.5, "threshold": 1e6, "rung": 2, "learned_share": 0.5, "alarm": 0,
    }  # fmt: skip
    gauges = {name: found[f"duelrank_guard_{name}", "ranker=shop"] for name in wanted}
    assert gauges == pytest.approx(wanted, rel=1e-4)
    metrics.guard_event("shop", "alarm", guard_info(state="alarm"))
    found = samples(metrics.text().decode())
    assert found["duelrank_guard_events_total", "event=alarm", "ranker=shop"] == 1
    assert found["duelrank_guard_alarm", "ranker=shop"] == 1
    assert found["duelrank_guard_learned_share", "ranker=shop"] == 0


def test_a_guard_that_is_gone_leaves_its_counters_alone():
    metrics = Metrics()
    metrics.guard("shop", None)
    metrics.guard_list("shop", "win")
    metrics.guard("shop", guard_info())
    metrics.guard("shop", None)
    found = samples(metrics.text().decode())
    assert [name for name, *labels in found if name.startswith("duelrank_guard") and labels] == [
        "duelrank_guard_lists_total",
        "duelrank_guard_lists_created",
    ]


def test_a_former_leader_reports_no_guards():
    """Another process does, and an alarm that it has ended must not stand here for ever."""
    metrics = Metrics()
    metrics.guard("shop", guard_info(state="alarm"))
    metrics.leading(False)
    assert 'duelrank_guard_alarm{ranker="shop"}' not in metrics.text().decode()


def test_with_shared_metrics_a_removed_guard_is_nan(tmp_path):
    """Nothing can be removed there; NaN is above and below nothing, so no alert goes on for ever."""
    code = """
        from tests.service.guards import guard_info
        from duelrank.service.http.metrics import Metrics
        metrics = Metrics()
        for name, after in (("shop", lambda: metrics.guard("shop", None)), ("other", lambda: metrics.deleted("other"))):
            metrics.guard(name, guard_info(state="alarm"))
            print(f'duelrank_guard_alarm{{ranker="{name}"}} 1.0' in metrics.text().decode())
            after()
            print(f'duelrank_guard_alarm{{ranker="{name}"}} NaN' in metrics.text().decode())
        """
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    command = [sys.executable, "-c", cleandoc(code)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 4


def test_averages_follow_a_change():
    metrics = Metrics()
    for clicks in [0] * 5 * MEMORY + [1] * 5 * MEMORY:
        metrics.closed("shop", "learned", 0.0, clicks, float(clicks))
    rate = samples(metrics.text().decode())["duelrank_click_through_rate", "ranker=shop"]
    assert rate == pytest.approx(1.0 - (1.0 - 1.0 / MEMORY) ** (5 * MEMORY))


def test_what_is_not_known_of_a_disk_is_said():
    metrics = Metrics()
    metrics.store(5, None, None)
    found = samples(metrics.text().decode())
    assert found["duelrank_store_bytes",] == 5
    assert isnan(found["duelrank_store_free_bytes",])
    assert isnan(found["duelrank_store_days_left",])


def test_every_method_of_an_observer_is_counted():
    told = {name for name in vars(Observer) if not name.startswith("_")}
    assert told <= set(vars(Metrics))


def test_two_applications_do_not_share_numbers():
    first, second = Metrics(), Metrics()
    first.published("shop", 2)
    assert b"shop" not in second.text()


def test_a_ranker_that_is_gone_leaves_no_labels():
    metrics = Metrics()
    for name in ("shop", "other"):
        metrics.ranked(name, 3)
        metrics.record_rank_time(name, 0.1)
        metrics.fed(name, "accepted", 1)
        metrics.closed(name, "learned", 0.1, 1, 1.0)
        metrics.published(name, 2)
        metrics.open_impressions(name, 1)
        metrics.feature_trouble(name, "nan", 1)
        metrics.guard_list(name, "win")
        metrics.guard_event(name, "promotion", guard_info())
    metrics.deleted("shop")
    text = metrics.text().decode()
    assert 'ranker="shop"' not in text
    assert 'ranker="other"' in text
    metrics.record_rank_time("shop", 0.1)
    assert samples(metrics.text().decode())["duelrank_rank_latency_seconds_count", "ranker=shop"] == 1
