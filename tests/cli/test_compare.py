"""``duelrank compare``: several algorithms with several users."""

import csv
import sys
from pathlib import Path

import pytest

from duelrank.cli.compare import ALGORITHMS

FEW = ("--impressions", 60, "--dataset", "synthetic(n_queries=20)")


def results(found):
    """Everything but times."""
    timed = {"microseconds", "seconds", "evaluation_seconds"}
    rows = [
        {name: value for name, value in row.items() if name not in timed}
        for row in found["tables"]["online-offline"] + found["runs"]
    ]
    return rows, found["curves"]


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # sockets that Dask leaves to the garbage collector
def test_a_cluster_changes_nothing_to_the_bit(cli_json):
    distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
    words = ("compare", "mgd", "mgd-dsp", "--users", "perfect", "--runs", 2, *FEW)
    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, **here) as cluster:
        far = cli_json(*words, "--scheduler", cluster.scheduler_address)
    assert results(far) == results(cli_json(*words, "--workers", 1))


def test_defaults_are_the_papers_six_with_three_users(cli_json):
    found = cli_json(
        "compare", "--runs", 1, "--workers", 1, "--impressions", 10, "--dataset", "synthetic(n_queries=20)"
    )
    rows = found["tables"]["online-offline"]
    assert list(dict.fromkeys(row["algorithm"] for row in rows)) == list(ALGORITHMS)
    assert (len(rows), len(found["curves"]), len(found["runs"])) == (36, 18, 18)
    assert {row["algorithm"] for row in rows if row["change"] is not None} == {"dbgd-dsp", "mgd-dsp", "nsgd-dsp"}


def test_table_charts_csv_and_latex(cli, tmp_path):
    target, latex = tmp_path / "table.csv", tmp_path / "table.tex"
    users = "perfect,Cascade((0.1, 0.5, 0.9), (0.0, 0.1, 0.2))"
    long = "mgd(n_candidates=5, learning_rate=0.03)"
    files = ("--csv", target, "--latex", latex)
    result = cli("compare", "mgd", "mgd-dsp", long, "--users", users, "--workers", 1, *files, *FEW)
    assert result.exit_code == 0, result.stderr
    assert "nDCG@10: gain 2^label − 1" in result.stdout
    assert result.stdout.count("while learning,") == 2
    assert max(map(len, result.stdout.splitlines())) <= 81  # a long user's own line is not a table
    with target.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "offline"]
    assert [row["algorithm"] for row in rows] == ["mgd", "mgd-dsp", long] * 2
    assert float(rows[1]["change"]) == pytest.approx(float(rows[1]["mean"]) / float(rows[0]["mean"]) - 1)
    assert r"\begin{table*}" in latex.read_text(encoding="utf-8")


def test_a_baseline_is_run_too_and_has_p_values(cli, cli_json):
    words = ("compare", "mgd", "--baseline", "dbgd", "--users", "perfect", "--runs", 3, "--workers", 1, *FEW)
    rows = cli_json(*words)["tables"]["online-offline"]
    assert [(row["algorithm"], row["baseline"], row["pairs"]) for row in rows] == [
        *(("mgd", "dbgd", 3),) * 2,
        *(("dbgd", "", 0),) * 2,
    ]
    assert all(0 <= row["p"] <= 1 for row in rows[:2])
    assert "against dbgd" in " ".join(cli(*words).stdout.split())


@pytest.mark.parametrize("width", ["60", "80"])
def test_a_narrow_terminal_keeps_the_algorithms(cli, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    shown = cli("compare", "mgd", "mgd-dsp", "--users", "perfect", "--runs", 2, "--workers", 1, *FEW).stdout
    lines = shown.splitlines()
    assert max(map(len, lines)) <= int(width)
    assert sum(line.split()[:1] == ["mgd-dsp"] for line in lines) >= 1
    assert all(word in shown for word in ("mean (sd)", "change", "µs", "offline"))


def test_a_folder_keeps_runs_and_goes_on_from_there(cli_json, tmp_path):
    words = ("compare", "mgd", "--users", "perfect", "--workers", 1, "--out", tmp_path / "out", *FEW)
    first = cli_json(*words, "--runs", 1)
    lines = (tmp_path / "out" / "runs.jsonl").read_bytes()
    again = cli_json(*words, "--runs", 2)
    assert (tmp_path / "out" / "runs.jsonl").read_bytes().startswith(lines)
    assert again["runs"][0] == first["runs"][0]  # its times too: it was not run again
    assert Path(again["report"]).exists()


def test_ctrl_c_says_how_to_keep_runs(cli, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("duelrank.experiments.pipeline.collect", interrupted)
    result = cli("compare", "mgd", "--users", "perfect", "--runs", 1, *FEW)
    assert result.exit_code == 130
    assert "With --out FOLDER they are kept" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_takes_the_file_but_not_the_numbers(cli):
    result = cli("compare", "mgd", "--users", "perfect", "--runs", 1, "--csv", "/dev/full", *FEW)
    assert result.exit_code == 2
    assert "mgd" in result.stdout
    assert result.stderr == "error: could not write /dev/full: No space left on device\n"


def test_plot(cli, tmp_path):
    target = tmp_path / "curves.png"
    result = cli("compare", "mgd", "--users", "perfect", "--runs", 1, "--plot", target, *FEW)
    assert target.read_bytes().startswith(b"\x89PNG")
    assert "while learning" not in result.stdout


def test_plot_without_matplotlib_says_so_before_any_run(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("duelrank.experiments.pipeline.run_plan", lambda *_: pytest.fail("it runs"))
    result = cli("compare", "mgd", "--plot", tmp_path / "curves.png")
    assert result.exit_code == 2
    assert "pip install 'duelrank[plot]'" in result.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("mgdd",), "did you mean mgd"),
        (("mgd", "--users", "perfect,navigation"), "did you mean navigational"),
        (("mgd", "--users", ","), "at least one"),
        (("mgd", "--runs", "0"), "runs must be"),
        (("mgd", "--workers", "0"), "workers must be"),
        (("mgd", "--scheduler", "nowhere"), "tcp://host:8786"),
        (("mgd", "--scheduler", "tcp://127.0.0.1:8786", "--workers", "2"), "exclude each other"),
        (("mgd", "--csv", "nowhere/table.csv"), "does not exist"),
        (("mgd", "--csv", "/"), "is a folder"),
        (("mgd", "--latex", "nowhere/table.tex"), "does not exist"),
        (("mgd", "--plot", "curves.docx"), ".png"),
        (("mgd", "--baseline", "mdg"), "did you mean mgd"),
    ],
)
def test_errors_are_one_helpful_line(cli, words, hint):
    result = cli("compare", *words, *FEW, "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert hint in result.stderr
