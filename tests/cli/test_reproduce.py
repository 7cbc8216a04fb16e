"""``duelrank reproduce`` prints the tables, says where the report is, and explains what is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from duelrank.cli import app
from duelrank.experiments.suite import suite_names

SMALL = ["--datasets", "synthetic(n_queries=20, n_documents=8, n_features=6)", "--impressions", "30", "--workers", "1"]


def invoke(*arguments: str) -> object:
    return CliRunner().invoke(app, ["reproduce", *arguments])


def test_the_quick_suite(tmp_path: Path) -> None:
    done = invoke("quick", *SMALL, "--runs", "2", "--users", "perfect", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    for word in ("Online nDCG@10", "Offline nDCG@10", "DBGD-DSP", "NSGD", "report: file:///"):
        assert word in done.stdout
    assert (tmp_path / "out" / "report.html").exists()


def test_json(tmp_path: Path) -> None:
    options = ["--algorithms", "mgd,MGD-DSP", "--users", "perfect", "--runs", "1", "--out", str(tmp_path), "--json"]
    done = invoke("quick", *SMALL, *options)
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert {run["algorithm"] for run in content["runs"]} == {"mgd", "mgd-dsp"}
    assert Path(content["report"]).exists()


SUITE = """
title = "Mine"
datasets = ["synthetic(n_queries=20, n_documents=8, n_features=6)"]
users = ["perfect"]
runs = 2
impressions = 30
[recipes]
"MGD" = "mgd"
[[experiments]]
kind = "curves"
title = "Curves of my own"
"""


def test_a_suite_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "my-suite.toml"
    path.write_text(SUITE, encoding="utf-8")
    done = invoke(str(path), "--workers", "1", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert "Curves of my own" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    path.write_text(SUITE.replace("runs = 2", "rums = 2"), encoding="utf-8")
    done = invoke(str(path), "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "my-suite.toml: no key is called 'rums'; did you mean runs?" in done.stderr


def test_without_data_it_is_short() -> None:
    done = invoke("sigir19")
    assert done.exit_code == 2
    assert (
        "none of the data sets of sigir19 is installed: mq2007, mq2008, mslr-web10k, np2003, yahoo-set1" in done.stderr
    )
    assert len(done.stderr) < 400


def test_help_names_every_suite() -> None:
    shown = " ".join(invoke("--help").stdout.replace("│", " ").split())
    assert [name for name in suite_names() if name not in shown] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("quik",), "did you mean quick"),
        (("quick", "--algorithms", "mdg"), "did you mean mgd"),
        (("quick", "--datasets", "sinthetic"), "did you mean synthetic"),
        (("quick", "--users", "perfekt"), "did you mean perfect"),
        (("quick", "--runs", "0"), "runs must be a whole number from 1 up"),
        (("sigir19", "--datasets", "mq2007"), "duelrank data add mq2007"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = invoke(*arguments, "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.output


def test_the_folder_of_another_suite_is_refused(tmp_path: Path) -> None:
    options = [*SMALL, "--runs", "1", "--users", "perfect", "--algorithms", "dbgd", "--out", str(tmp_path)]
    assert invoke("quick", *options).exit_code == 0
    done = invoke("sigir19", *options)
    assert done.exit_code == 2
    assert "results of 'quick', not of 'sigir19'" in done.stderr


def test_labels_with_commas_can_be_quoted(tmp_path: Path) -> None:
    options = [*SMALL, "--runs", "1", "--users", "perfect", "--out", str(tmp_path), "--json"]
    done = invoke("sigir19-ablation", "--algorithms", "'MGD, n 9', 'MGD, n 9, unit step'", *options)
    assert done.exit_code == 0, done.output
    assert {run["algorithm"] for run in json.loads(done.stdout)["runs"]} == {"mgd", "mgd(unit=True)"}
