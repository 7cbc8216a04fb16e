"""A suite runs what is missing, keeps what is finished through kills, and writes all its tables and figures."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from tests.waiting import FOR_EVER, until

from duelrank import parse, register
from duelrank.core.errors import InvalidValue, MissingData
from duelrank.experiments import (
    Experiment,
    Frame,
    Store,
    Study,
    Table,
    compare,
    load_results,
    pipeline,
    reproduce,
)
from duelrank.experiments.kinds import Tables
from duelrank.experiments.pipeline import Plan, collect, make_report, plan, select
from duelrank.experiments.results import fingerprint
from duelrank.experiments.suite import load_suite, read_suite
from duelrank.experiments.tables import Cell, Column, Row

SMALL = "synthetic(n_queries=20, n_documents=8, n_features=6)"

EVERYTHING = f"""
title = "Every kind of experiment"
datasets = ["{SMALL}"]
users = ["perfect", "navigational"]
runs = 2
impressions = 40
[recipes]
"MGD" = "mgd(n_candidates=3)"
"MGD, unit" = "mgd(n_candidates=3, unit=True)"
"MGD-DSP" = "mgd-dsp(n_candidates=3)"
[published]
"MGD" = "mgd"
"MGD-DSP" = "mgd-dsp"
[[experiments]]
kind = "tables"
title = "The tables"
question = "Q1?"
[[experiments]]
kind = "curves"
column = "offline_curve"
skyline = true
recipes = ["MGD", "MGD-DSP"]
title = "Offline curves"
question = "Q1?"
[[experiments]]
kind = "curves"
column = "cosine_curve"
recipes = ["MGD", "MGD-DSP"]
title = "Cosine curves"
question = "Q2?"
[[experiments]]
kind = "sweep"
parameter = "λ"
field = "strength"
values = [0.0, 1.0]
label = "MGD-DSP"
recipe = "mgd-dsp(n_candidates=3)"
base = "MGD"
title = "A sweep"
question = "Q3?"
[[experiments]]
kind = "ablation"
title = "An ablation"
question = "Q2?"
"""


@pytest.fixture(scope="module")
def everything() -> Plan:
    return plan(read_suite("everything", EVERYTHING))


@pytest.fixture(scope="module")
def kept(everything: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which that suite is finished."""
    folder = tmp_path_factory.mktemp("kept")
    run(everything, folder)
    return folder


@pytest.fixture
def finished(kept: Path, tmp_path: Path) -> Path:
    """A copy of it, which a test may change."""
    return shutil.copytree(kept, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def frame(kept: Path) -> Frame:
    """What was found in it."""
    return load_results(kept, "everything")


def run(wanted: Plan, folder: Path, **options: object) -> Frame:
    with Store(folder, wanted.suite.name) as store:
        return collect(wanted, store, workers=1, **options)  # type: ignore[arg-type]


def test_every_experiment_is_written(everything: Plan, frame: Frame, tmp_path: Path) -> None:
    report = make_report(everything, frame, 1.0, "duelrank reproduce everything").write(tmp_path)
    text = report.read_text(encoding="utf-8")
    for section in (
        "The tables",
        "Offline curves",
        "Cosine curves",
        "A sweep",
        "An ablation",
        "How these results were made",
    ):
        assert section in text
    for name in ("online.md", "online.csv", "online.tex", "offline.md"):
        assert (tmp_path / name).stat().st_size > 0
    figures = {path.stem for path in (tmp_path / "figures").glob("*.svg")}
    assert figures == {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert len(figures) == 1 + 2 + 2 + 1  # tables, two of curves, a sweep of two measures, one number of candidates
    HTMLParser().feed(text)
    assert "Skyline, a linear LambdaRank" in text
    assert f"{everything.study(frame).skylines[SMALL]:.3f}" in (tmp_path / "offline.md").read_text(encoding="utf-8")


def test_a_finished_run_is_never_run_again(
    everything: Plan, finished: Path, frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("ran again")

    monkeypatch.setattr(pipeline, "run_all", refuse)
    again = run(everything, finished)
    np.testing.assert_array_equal(frame["online_performance"], again["online_performance"])


def test_only_sessions_that_make_runs_add_to_the_wall_time(everything: Plan, finished: Path) -> None:
    with Store(finished, "everything") as store:
        taken = store.wall_seconds
    assert taken > 0
    run(everything, finished)
    with Store(finished, "everything") as store:
        assert store.wall_seconds == taken


def test_an_interrupted_session_keeps_runs_and_wall_time(everything: Plan, tmp_path: Path) -> None:
    def interrupt(done: int, _total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(everything, tmp_path, progress=interrupt)
    with Store(tmp_path, "everything") as store:
        assert len(store.done()) == 3
        assert store.wall_seconds > 0


def test_compare_and_reproduce_are_one_pipeline(tmp_path: Path) -> None:
    """The same runs give the same rows, in memory and in a folder, through either front door."""
    asked = {"users": ["perfect"], "runs": 2, "impressions": 30, "workers": 1}
    kept = compare(["mgd", "mgd-dsp"], SMALL, out=tmp_path / "kept", **asked)
    memory = compare(["mgd", "mgd-dsp"], SMALL, **asked)
    report = reproduce("quick", tmp_path / "quick", [SMALL], algorithms=["mgd", "mgd-dsp"], **asked)
    assert kept["digest"].tolist() == memory["digest"].tolist()
    assert kept["online_performance"].tolist() == memory["online_performance"].tolist()
    online = report.tables()["online"].records()
    together = [record for record in memory.table().records() if record["measure"] == "online"]
    assert [(r["algorithm"], r["mean"], r["p"]) for r in online] == [
        (r["algorithm"], r["mean"], r["p"]) for r in together
    ]
    assert (tmp_path / "quick" / "report.html").exists()


OWN_KIND = f"""
title = "A kind of one's own"
datasets = ["{SMALL}"]
users = ["perfect"]
runs = 1
impressions = 30
recipes = {{ MGD = "mgd" }}
[[experiments]]
kind = "update-counts"
title = "How often it learns"
least = 1
"""


@pytest.mark.usefixtures("clean_registry")
def test_a_kind_of_experiment_from_outside(tmp_path: Path) -> None:
    @register
    @dataclass(frozen=True, repr=False, kw_only=True)
    class UpdateCounts(Experiment):
        """A table of how many impressions changed the weights."""

        least: int = 0

        def tables(self, study: Study) -> tuple[Table, ...]:
            rows = tuple(
                Row(study.labels[name], (Cell(str(n), record={"algorithm": name, "updates": n}),))
                for name, n in zip(study.frame["algorithm"].tolist(), study.frame["updates"].tolist(), strict=True)
                if n >= self.least
            )
            return (Table("updates", "Updates", (Column("updates"),), rows),)

    wanted = plan(read_suite("own", OWN_KIND))
    frame = run(wanted, tmp_path)
    make_report(wanted, frame).write(tmp_path)
    assert (tmp_path / "updates.csv").read_text() == f"algorithm,updates\nmgd,{frame['updates'][0]}\n"
    assert "How often it learns" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(InvalidValue, match=r"experiment 1 \(update-counts\): least: Expected `int`, got `str`"):
        read_suite("own", OWN_KIND.replace("least = 1", 'least = "1"'))


def test_more_runs_are_added_to_those_that_are_there(everything: Plan, finished: Path) -> None:
    more = plan(read_suite("everything", EVERYTHING), runs=3)
    told: list[tuple[int, int]] = []
    frame = run(more, finished, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (len(everything.specs()), len(more.specs()))
    assert len(frame) == len(more.specs())


def test_cosines_are_those_of_the_reference(frame: Frame) -> None:
    lengths = {len(curve) for curve in frame["cosine_curve"]}
    assert lengths == {len(frame["checkpoints"][0])}
    assert all(np.abs(curve).max() <= 1.0 + 1e-12 for curve in frame["cosine_curve"])


def test_strength_zero_is_the_base_to_the_bit(frame: Frame) -> None:
    projected = next(a for a in set(frame["algorithm"].tolist()) if "strength=0.0" in a)
    for measure in ("online_performance", "offline_performance"):
        base = frame.where(algorithm="mgd(n_candidates=3)")[measure]
        np.testing.assert_array_equal(frame.where(algorithm=projected)[measure], base)


def test_labels_are_found_by_spelled_recipes(everything: Plan) -> None:
    assert everything.study(Frame({})).labels["mgd-dsp(n_candidates=3)"] == "MGD-DSP"


def test_missing_data_is_named_and_skipped() -> None:
    wanted = plan(load_suite("quick"), datasets=["synthetic", "mq2008"])
    assert wanted.skipped == ("mq2008",)
    assert [repr(dataset) for dataset in wanted.datasets] == ["Synthetic()"]


def test_without_any_data_there_is_nothing_to_do() -> None:
    with pytest.raises(MissingData, match=r"none of the data sets of sigir19 is installed: mq2007, mq2008") as caught:
        plan(load_suite("sigir19"), datasets=["mq2007", "mq2008"])
    assert len(str(caught.value)) < 300
    with pytest.raises(MissingData, match="duelrank data add mq2008"):
        plan(load_suite("sigir19"), datasets=["mq2008"])


def test_results_on_other_data_are_not_mixed_in(
    everything: Plan, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "fingerprint", lambda fold: "imported anew")
    with pytest.raises(InvalidValue, match="has results on other data"):
        run(everything, finished)


def test_fingerprints_tell_data_apart() -> None:
    one, other = (fingerprint(parse(SMALL).fold(number)) for number in (1, 2))
    assert one == fingerprint(parse(SMALL).fold(1))
    assert one != other


def test_a_data_set_that_is_named_twice_is_used_once() -> None:
    assert len(plan(load_suite("quick"), datasets=["synthetic", "Synthetic()"]).datasets) == 1


def test_incomplete_results_are_not_shown_as_complete(everything: Plan, frame: Frame) -> None:
    specs = everything.specs()
    with pytest.raises(InvalidValue, match=r"1 of .* runs are missing"):
        select(frame.take(np.arange(1, len(frame))), specs)


@pytest.mark.processes
def test_a_killed_suite_resumes_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Kill -9 in the middle, twice; what was finished is kept, and the rest gives the same numbers to the bit."""
    command = [sys.executable, "-m", "duelrank", "reproduce", "quick", "--datasets", SMALL, "--runs", "6"]
    command += ["--users", "perfect", "--algorithms", "mgd,dbgd-dsp", "--impressions", "1500"]
    command += ["--workers", "2", "--out", str(tmp_path / "killed")]
    lines = tmp_path / "killed" / "runs.jsonl"
    seen = 0
    for _ in range(2):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        until(lambda: process.poll() is not None or count(lines) >= seen + 3)  # noqa: B023  # waited for here
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert count(lines) >= seen + 3
        seen = count(lines)
    same = plan(load_suite("quick"), [SMALL], ["perfect"], ["mgd", "dbgd-dsp"], runs=6, impressions=1500)
    results = [
        {each["id"]: each["online_performance"] for each in run(same, tmp_path / name).rows()}
        for name in ("killed", "clean")
    ]
    assert results[0] == results[1]
    assert len(results[0]) == 2 * 6


def count(lines: Path) -> int:
    """How many runs are finished."""
    return lines.read_bytes().count(b"\n") if lines.exists() else 0


@pytest.mark.processes
def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "duelrank", "reproduce", "quick", "--datasets", SMALL, "--impressions", "2000"]
    command += ["--users", "perfect", "--algorithms", "mgd", "--runs", "50"]
    command += ["--workers", "2", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines = tmp_path / "out" / "runs.jsonl"
    until(lambda: count(lines) > 0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=FOR_EVER)
    assert process.returncode == 130
    assert "finished runs are kept" in said
    assert "duelrank reproduce quick" in said
    assert lines.read_bytes().endswith(b"\n")


def test_the_tests_of_all_tables_of_a_report_are_one_family(frame: Frame, everything: Plan) -> None:
    """Each table has a test for each of two users and measures."""
    pair = ("MGD", "MGD-DSP")
    tables = tuple(Tables(title=f"Against {each}", baseline=each, recipes=pair) for each in pair)
    study = replace(everything, suite=replace(everything.suite, experiments=tables)).study(frame)
    notes = [" ".join(table.notes) for each in tables for table in each.tables(study)]
    assert sum("for the 8 tests of this page" in note for note in notes) == 4
