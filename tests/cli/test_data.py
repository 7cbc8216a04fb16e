"""``duelrank data``: add, list, info, remove."""

import pytest


@pytest.fixture
def letor(tmp_path):
    folder = tmp_path / "letor"
    folder.mkdir()
    for split in ("train", "vali", "test"):
        lines = [f"{d % 3} qid:{q} 1:{d / 4} 2:{q / 9} 3:{(d * q) % 5}" for q in range(1, 5) for d in range(6)]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_add_use_describe_remove(cli, cli_json, letor):
    report = cli_json("data", "add", "my-set", letor)
    assert (report["name"], report["n_features"], report["n_grades"]) == ("my-set", 3, 3)
    assert report["folds"]["1"]["train"] == {"queries": 4, "documents": 24}

    found = cli_json("data", "info", "my-set")
    assert found["installed"] is True
    assert found["catalogue"] is None
    assert "my-set" in {entry["name"] for entry in cli_json("list", "datasets")["datasets"]}
    assert cli_json("run", "mgd", "--dataset", "my-set", "--impressions", 20)["dataset"] == "my-set"

    assert cli("data", "remove", "my-set").exit_code == 0
    gone = cli("data", "info", "my-set")
    assert (gone.exit_code, gone.stdout) == (2, "")


def test_people_see_the_folds(cli, letor):
    assert "4 / 24" in cli("data", "add", "my-set", letor).stdout
    assert "4 / 24" in cli("data", "info", "my-set").stdout
    assert "installed" in next(line for line in cli("data", "list").stdout.splitlines() if "my-set" in line)


def test_the_catalogue_is_listed(cli, cli_json):
    found = {entry["name"]: entry for entry in cli_json("data", "list")}
    assert found["mq2008"]["installed"] is False
    assert found["mq2008"]["catalogue"]["queries"] == 784
    shown = cli("data", "list").stdout
    assert "…" not in shown
    assert "letor-4-0" in cli("data", "info", "mq2008").stdout


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("info", "mq200"), "did you mean mq2008"),
        (("add", "my-set", "no-such-folder"), "no-such-folder"),
        (("fetch", "mq2009"), "did you mean mq2008"),
        (("remove", "mq2008"), "not installed"),
    ],
)
def test_errors_are_one_helpful_line(cli, words, hint):
    result = cli("data", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert hint in result.stderr


def test_adding_twice_needs_replace(cli, letor):
    assert cli("data", "add", "my-set", letor).exit_code == 0
    assert "--replace" in cli("data", "add", "my-set", letor).stderr
    assert cli("data", "add", "my-set", letor, "--replace").exit_code == 0
