"""``duelrank run``: one simulation, for people and for scripts."""

import sys

import pytest

from duelrank import RunSpec, parse, simulate

FEW = ("--impressions", 60, "--dataset", "synthetic(n_queries=20)")
SAID = {"algorithm", "dataset", "fold", "user", "seed", "impressions", "seconds", "online_performance"}


def test_json_says_what_a_script_needs(cli_json):
    found = cli_json("run", "mgd-dsp", "--fold", 2, "--seed", 5, "--length", 5, *FEW)
    assert found.keys() >= SAID | {"recipe", "metric", "checkpoints", "offline_curve"}
    assert (found["algorithm"], found["fold"], found["seed"], found["length"]) == ("mgd-dsp", 2, 5, 5)
    assert len(found["checkpoints"]) == len(found["offline_curve"])
    assert found["checkpoints"][-1] == 60
    assert found["offline_curve"][-1] == found["offline_performance"]


def test_numbers_are_those_of_the_simulation(cli_json):
    found = cli_json("run", "dbgd", "--user", "perfect", "--metric", "ERR@5", "--split", "validation", *FEW)
    spec = RunSpec(
        parse("dbgd"),
        parse("synthetic(n_queries=20)"),
        parse("perfect"),
        impressions=60,
        metric=parse("ERR@5"),
        split="validation",
    )
    record = simulate(spec)
    assert (found["online_performance"], found["offline_performance"]) == (
        record.online_performance,
        record.offline_performance,
    )
    assert parse(found["dataset"]) == spec.dataset
    assert parse(found["user"]) == spec.user


def test_people_see_definition_recipe_and_curve(cli):
    shown = cli("run", "mgd-dsp(n_candidates=5)", *FEW).stdout
    assert "nDCG@10: gain 2^label − 1" in shown
    assert "Σ 0.9995^t · nDCG@10" in shown
    assert "UniformSphere(n_candidates=5)" in shown
    assert "LastClick(beyond=3)" in shown  # a part that the recipe's text leaves at its default
    assert "impressions" in shown.splitlines()[-1]
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("mdg",), "did you mean mgd"),
        (("mgd", "--user", "perfekt"), "did you mean perfect"),
        (("mgd", "--dataset", "synthetik"), "did you mean synthetic"),
        (("mgd", "--metric", "ndgc@10"), "nDCG"),
        (("mgd(n_candidate=3)",), "n_candidates"),
        (("mgd(exploration=Uniform())",), "UniformSphere"),
        (("perfect",), "but an algorithm is required"),
        (("mgd(",), "cannot read"),
        (("mgd", "--impressions", "0"), "from 1 to"),
        (("mgd", "--fold", "9"), "from 1 to 5"),
        (("mgd", "--split", "train"), "'test' or 'validation'"),
        (("mgd", "--dataset", "mq2008"), "duelrank data add mq2008"),
    ],
)
@pytest.mark.parametrize("json", [(), ("--json",)])
def test_errors_are_one_helpful_line(cli, words, hint, json):
    result = cli("run", *words, *json)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert hint in result.stderr


def test_ctrl_c(cli, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("duelrank.simulation.simulate", interrupted)
    result = cli("run", "mgd", *FEW)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_a_letor_file_is_a_data_set(cli, cli_json, tmp_path):
    file = tmp_path / "clicks.txt"
    file.write_text("".join(f"{d % 3} qid:{q} 1:{d} 2:{q + d * d}\n" for q in range(10) for d in range(5)))
    found = cli_json("run", "mgd", "--dataset", file, "--impressions", 5)
    assert found["dataset"].startswith("clicks-d")
    refused = cli("run", "mgd", "--dataset", tmp_path / "nothing.txt")
    assert refused.exit_code != 0
    assert "does not exist" in " ".join(refused.stderr.split())


def test_curves_are_plotted(cli, tmp_path):
    target = tmp_path / "curves.png"
    result = cli("run", "ramps >> mgd-dsp", "--plot-curves", target, *FEW)
    assert result.exit_code == 0
    assert "nDCG@10" in result.stdout
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("mgd", "--plot-curves", "nowhere/curves.png"), "does not exist"),
        (("mgd", "--plot-curves", "curves.html"), "the name must end in"),
        (("mgd", "--plot-curves", "--json"), "the name of a file is missing"),
        (("cascade-ucb1", "--plot-curves", "curves.png"), "so it has no curves"),
        (("mlp-pdgd", "--plot-curves", "curves.png"), "mlp-pdgd is not linear"),
    ],
)
def test_curves_that_cannot_be_plotted_are_refused_before_the_run(cli, monkeypatch, words, hint):
    monkeypatch.setattr("duelrank.cli.run._simulate", lambda *_: pytest.fail("it runs"))
    result = cli("run", *words)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_plotting_without_matplotlib_says_so_before_the_run(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("duelrank.cli.run._simulate", lambda *_: pytest.fail("it runs"))
    result = cli("run", "mgd", "--plot-curves", tmp_path / "curves.png")
    assert result.exit_code == 2
    assert "pip install 'duelrank[plot]'" in result.stderr
