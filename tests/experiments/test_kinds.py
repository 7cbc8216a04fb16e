"""Experiments with guards, logs, users who change and repeated queries: the runs that they make, and their tables."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from duelrank import RunSpec, Synthetic, parse, simulate, spell
from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.datasets import Drifting
from duelrank.experiments import Frame, load_results, reproduce, summarise
from duelrank.experiments.kinds import Backfill, Guards
from duelrank.experiments.pipeline import run_suite
from duelrank.experiments.suite import load_suite, read_suite
from duelrank.experiments.summary import view_curves
from duelrank.experiments.tabulate import guard_table
from duelrank.simulation import Guarded
from duelrank.simulation.guarded import NO_GUARD

GUARD_SUITE = """
title = "t"
datasets = ["synthetic(n_queries=20)"]
users = ["perfect", "navigational"]
runs = 3
impressions = 40
[recipes]
"A" = "mgd"
"B" = "pdgd"
[guards]
"G" = "Guarded(Feature(0), share=0.3, promote=(1.0,))"
"H" = "Guarded(Skyline(), share=0.5, on_alarm='tell', promote=(1.0,), harm_after=20)"
[[experiments]]
kind = "guards"
title = "short"
name = "short"
recipes = ["A", "B"]
guards = ["H"]
users = ["perfect"]
columns = ["earlier", "alarm", "decisive", "decisive-share", "after-harm"]
[[experiments]]
kind = "guards"
title = "long"
name = "long"
recipes = ["A"]
guards = ["G"]
times = 2
runs = 2
unguarded = true
columns = ["proved-05", "proved-01", "top-rung", "win-rate", "mean", "change", "online", "online-change", "offline"]
[[experiments]]
kind = "tables"
title = "plain"
"""


def test_each_experiment_adds_its_runs_to_the_unguarded_ones():
    specs = read_suite("mine", GUARD_SUITE).specs(Synthetic(n_queries=20))
    assert len({spec.digest for spec in specs}) == len(specs)
    plain = [spec for spec in specs if spec.guard is None and spec.impressions == 40]
    short = [spec for spec in specs if spec.guard is not None and spec.impressions == 40]
    long = [spec for spec in specs if spec.impressions == 80]
    assert (len(plain), len(short), len(long)) == (2 * 2 * 3, 2 * 1 * 3, 2 * 2 * 2)
    assert len(specs) == len(plain) + len(short) + len(long)
    assert {spec.guard for spec in long} == {None, parse("Guarded(Feature(0), share=0.3, promote=(1.0,))")}


def test_the_shipped_suite_has_what_section_it_names():
    suite = load_suite("guard")
    assert {each.name for each in suite.experiments} == {"power", "power-rivals", "stepping-back", "cost", "gain"}
    assert all(isinstance(guard, Guarded) for guard in suite.guard_parts().values())
    named = {label for each in suite.experiments for label in each.guard_labels()}
    assert named == set(suite.guards)


def test_some_recipes_only():
    suite = read_suite("mine", GUARD_SUITE).only(["B"])
    (guards,) = (each for each in suite.experiments if isinstance(each, Guards))
    assert guards.recipes == ("B",)


def test_tables_of_guarded_runs_and_of_plain_ones_from_one_folder(tmp_path):
    report = reproduce(read_suite("mine", GUARD_SUITE), tmp_path, workers=1)
    tables = report.tables()
    short = tables["short-synthetic(n_queries=20)"]
    assert [(row.section, row.name) for row in short.rows] == [("perfect", "A, H"), ("perfect", "B, H")]
    long = tables["long-synthetic(n_queries=20)"]
    assert [row.name for row in long.rows] == ["no guard", "G"] * 2
    change = [cell.record for row in long.rows for cell in row.cells if cell.record["measure"] == "change of the mean"]
    assert [record.get("runs") for record in change] == [None, 2, None, 2]
    # The plain tables have neither guarded nor longer runs.
    assert {cell["runs"] for cell in tables["online"].records()} == {3}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("Feature(0)", "Fiature(0)"), "mine: guards.G: .*did you mean Feature"),
        (('guards = ["G"]', 'guards = ["K"]'), "mine, experiment 2: no guard is called 'K'"),
        (("share=0.3", "share=3.0"), "mine: guards.G: guard: share must be above 0"),
    ],
)
def test_what_is_wrong_is_said_by_key(change, words):
    with pytest.raises(InvalidValue, match=words):
        read_suite("mine", GUARD_SUITE.replace(*change))


def test_a_column_that_does_not_exist():
    with pytest.raises(UnknownName, match="did you mean alarm"):
        Guards(title="t", recipes=("a",), guards=("b",), columns=("alarms",))


def guarded(run, **columns):
    return run(**(NO_GUARD | {"guard": "Guarded(promote=(0.1, 0.5, 1.0))", "online_mean": 0.5} | columns))


def texts(table):
    return [f"{cell.text} {cell.detail}".strip() for cell in table.rows[0].cells]


def test_alarms_are_counted_from_the_accident(run):
    harm = [100, 10, 0.25]
    runs = Frame.of(
        [
            guarded(run, fold=1, guard_alarms=[30, 140], guard_alarms_decisive=[3, 30], guard_harm=harm),
            guarded(run, fold=2, guard_alarms=[160], guard_alarms_decisive=[40], guard_harm=harm),
            guarded(run, fold=3, guard_alarms=[100], guard_alarms_decisive=[9], guard_harm=harm),
        ]
    )
    columns = ("earlier", "alarm", "decisive", "after-harm")
    table = guard_table("n", "t", columns, [("perfect", "G", runs, runs.take([]))])
    assert texts(table) == ["2 of 3", "50 (2 of 3)", "25 (2 of 3)", "0.250 (0.000)"]
    assert table.rows[0].cells[1].record["least"] == 40.0


def test_proofs_and_the_top_of_the_ladder(run):
    runs = Frame.of(
        [
            guarded(run, fold=1, guard_proved=[300, 0], guard_promotions=[200, 900], guard_outcomes=[6, 2, 1, 1]),
            guarded(run, fold=2, guard_proved=[500, 700], guard_promotions=[250], guard_outcomes=[5, 5, 0, 10]),
        ]
    )
    columns = ("proved-05", "proved-01", "top-rung", "win-rate", "decisive-share")
    table = guard_table("n", "t", columns, [("perfect", "G", runs, runs.take([]))])
    expected = ["400 (2 of 2)", "700 (1 of 2)", "900 (1 of 2)", "0.625 (0.177)", "0.65 (0.21)"]
    assert texts(table) == expected


def test_the_cost_is_the_difference_at_the_same_folds_and_seeds(run):
    plain = Frame.of([guarded(run, fold=fold, guard="", online_mean=0.4 + fold / 10) for fold in (1, 2)])
    runs = Frame.of([guarded(run, fold=fold, online_mean=0.3 + fold / 10) for fold in (2, 1)])
    table = guard_table("n", "t", ("change",), [("perfect", "G", runs, plain)])
    assert texts(table) == ["−0.1000 ± 0.0000"]


def test_runs_under_different_guards_are_not_summarised_together(run):
    with pytest.raises(InvalidValue, match="the runs differ in guard"):
        summarise(Frame.of([guarded(run), guarded(run, guard="")]), "online")


LOG_SUITE = """
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
    specs = read_suite("mine", LOG_SUITE).specs(Synthetic(n_queries=20))
    plain = [spec for spec in specs if spec.log is None]
    warm = [spec for spec in specs if spec.log is not None]
    assert (len(plain), len(warm)) == (2 * 2 * 2, 2 * 1 * 4 * 2)
    assert {spec.log.lists for spec in warm} == {10, 30}


def test_tables_compare_with_the_same_runs_without_a_log(tmp_path):
    result = run_suite(read_suite("mine", LOG_SUITE), tmp_path, workers=1)
    logs = [(curve["guard"], curve.get("log")) for curve in result.described()["curves"]]
    assert len(logs) == 2 * 2 + 4 * 2
    assert len(set(logs)) == 1 + 4
    tables = result.tables
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


def test_some_recipes_with_logs_only():
    suite = read_suite("mine", LOG_SUITE)
    assert not [each for each in suite.only(["B"]).experiments if isinstance(each, Backfill)]


DATASET = "Drifting(synthetic(n_queries=20), start=100)"
DRIFT_SUITE = """
title = "t"
datasets = ["Drifting(synthetic(n_queries=20), start=100)", "synthetic(n_queries=20)", "Drifting(start=500)"]
users = ["perfect", "navigational"]
runs = 2
impressions = 250
[recipes]
"A" = "mgd"
"B" = "pdgd"
[[experiments]]
kind = "drift"
title = "change"
window = 50
share = 0.5
"""


class TestDrift:
    def test_tables_and_figures_of_the_sets_that_change(self, tmp_path):
        report = reproduce(read_suite("mine", DRIFT_SUITE), tmp_path, workers=1)
        (section,) = report.sections
        table, short = section.tables
        assert [(row.section, row.name) for row in table.rows] == [
            ("perfect", "A"),
            ("perfect", "B"),
            ("navigational", "A"),
            ("navigational", "B"),
        ]
        runs = load_results(tmp_path).where(algorithm="pdgd", user="perfect", dataset=spell(parse(DATASET)))
        before = np.mean([blocks[1] for blocks in runs["online_blocks"]])
        assert table.rows[1].cells[0].record["value"] == pytest.approx(before)
        assert table.rows[1].cells[-1].record["value"] == pytest.approx(runs["online_mean"].mean())
        assert [picture.name for picture in section.figures] == [table.name, short.name]

    def test_a_run_that_ends_before_the_change_has_no_numbers_about_it(self, tmp_path):
        report = reproduce(read_suite("mine", DRIFT_SUITE), tmp_path, users="perfect", runs=1, workers=1)
        cells = report.sections[0].tables[1].rows[0].cells
        assert [cell.text for cell in cells[:-1]] == ["–"] * 5
        assert float(cells[-1].text) > 0

    def test_the_shipped_suite_changes_within_its_runs(self):
        suite = load_suite("drift")
        for name in suite.datasets:
            change = parse(name, Drifting)
            assert 500 <= change.start < change.start + change.over <= suite.impressions or not change.over
            assert change.start < suite.impressions


HEAD = "LongTail(synthetic(n_queries=6))"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("head")


@pytest.fixture(scope="module")
def report(folder):
    """The suite with one recipe, with and without a memory."""
    return reproduce("head", folder, [HEAD], "perfect", ["PDGD", "PDGD, memory"], runs=2, impressions=120, workers=1)


class TestHead:
    """The shipped suite on few queries that repeat."""

    def test_a_recipe_with_a_memory_is_compared_with_the_same_without(self, report):
        (table,) = report.sections[0].tables
        plain, remembered = (row.cells[0].record for row in table.rows)
        assert (plain["baseline"], remembered["baseline"], remembered["pairs"]) == ("", "pdgd", 2)
        assert remembered["change"] == pytest.approx(remembered["mean"] / plain["mean"] - 1.0)

    def test_reward_by_earlier_lists_is_that_of_the_drawn_queries(self, report, folder):
        (table,) = report.sections[2].tables
        memory = load_results(folder).where(algorithm="remember >> pdgd")
        expected = []
        for row in memory.rows():
            spec = RunSpec("remember >> pdgd", HEAD, "perfect", int(row["fold"]), int(row["seed"]), 120)
            record, seen, rewards = simulate(spec), Counter(), []
            for index, reward in zip(record.queries.tolist(), record.online, strict=True):
                if 4 <= seen[index] <= 7:
                    rewards.append(reward)
                seen[index] += 1
            expected.append(np.mean(rewards))
        assert [column.head for column in table.columns][:5] == ["0", "1", "2–3", "4–7", "8–15"]
        assert table.rows[1].cells[3].record["value"] == pytest.approx(np.mean(expected))
        assert memory["lists_by_views"][0].sum() == 120

    def test_three_figures_per_data_set(self, report):
        names = [
            picture.name.partition("-LongTail")[0] for section in report.sections[1:] for picture in section.figures
        ]
        assert names == ["reward over time", "views", "held-out queries"]

    def test_a_bin_that_some_runs_lack_is_left_out(self, run):
        long, short = run(reward_by_views=[0.5, 0.6, 0.7]), run(fold=2, reward_by_views=[0.7, 0.8])
        (curve,) = view_curves(Frame.of([long, short]))
        assert curve.mean == pytest.approx((0.6, 0.7))

    def test_rows_of_earlier_versions_are_named(self, run):
        with pytest.raises(InvalidValue, match="no reward_by_views: they were made by an earlier version"):
            view_curves(Frame.of([run(reward_by_views=[])]))
