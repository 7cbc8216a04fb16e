"""``duelrank bench`` times what it is told to, and says what the numbers are."""

import json

import pytest
from typer.testing import CliRunner

from duelrank.cli import app
from duelrank.testing import benchmark


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "SIZES", ((5, 4),))
    monkeypatch.setattr(benchmark.benchmark, "__defaults__", (((5, 4),), 7, 300, None))


def test_json_has_total_kernels_outside_and_naive() -> None:
    done = CliRunner().invoke(app, ["bench", "mgd-dsp", "--rounds", "1", "--impressions", "20", "--json"])
    assert done.exit_code == 0, done.output
    (timing,) = json.loads(done.stdout)
    assert timing["algorithm"] == "mgd-dsp"
    assert timing["outside"] == pytest.approx(timing["total"] - timing["kernels"])
    assert timing["speedup"] == pytest.approx(timing["naive"] / timing["total"])
    assert timing["kernels"] > 0


def test_table_names_its_columns() -> None:
    done = CliRunner().invoke(app, ["bench", "dbgd", "--rounds", "1", "--impressions", "10"])
    assert done.exit_code == 0, done.output
    for word in ("Microseconds per impression", "kernels", "Python", "naive", "dbgd"):
        assert word in done.stdout


def test_unknown_algorithm() -> None:
    done = CliRunner().invoke(app, ["bench", "mdg"])
    assert done.exit_code == 2
    assert "no algorithm is called 'mdg'; did you mean mgd" in done.stderr
