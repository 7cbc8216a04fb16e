"""``--device``: the same rows in the same store, marked with their device."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from duelrank.cli import app

RUNS = ("compare", "pdgd", "cascade-ucb1", "--users", "perfect", "--runs", "1", "--impressions", "30", "--workers", "1")


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """The command line, with a home of its own."""
    monkeypatch.setenv("DUELRANK_HOME", str(tmp_path / "home"))
    return lambda *words: CliRunner().invoke(app, [*map(str, words), "--dataset", "synthetic(n_queries=20)"])


def test_rows_say_where_they_were_made(cli, tmp_path):
    result = cli(*RUNS, "--device", "lockstep", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    assert {row["algorithm"]: row["device"] for row in rows} == {"pdgd": "cpu, in lockstep", "cascade-ucb1": "cpu"}
    assert "cpu (1), cpu, in lockstep (1)" in (tmp_path / "out" / "report.html").read_text()
    again = cli(*RUNS, "--out", tmp_path / "out", "--json")  # on the CPU now: all runs are there already
    assert again.exit_code == 0, again.stderr
    assert len((tmp_path / "out" / "runs.jsonl").read_text().splitlines()) == 2


def test_a_device_that_is_not_there_is_said_before_any_run(cli, monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "cpu")
    result = cli(*RUNS, "--device", "gpu")
    assert result.exit_code != 0
    assert "JAX finds no accelerator" in (result.stderr + str(result.exception))
