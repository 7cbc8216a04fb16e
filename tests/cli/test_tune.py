"""``duelrank tune``: the best recipe on stdout, everything else in a folder."""

import sys

import pytest

pytest.importorskip("optuna", reason="the extra 'tune' is not installed")

from duelrank import parse

TINY = "synthetic(n_queries=12, n_documents=8, n_features=6)"
FEW = ("--trials", 4, "--batch", 2, "--folds", 2, "-n", 15, "--users", "perfect", "--workers", 1)


def test_stdout_is_the_recipe(cli, tmp_path):
    result = cli("tune", "pdgd", "-d", TINY, *FEW, "--out", tmp_path / "a")
    assert result.exit_code == 0, result.stderr
    assert parse(result.stdout.strip()) == parse((tmp_path / "a" / "best.txt").read_text().strip())
    assert "learning_rate: from 0.001 to 10, by factors" in result.stderr
    assert "4 of 4 trials; best so far" in result.stderr
    assert (tmp_path / "a" / "report.html").exists()


def test_json_and_several_data_sets_in_both_forms(cli_json, tmp_path):
    more = ("-d", f"{TINY},synthetic(n_queries=9)", "-d", "synthetic(n_queries=15)")
    found = cli_json("tune", "pdgd", *more, *FEW, "--vary", "learning_rate=0.1:1", "--out", tmp_path / "a")
    assert parse(found["recipe"])
    assert found["reference"]["value"] == 1.0
    assert set(found["importance"]) <= {"learning_rate"}
    text = (tmp_path / "a" / "tune.json").read_text()
    assert all(f"n_queries={n}" in text for n in (12, 9, 15))


def test_without_matplotlib_the_report_can_be_made_later(cli, tmp_path, monkeypatch):
    words = ("tune", "pdgd", "-d", TINY, *FEW, "--out", tmp_path / "a")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "matplotlib.figure", None)
        result = cli(*words)
    assert result.exit_code == 0, result.stderr
    assert "no report: figures need matplotlib" in result.stderr
    assert not (tmp_path / "a" / "report.html").exists()
    before = (tmp_path / "a" / "runs.jsonl").read_bytes()
    again = cli(*words)
    assert again.stdout == result.stdout
    assert (tmp_path / "a" / "report.html").exists()
    assert (tmp_path / "a" / "runs.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pdgd", "--vary", "learning_rat"), "did you mean learning_rate"),
        (("cascade-ucb1",), "nothing to search"),
        (("pdgd", "--objective", "rewards"), "did you mean reward"),
        (("pdgd", "--sampler", "grid"), "known: random, tpe"),
        (("pdgd", "--vary", "learning_rate=0.1:1e9"), "must be a number from 0 to 1,000,000"),
        (("pdgd", "-d", "mq2008"), "mq2008"),
        (("pdgd", "--trials", 0), "trials must be a whole number"),
    ],
)
def test_errors_before_any_run(words, message, cli, tmp_path):
    result = cli("tune", *words, "--out", tmp_path / "a")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "a").exists()
