"""``duelrank evaluate`` and ``duelrank backfill --evaluate``: from a store or a log to a table, JSON and a figure."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from tests.cli.test_backfill import made

from duelrank.service.http.schema import RankerSpec

NAMES = ("text", "rating", "price")
COLUMNS = "list=search,document=product"


@pytest.fixture
def table(tmp_path):
    """Write the log of a shop that sorts by text, whose customers see position k with P = 1 / k and want cheap products."""
    rng, path = np.random.default_rng(3), tmp_path / "clicks.csv"
    with open(path, "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["search", "product", "position", "clicked", "bought", *NAMES])
        for search in range(1_500):
            products = rng.random((5, 3))
            for position, each in enumerate(products[np.argsort(-products[:, 0])].round(3), 1):
                clicked = rng.random() < (0.6 if each[2] < 0.3 else 0.1) / position
                bought = clicked and rng.random() < 0.5
                lines.writerow([search, f"p{search}-{position}", position, int(clicked), int(bought), *each])
    return path


def verdicts(found):
    return {each["name"]: each["verdict"] for each in found["candidates"]}


class TestLogs:
    def test_better_worse_and_the_same(self, cli_json, table, tmp_path):
        weights = tmp_path / "cheap.json"
        weights.write_text(json.dumps({"price": -1.0}))
        words = (
            "feature:-price",
            "feature:price",
            weights,
            "client",
            "--log",
            table,
            "--columns",
            COLUMNS,
            "--bias",
            1,
        )
        found = cli_json("evaluate", *words)
        assert verdicts(found) == {
            "feature:-price": "better",
            "feature:price": "worse",
            "cheap.json": "better",
            "client": "unknown",
        }
        assert found["lists"] == 1_500, "those without a click count, too"
        clicks = sum(int(row["clicked"]) for row in csv.DictReader(table.read_text().splitlines()))
        assert found["shown"] == pytest.approx(clicks / 1_500)
        same = found["candidates"][-1]
        assert (same["difference"], same["reason"]) == (
            pytest.approx(0.0, abs=1e-9),
            "worth the same as what was shown: its lists are the same",
        )

    def test_without_a_known_bias_nothing_can_be_told(self, cli, table):
        shown = cli("evaluate", "feature:-price", "--log", table, "--columns", COLUMNS).stdout
        assert "cannot be told from this log, because none of 1,500 lists might have had another order" in shown

    def test_weights_of_actions(self, cli_json, table):
        words = ("feature:-price", "--log", table, "--columns", f"{COLUMNS},buy=bought", "--bias", 1)
        clicks = cli_json("evaluate", *words, "--action", "buy=5")["shown"]
        actions = cli_json("evaluate", *words, "--action", "buy=5", "--reward", "actions")["shown"]
        rows = list(csv.DictReader(table.read_text().splitlines()))
        bought = sum(int(row["bought"]) for row in rows)
        assert actions == pytest.approx((sum(int(row["clicked"]) for row in rows) + 4 * bought) / 1_500)
        assert actions > clicks

    def test_a_figure(self, cli, table, tmp_path):
        words = ("feature:-price", "--log", table, "--columns", COLUMNS, "--bias", 1, "--plot", tmp_path / "worth.svg")
        assert cli("evaluate", *words).exit_code == 0
        assert "feature:-price" in (tmp_path / "worth.svg").read_text()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "give --ranker"),
            (["--log", "TABLE"], "name a candidate"),
            (["--log", "TABLE", "--ranker", "shop"], "not on both"),
            (["feature:cost", "--log", "TABLE", "--columns", COLUMNS], "no feature is called 'cost'"),
            (["best", "--log", "TABLE", "--columns", COLUMNS], "which only the store of a ranker has"),
            (["fastest", "--log", "TABLE", "--columns", COLUMNS], "a candidate is client, best"),
            (["client", "--log", "TABLE", "--columns", COLUMNS, "--action", "buy=-1"], "with a weight above 0"),
            (["client", "--log", "TABLE", "--columns", COLUMNS, "--plot", "worth.xyz"], "cannot write a figure"),
            (["client", "--log", "TABLE", "--columns", COLUMNS, "--estimator", "Exact()"], "Exact"),
            (["client", "--log", "TABLE", "--columns", COLUMNS, "--level", "2"], "level is a probability"),
            (["client", "--log", "TABLE", "--columns", COLUMNS, "--bias", "nan"], "bias is a number from 0"),
        ],
    )
    def test_mistakes_are_explained(self, cli, table, words, message):
        result = cli("evaluate", *(table if word == "TABLE" else word for word in words))
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stdout == ""


class TestBackfill:
    @pytest.fixture
    def store(self, tmp_path):
        return made(tmp_path / "shop.db", RankerSpec("shop", "wmgd-dsp", NAMES, representation="curves"))

    def test_what_a_ranker_would_learn_is_evaluated_on_the_last_lists(self, cli_json, store, table):
        words = ("backfill", "shop", "--store", store, "--log", table, "--columns", COLUMNS)
        found = cli_json(*words, "--evaluate", 0.6, "--bias", 1)
        assert (found["lists"], verdicts(found)) == (600, {"shop": "better"})
        assert cli_json(*words)["taken"] > 0, "nothing was sent before"

    def test_shares_and_stdin(self, cli, store, table):
        words = ("backfill", "shop", "--store", store, "--columns", COLUMNS, "--bias", 1)
        assert "between 0 and 1" in cli(*words, "--log", table, "--evaluate", 1.5).stderr
        assert "cannot come from stdin" in cli(*words, "--log", "-", "--evaluate", 0.5).stderr


def test_the_store_of_a_ranker(cli, cli_json, tmp_path):
    store = made(tmp_path / "shop.db", RankerSpec("shop", "wmgd-dsp", NAMES))
    refused = cli("evaluate", "--ranker", "shop", "--store", store)
    assert (refused.exit_code, "--keep-features 30d" in refused.stderr) == (2, True)
    unknown = cli("evaluate", "--ranker", "shpo", "--store", store)
    assert "did you mean shop" in unknown.stderr
