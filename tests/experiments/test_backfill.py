"""Suites with logs: which runs they make, and what their tables say."""

from __future__ import annotations

import pytest

from duelrank import Synthetic
from duelrank.experiments import reproduce
from duelrank.experiments.suite import Backfill, load_suite, read_suite

SUITE = """
title = "t"
datasets = ["synthetic(n_queries=20)"]
users = ["perfect", "navigational"]
runs = 2
impressions = 40
[recipes]
"A" = "mgd"
"B" = "pdgd"
[[experiments]]
kind = "backfill"
title = "warm"
recipes = ["A"]
production = ["Feature(0)", "Feature(1)"]
lists = [30, 10]
[[experiments]]
kind = "tables"
title = "plain"
"""


def test_each_recipe_runs_after_each_log_and_without_one():
    specs = read_suite("mine", SUITE).specs(Synthetic(n_queries=20))
    plain = [spec for spec in specs if spec.log is None]
    warm = [spec for spec in specs if spec.log is not None]
    assert (len(plain), len(warm)) == (2 * 2 * 2, 2 * 1 * 4 * 2)
    assert {spec.log.lists for spec in warm} == {10, 30}


def test_tables_compare_with_the_same_runs_without_a_log(tmp_path):
    tables = reproduce(read_suite("mine", SUITE), tmp_path, workers=1).tables()
    first, final = (tables[f"backfill-{measure}-synthetic(n_queries=20)"] for measure in ("first", "final"))
    assert [column.head for column in first.columns] == ["no log", "10 lists", "30 lists"]
    assert [(row.section, row.name) for row in final.rows] == [
        (user, f"A, log of Feature({number})") for user in ("perfect", "navigational") for number in (0, 1)
    ]
    cold, *warm = (cell.record for cell in first.rows[0].cells)
    for record in warm:
        assert record["value"] - cold["value"] == pytest.approx(record["change"])
    assert (
        "A" not in str(tables["online"].rows) or len(tables["online"].rows) == 2 * 2
    )  # plain tables leave the logs out


def test_the_shipped_suite_has_the_logs_of_the_docs():
    (backfill,) = (each for each in load_suite("backfill").experiments if isinstance(each, Backfill))
    assert backfill.lists == (1_000, 10_000, 100_000)
    assert len(backfill.production) == 2


def test_some_recipes_only():
    suite = read_suite("mine", SUITE)
    assert not [each for each in suite.only(["B"]).experiments if isinstance(each, Backfill)]
