"""``duelrank reproduce`` prints the tables, says where the report is, and explains what is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from duelrank.cli import app

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
