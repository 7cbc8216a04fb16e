"""deploy/prometheus-rules.yml: every metric in it is one of ours, and nothing that a guard says goes unheard."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from duelrank.service.http.metrics import Metrics

FILE = Path(__file__).parents[3] / "deploy" / "prometheus-rules.yml"
RULES = [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]
#: Those whose worth somebody has to be told of.
HEARD = {"alarm", "events_total", "statistic", "threshold", "win_rate_high", "lists_total"}


def exported() -> dict[str, set[str]]:
    """Return the labels of each metric, by the name under which Prometheus knows it."""
    found = {}
    for metric in vars(Metrics()).values():
        for each in metric.values() if isinstance(metric, dict) else [metric]:
            if hasattr(each, "_labelnames"):
                name = each._name + ("_total" if each._type == "counter" else "")
                found[name] = set(each._labelnames)
    return found


def named(rule) -> set[str]:
    return set(re.findall(r"duelrank_\w+", rule["expr"]))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_it_is_about_what_is_exported(rule):
    known = exported()
    assert named(rule) <= set(known), rule["alert"]
    assert named(rule)
    labels = {"job"}.union(*(known[name] for name in named(rule)))
    for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"]):
        assert set(re.split(r",\s*", group)) <= labels
    for label in re.findall(r"\{(\w+)=", rule["expr"]):
        assert label in labels
    assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= labels


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_it_says_what_to_do(rule):
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description"}


def test_names_differ():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def test_alerts_use_the_metrics_of_guards():
    heard = {name.removeprefix("duelrank_guard_") for rule in RULES for name in named(rule) if "_guard_" in name}
    assert heard == HEARD
    assert {f"duelrank_guard_{name}" for name in HEARD} <= set(exported())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, which comes with Prometheus, is not installed")
def test_they_fire_when_they_should(tmp_path):
    shutil.copy(FILE, tmp_path / "rules.yml")
    shutil.copy(Path(__file__).parent / "prometheus_rules_test.yml", tmp_path / "test.yml")
    done = subprocess.run(["promtool", "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
