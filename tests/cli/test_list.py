"""``duelrank list`` names everything, and everything it names parses."""

import pytest

from duelrank import parse
from duelrank.registry import names

KINDS = {
    "algorithms",
    "users",
    "datasets",
    "multileavers",
    "metrics",
    "explorations",
    "inferences",
    "projections",
    "examinations",
    "updates",
    "experiments",
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


def test_nothing_is_wider_than_the_terminal(cli):
    assert max(map(len, cli("list").stdout.splitlines())) <= 80


def test_every_user_says_what_it_does(cli_json):
    found = {entry["name"]: entry for entry in cli_json("list", "users")["users"]}
    assert found["pbm"]["recipe"] == "PBM()"
    assert "rank" in found["pbm"]["about"]
    assert {"dcm", "dbn", "ubm", "IntentDrift", "Mixture", "Opposed"} <= found.keys()
    assert len({entry["about"] for name, entry in found.items() if entry["recipe"]}) == 8  # no two say the same
