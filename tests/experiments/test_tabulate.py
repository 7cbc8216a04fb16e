"""The tables that are made of summaries: their columns, rows, cells and notes."""

from dataclasses import replace

import pytest

from duelrank.core.errors import InvalidValue
from duelrank.experiments import (
    Estimate,
    Frame,
    league_table,
    performance_table,
    replicate,
    replication_table,
    summarise,
)
from duelrank.experiments.summary import corrected
from duelrank.experiments.tabulate import change_cell, mark, number, p_cell


def test_numbers():
    assert number(757.25, 1) == "757.2"
    assert number(-1.23, 1, sign=True) == "−1.2"
    assert number(0.5, 1, sign=True) == "+0.5"
    assert number(-0.01, 1, sign=True) == number(0.01, 1, sign=True) == "0.0"
    assert number(float("nan"), 1) == "–"


def test_marks():
    assert [mark(p) for p in (None, 0.2, 0.05, 0.049, 0.01, 0.009)] == ["", "", "", "†", "†", "‡"]


def test_changes_and_p_values():
    base = Estimate("online", "nDCG@10", "mq2007", "perfect", "mgd", "", 15, 689.1, 14.6, 8.0)
    up, down = replace(base, change=0.0990, p=0.0001), replace(base, change=-0.05, p=0.03)
    assert [(cell.text, cell.style) for cell in map(change_cell, (base, up, down))] == [
        ("", ""),
        ("+9.9%‡", "up"),
        ("−5.0%†", "down"),
    ]
    assert [p_cell(each).text for each in (None, base, up, down)] == ["", "", "<0.001", "0.030"]


class TestPerformance:
    def test_rows_are_users_and_algorithms_columns_are_data_sets(self, frame):
        made = performance_table(summarise(frame(datasets=("mq2007", "mq2008")), "online"), {"mgd-dsp": "MGD-DSP"})
        assert [(column.group, column.head) for column in made.columns] == [
            (dataset, head) for dataset in ("mq2007", "mq2008") for head in ("mean (sd)", "change")
        ]
        assert [(row.section, row.name) for row in made.rows] == [
            (user, name) for user in ("perfect", "informational") for name in ("mgd", "MGD-DSP", "dbgd")
        ]
        assert [row.family for row in made.rows[:3]] == ["mgd", "mgd", "dbgd"]
        assert (made.name, made.title) == ("online", "Online nDCG@10")

    def test_several_measures_side_by_side_with_p_values_and_times(self, frame):
        made = frame().table(baseline="dbgd")
        assert [(column.group, column.head) for column in made.columns] == [
            *((measure, head) for measure in ("online", "offline") for head in ("mean (sd)", "change", "p")),
            ("", "µs"),
        ]
        assert made.rows[0].cells[-1].text == "10000.0"  # a second for 100 impressions
        assert "against dbgd." in " ".join(made.notes)

    def test_the_worst_run_in_percent_of_the_mean_red_where_it_is_below_nine_tenths(self, run):
        steady = [run("mgd", seed=seed, online=online) for seed, online in ((1, 95.0), (2, 105.0))]
        shaky = [run("dbgd", seed=seed, online=online) for seed, online in ((1, 50.0), (2, 150.0))]
        made = performance_table(summarise(Frame.of([*steady, *shaky]), "online"), worst=True)
        assert made.columns[-1].head == "worst run"
        assert [(row.cells[-1].text, row.cells[-1].style) for row in made.rows] == [("95%", ""), ("50%", "down")]
        assert "lowest of the runs" in " ".join(made.notes)

    def test_a_note_says_that_devices_are_mixed(self, run):
        one, other = run("mgd"), run("mgd", seed=2)
        mixed = performance_table(summarise(Frame.of([one | {"device": "cpu"}, other | {"device": "gpu"}]), "online"))
        alone = performance_table(summarise(Frame.of([one | {"device": "cpu"}, other | {"device": "cpu"}]), "online"))
        assert "mixed here: cpu, gpu" in " ".join(mixed.notes)
        assert "mixed" not in " ".join(alone.notes)

    def test_a_cell_is_mean_and_deviation_with_the_full_numbers_behind(self, frame):
        summary = summarise(frame(), "offline")
        made = performance_table(summary)
        estimate = summary.find("mq2007", "perfect", "mgd-dsp")
        value, change = made.rows[1].cells
        assert (value.text, value.detail) == (f"{estimate.mean:.3f}", f"({estimate.std:.3f})")
        assert value.record["mean"] == estimate.mean
        assert (value.record["user"], value.record["algorithm"]) == ("perfect", "mgd-dsp")
        assert change == change_cell(estimate)

    def test_the_best_is_strong_and_missing_runs_are_a_dash(self, run):
        made = performance_table(summarise(Frame.of([run("mgd", online=2.0), run("dbgd", dataset="mq2008")]), "online"))
        assert [[(cell.text, cell.style) for cell in row.cells] for row in made.rows] == [
            [("2.0", "strong"), ("–", "")],
            [("–", ""), ("700.0", "strong")],
        ]

    def test_notes_say_what_was_tested(self, frame):
        notes = " ".join(performance_table(summarise(frame(), "online")).notes)
        assert "of 5 runs" in notes
        assert "for the 2 tests of this table" in notes
        page = corrected([summarise(frame(), "online"), summarise(frame(), "offline")])
        assert "for the 4 tests of this page" in " ".join(performance_table(page[0]).notes)
        assert "for the 4 tests of this table" in " ".join(performance_table(page).notes)
        alone = " ".join(performance_table(summarise(frame(algorithms=("dbgd",)), "online")).notes)
        assert "t-test" not in alone
        assert "Change" not in alone

    def test_a_note_names_data_sets_whose_tests_are_of_one_split(self, frame, run):
        rows = [
            run(name, dataset="small", seed=i, online=i * 1.5**k)
            for k, name in enumerate(("mgd", "mgd-dsp"))
            for i in range(4)
        ]
        both = performance_table(summarise(Frame.of([*frame().rows(), *rows]), "online"))
        assert "All runs on small are of one split" in " ".join(both.notes)
        assert "one split" not in " ".join(performance_table(summarise(frame(), "online")).notes)

    def test_labels_that_say_the_recipe_need_no_explanation(self, frame):
        made = performance_table(summarise(frame(), "online"), {"mgd": "MGD", "mgd-dsp": "ours"})
        assert made.recipes == (("ours", "mgd-dsp"),)


class TestLeague:
    def summaries(self, run, n=2):
        rows = [
            run(name, user=user, seed=seed, online=online - 10 * place + seed, offline=offline)
            for name, online, offline in (("mgd", 800.0, 0.6), ("pdgd", 900.0, 0.5), ("dbgd", 700.0, 0.4))
            for place, user in enumerate(("perfect", "informational"))
            for seed in range(n if name == "dbgd" else 2)
        ]
        return [summarise(Frame.of(rows), measure) for measure in ("online", "offline")]

    def test_the_best_online_is_first_and_means_are_per_user(self, run):
        made = league_table(self.summaries(run), {"pdgd": "PDGD"})
        assert [row.name for row in made.rows] == ["1. PDGD", "2. mgd", "3. dbgd"]
        assert [(column.group, column.head) for column in made.columns] == [
            (measure, user) for measure in ("online", "offline") for user in ("perfect", "informational")
        ]
        assert [(cell.text, cell.style) for cell in made.rows[0].cells] == [
            ("900.5", "strong"),
            ("890.5", "strong"),
            ("0.500", ""),
            ("0.500", ""),
        ]
        assert "mq2007: means of 2 runs" in made.notes[0]

    def test_two_data_sets_or_uneven_runs_are_refused(self, run, frame):
        both = [summarise(frame(datasets=("mq2007", "mq2008")), measure) for measure in ("online", "offline")]
        for summaries in (both, self.summaries(run, n=3)):
            with pytest.raises(InvalidValue, match="one data set and equal numbers of runs"):
                league_table(summaries)


def test_replication_shows_both_their_difference_and_z(run):
    rows = [
        run("mgd", fold=1 + i % 2, seed=i, online=value, dataset=dataset)
        for dataset in ("mq2007", "mq2008")
        for i, value in enumerate((690.0, 705.0, 691.0, 702.0))
    ]
    made = replicate(Frame.of(rows), "online", {"mgd": "mgd"})
    table = replication_table(made)
    assert table.heads() == [
        *("mq2007: ours", "paper", "difference (se)", "z"),
        *("mq2008: ours", "paper", "difference (se)", "z"),
    ]
    near, far = made.cells
    texts = [f"{cell.text} {cell.detail}".strip() for cell in table.rows[0].cells[:4]]
    assert texts == [
        "697.0 (7.6)",
        "689.1 (14.6)",
        f"+{near.difference:.1f} ({near.standard_error:.1f})",
        f"+{near.z:.1f}",
    ]
    assert table.rows[0].cells[7].style == "strong"
    assert abs(far.z) > 2
    assert "runs within folds" in " ".join(table.notes)
    assert f"{made.agreement()[0]} of 2 cells are within 2 standard errors" in table.notes[-1]
    assert f"{made.by_chance():.1f} would be" in table.notes[-1]
    assert len(table.records()) == 2
