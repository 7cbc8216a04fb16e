"""``duelrank list`` names everything, and everything it names parses."""

import pytest

from duelrank import parse
from duelrank.core.registry import names

KINDS = {
    "scorers",
    "memories",
    "guards",
    "baselines",
    "estimators",
    "collections",
    "algorithms",
    "users",
    "datasets",
    "representations",
    "scalings",
    "multileavers",
    "metrics",
    "explorations",
    "inferences",
    "projections",
    "examinations",
    "updates",
    "experiments",
    "logs",
}


def test_all_kinds_by_default(cli_json):
    assert set(cli_json("list")) == KINDS


def test_nothing_that_has_a_name_is_left_out(cli_json):
    listed = {entry["name"] for entries in cli_json("list").values() for entry in entries}
    assert listed >= set(names()) - {"RunSpec"}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_one_kind(cli_json, kind):
    (found,) = cli_json("list", kind).values()
    assert all(entry["about"] for entry in found)
    for entry in found:
        if entry["recipe"]:
            assert parse(entry["recipe"]) == parse(entry["name"])


def test_aliases_show_what_they_stand_for(cli):
    shown = cli("list", "algorithms").stdout
    assert "mgd-dsp" in shown
    assert "Projected(base=MGD())" in shown


def test_unknown_kind(cli):
    result = cli("list", "algoritms")
    assert result.exit_code == 2
    assert "did you mean algorithms?" in result.stderr
    assert result.stdout == ""
    far = cli("list", "nonsense").stderr
    assert "kinds: algorithms, users, datasets" in far
    assert "wmgd-dsp" not in far


def test_an_overview_of_one_screen_by_default(cli):
    lines = cli("list").stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    named = [line.split()[0] for line in lines if line.startswith("  ") and "duelrank list" not in line]
    assert {"wmgd-dsp-curves", "perfect", "synthetic", "nDCG@10"} <= set(named)
    assert all(parse(name) for name in named)


@pytest.mark.parametrize("line", ["algorithms", "mgd-dsp", "--all"])
def test_what_the_overview_leads_to(cli, line):
    assert f"duelrank list {line} " in cli("list").stdout
    assert cli("list", line).exit_code == 0


def test_everything_fits_the_terminal(cli, cli_json):
    shown = cli("list", "--all").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert set(cli_json("list")) <= set(shown.splitlines())  # the kinds are headings


def test_every_user_says_what_it_does(cli_json):
    found = {entry["name"]: entry for entry in cli_json("list", "users")["users"]}
    assert found["pbm"]["recipe"] == "PBM()"
    assert "rank" in found["pbm"]["about"]
    assert {"dcm", "dbn", "ubm", "IntentDrift", "Mixture", "Opposed"} <= found.keys()
    assert len({entry["about"] for name, entry in found.items() if entry["recipe"]}) == 8  # no two say the same


class TestOneName:
    def test_parameters_of_all_parts_with_value_range_and_meaning(self, cli_json):
        found = cli_json("list", "mgd-dsp(n_candidates=49)")
        settings = {each["name"]: each for each in found["parameters"]}
        assert settings["n_candidates"]["default"] == "49"
        assert settings["n_candidates"]["part"] == "base.exploration"
        assert settings["n_candidates"]["allowed"] == "a whole number from 1 to 1,000"
        assert "directions" in settings["n_candidates"]["about"]
        assert {"delta", "learning_rate", "remembered", "beyond", "tau"} <= settings.keys()

    @pytest.mark.parametrize("name", names())
    def test_everything_in_the_list_can_be_described(self, cli_json, name):
        for each in cli_json("list", name)["parameters"]:
            assert each["about"], f"{each['class']} does not say what {each['name']} is"

    def test_parameters_that_must_be_given_say_so(self, cli):
        assert "required" in cli("list", "LongTail").stdout

    def test_it_fits_a_terminal_of_60_columns(self, cli, monkeypatch):
        monkeypatch.setenv("COLUMNS", "60")
        assert max(map(len, cli("list", "mgd-dsp").stdout.splitlines())) <= 60

    def test_unknown_name(self, cli):
        result = cli("list", "mgd-dps")
        assert result.exit_code == 2
        assert "did you mean mgd-dsp" in result.stderr
