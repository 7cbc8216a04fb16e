"""Summaries, tests, intervals and the published numbers: every number against its formula."""

from dataclasses import replace
from math import inf, isnan, sqrt
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from duelrank import MGD, Record, RunSpec, parse, simulate
from duelrank.core.errors import InvalidValue, MissingExtra, UnknownName
from duelrank.core.statistics import holm
from duelrank.experiments import Frame, Grid, mean_curves, replicate, summarise
from duelrank.experiments.summary import (
    PUBLISHED_RUNS,
    average_curves,
    corrected,
    half_width,
    half_widths,
    paired,
    published,
    recovery,
    spread,
)
from duelrank.metrics import DISCOUNT
from duelrank.users import User


def record(online=(0.5, 0.25), metric="nDCG@10"):
    spec = RunSpec(MGD(), parse("synthetic"), parse("perfect"), impressions=len(online), metric=parse(metric))
    return Record(spec, np.array(online), np.array([1, 2]), np.array([0.2, 0.4]), np.ones(2), np.eye(2), 3e-4, 0.0)


class TestRows:
    def test_performance_is_of_the_metric_that_was_measured(self):
        row = record(metric="MRR").row()
        assert row["metric"] == "MRR()"
        assert row["online_performance"] == pytest.approx(0.5 + DISCOUNT * 0.25)
        assert row["offline_performance"] == 0.4
        assert not any("ndcg" in name for name in row)

    def test_curves_have_a_value_per_checkpoint(self):
        row = record().row(reference=np.array([1.0, 1.0]), data="x")
        assert row["online_curve"] == pytest.approx([0.5, 0.5 + DISCOUNT * 0.25])
        assert row["cosine_curve"] == pytest.approx([1 / sqrt(2)] * 2)
        assert (row["data"], row["updates"], record().row()["cosine_curve"]) == ("x", 2, [])

    def test_records_are_short_in_notebooks(self):
        assert repr(record()) == ("Record(mgd/perfect/synthetic/fold1/seed1: online 0.75, offline 0.4000, nDCG@10)")
        assert "<td>0.4000</td>" in record()._repr_html_()


class TestEstimates:
    def test_mean_deviation_interval_and_change(self, frame):
        runs = frame()
        ours = runs.where(user="perfect", algorithm="mgd-dsp")["offline_performance"]
        theirs = runs.where(user="perfect", algorithm="mgd")["offline_performance"]
        found = summarise(runs, "offline").find("mq2007", "perfect", "mgd-dsp")
        assert found.mean == pytest.approx(ours.mean())
        assert found.std == pytest.approx(np.sqrt(((ours - ours.mean()) ** 2).sum() / 4))
        assert found.half_width == pytest.approx(half_width(ours))
        assert found.change == pytest.approx((ours.mean() - theirs.mean()) / theirs.mean())
        assert (found.runs, found.pairs, found.baseline) == (5, 5, "mgd")

    def test_one_run_has_no_deviation(self, frame):
        found = summarise(frame(n=1), "online").estimates[0]
        assert (found.std, found.half_width) == (None, None)
        assert spread([0.5]) == (0.5, None)

    def test_order_is_that_of_first_appearance_but_a_projection_follows_its_base(self, run):
        found = summarise(Frame.of([run("mgd-dsp"), run("dbgd"), run("mgd", user="informational")]), "online")
        assert list(found.algorithms) == ["mgd", "mgd-dsp", "dbgd"]
        assert (found.users, found.datasets) == (("perfect", "informational"), ("mq2007",))

    def test_p_values_are_corrected_over_the_whole_summary(self, frame):
        runs = frame(datasets=("mq2007", "mq2008"))
        made = summarise(runs, "offline")
        compared = [each for each in made.estimates if each.algorithm == "mgd-dsp"]
        tests = [
            paired(runs.where(user=each.user, dataset=each.dataset), "mgd-dsp", "mgd", "offline_performance").p
            for each in compared
        ]
        assert len(tests) == 4
        assert [each.single_p for each in compared] == pytest.approx(tests)
        assert [each.p for each in compared] == pytest.approx(holm(tests))
        assert made.family == 4

    def test_all_tests_of_a_page_are_one_family_in_which_each_counts_once(self, frame):
        online, offline = (summarise(frame(), measure) for measure in ("online", "offline"))
        against = summarise(frame(), "online", baseline="dbgd")
        page = corrected([online, offline, online, against])
        tests = {
            (s.measure, s.baseline, e.user, e.algorithm): e.single_p for s in page for e in s.estimates if e.baseline
        }
        assert len(tests) == 2 + 2 + 4
        expected = dict(zip(tests, holm(list(tests.values())), strict=True))
        for summary in page:
            assert summary.family == len(tests)
            for each in summary.estimates:
                place = summary.measure, summary.baseline, each.user, each.algorithm
                assert each.p == pytest.approx(expected[place] if each.baseline else None)

    def test_a_baseline_is_compared_with_all_others(self, frame):
        made = summarise(frame(), "online", baseline="dbgd")
        assert {each.algorithm: each.baseline for each in made.estimates} == {
            "mgd": "dbgd",
            "mgd-dsp": "dbgd",
            "dbgd": "",
        }
        with pytest.raises(UnknownName, match="did you mean dbgd"):
            summarise(frame(), "online", baseline="dbgb")

    def test_only_what_has_a_base_among_the_runs_has_a_change(self, frame):
        made = summarise(frame(algorithms=("mgd-dsp", "dbgd")), "online")
        assert [(each.change, each.p, each.pairs) for each in made.estimates] == [(None, None, 0)] * 4

    def test_a_base_of_zero_has_no_relative_change(self, run):
        made = summarise(Frame.of([run("mgd", offline=0.0), run("mgd-dsp", offline=0.5)]), "offline")
        assert made.estimates[1].change is None

    def test_the_best_of_each_user_and_data_set(self, run):
        rows = [run("mgd", online=2.0), run("dbgd", online=1.0), run("mgd", user="informational", online=1.0)]
        made = summarise(Frame.of([*rows, run("dbgd", user="informational", online=1.0)]), "online")
        best = {(each.user, each.algorithm): each.best for each in made.estimates}
        assert best == {
            ("perfect", "mgd"): True,
            ("perfect", "dbgd"): False,
            ("informational", "mgd"): True,  # a tie has two best
            ("informational", "dbgd"): True,
        }

    def test_microseconds_per_impression(self, run):
        made = summarise(Frame.of([run(seconds=2e-4), run(seconds=4e-4, fold=2)]), "online")
        assert made.estimates[0].microseconds == pytest.approx((2e-4 / 100 + 4e-4 / 100) / 2 * 1e6)

    def test_the_order_of_runs_changes_nothing_to_the_bit(self, frame):
        runs = frame(users=("perfect",))
        turned = [runs.where(algorithm=name).take(np.arange(5)[::-1]) for name in ("mgd", "mgd-dsp", "dbgd")]
        assert summarise(Frame.of(row for part in turned for row in part.rows()), "online") == summarise(runs, "online")

    @pytest.mark.parametrize(
        ("name", "value"),
        [("metric", "MRR"), ("split", "validation"), ("impressions", 7), ("length", 5), ("streams", 1)],
    )
    def test_runs_with_different_settings_are_refused(self, run, name, value):
        with pytest.raises(InvalidValue, match=name):
            summarise(Frame.of([run(), run(**{name: value}, fold=2)]), "online")

    def test_no_runs_are_refused(self, frame):
        with pytest.raises(InvalidValue, match="no runs"):
            summarise(frame().where(user="nobody"), "online")


def test_curves_are_means_with_intervals(frame):
    runs = frame()
    curves = mean_curves(runs)
    assert len(curves) == 6
    values = np.array(list(runs.where(user="perfect", algorithm="mgd-dsp")["offline_curve"]))
    found = next(curve for curve in curves if (curve.user, curve.algorithm) == ("perfect", "mgd-dsp"))
    assert (found.impressions, found.base) == ((1, 10, 100), "mgd")
    assert found.mean == pytest.approx(values.mean(axis=0))
    assert found.half_width == pytest.approx(half_widths(values))
    assert mean_curves(frame(n=1))[0].half_width == ()


class TestPandas:
    def test_frames_and_summaries(self, frame):
        runs = frame()
        whole = runs.to_pandas()
        assert list(whole["online_performance"]) == runs["online_performance"].tolist()
        means = summarise(runs, "online").to_pandas().set_index(["user", "algorithm"])["mean"]
        grouped = whole.groupby(["user", "algorithm"])["online_performance"].mean()
        assert means.to_dict() == pytest.approx(grouped.to_dict())
        assert len(runs.table().to_pandas()) == 12

    def test_without_pandas_it_says_so(self, frame, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "pandas", None)
        with pytest.raises(MissingExtra, match="pip install pandas"):
            frame().to_pandas()

    def test_frames_are_short_in_notebooks(self, frame):
        assert repr(frame()).startswith("Frame(30 rows: id, ")
        assert frame()._repr_html_().count("<tr>") == 11
        assert "offline_curve" not in frame()._repr_html_()


def pairs(run, ours, theirs):
    """Runs of an algorithm and its base; a None is a run that is missing."""
    rows = [run("mgd-dsp", fold=i, online=value) for i, value in enumerate(ours) if value is not None]
    return Frame.of(rows + [run("mgd", fold=i, online=value) for i, value in enumerate(theirs) if value is not None])


class TestPaired:
    def test_is_students_t_of_the_differences(self, run):
        ours, theirs = [710.0, 720.0, 700.0, 741.0], [700.0, 705.0, 702.0, 720.0]
        test = paired(pairs(run, ours, theirs), "mgd-dsp", "mgd", "online_performance")
        differences = np.subtract(ours, theirs)
        t = differences.mean() / (differences.std(ddof=1) / sqrt(4))
        assert (test.n, test.difference) == (4, differences.mean())
        assert test.t == pytest.approx(t)
        assert test.p == pytest.approx(2 * stats.t.sf(t, 3))

    def test_only_common_cells_count(self, run):
        whole = pairs(run, [1.0, 2.0, 4.0], [0.5, 1.0, 2.0])
        more = pairs(run, [1.0, 2.0, 4.0, 99.0, None], [0.5, 1.0, 2.0, None, 99.0])
        assert paired(whole, "mgd-dsp", "mgd", "online_performance") == paired(
            more, "mgd-dsp", "mgd", "online_performance"
        )

    def test_the_order_of_rows_does_not_matter(self, run):
        frame = pairs(run, [1.0, 2.0, 4.0], [0.5, 1.0, 2.0])
        turned = frame.take(np.arange(len(frame))[::-1])
        assert paired(frame, "mgd-dsp", "mgd", "online_performance") == paired(
            turned, "mgd-dsp", "mgd", "online_performance"
        )

    @pytest.mark.parametrize(("ours", "theirs", "n"), [([], [1.0], 0), ([1.0], [2.0], 1)])
    def test_fewer_than_two_pairs_are_no_test(self, run, ours, theirs, n):
        test = paired(pairs(run, ours, theirs), "mgd-dsp", "mgd", "online_performance")
        assert test.n == n
        assert isnan(test.t)
        assert isnan(test.p)

    def test_the_same_values_differ_by_nothing(self, run):
        test = paired(pairs(run, [1.0, 2.0], [1.0, 2.0]), "mgd-dsp", "mgd", "online_performance")
        assert (test.difference, test.t, test.p) == (0.0, 0.0, 1.0)

    def test_a_difference_without_spread_cannot_be_judged(self, run):
        test = paired(pairs(run, [1.1, 2.1, 3.1], [1.0, 2.0, 3.0]), "mgd-dsp", "mgd", "online_performance")
        assert test.difference == pytest.approx(0.1)
        assert isnan(test.p)

    def test_two_runs_in_one_cell_are_refused(self, run):
        with pytest.raises(InvalidValue, match="several runs"):
            paired(Frame.of([run("mgd"), run("mgd"), run("mgd-dsp")]), "mgd-dsp", "mgd", "online_performance")


class TestHalfWidth:
    def test_is_students_interval(self):
        values = [1.0, 2.0, 4.0]
        low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
        assert half_width(values) == pytest.approx((high - low) / 2)

    def test_columns_are_apart(self):
        values = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]])
        assert half_widths(values) == pytest.approx([half_width([1.0, 2.0, 4.0]), 0.0])

    def test_one_value_has_none(self):
        assert isnan(half_width([1.0]))


class TestEqualAlgorithms:
    """A/A experiments: an algorithm against itself with other seeds, tested as in every table, over 5 folds × 3 seeds."""

    def found(self, run, n_tests):
        """Return how many tests at a level of 0.05 find a difference where there is none; no two of them share a run."""
        grid = Grid("dbgd(learning_rate=1)", "synthetic(n_queries=10, n_documents=8, n_features=3)", "perfect", runs=15)
        specs = [replace(spec, impressions=8, length=5) for spec in grid.specs()]
        found = 0
        for number in range(n_tests):
            rows = [
                run(name, fold=spec.fold, seed=spec.seed, online=self.reward(spec, 6 * number + further))
                for name, further in (("mgd", 0), ("mgd-dsp", 3))
                for spec in specs
            ]
            found += paired(Frame.of(rows), "mgd-dsp", "mgd", "online_performance").p < 0.05
        return found

    def reward(self, spec, later):
        return simulate(replace(spec, seed=spec.seed + later)).online_performance

    def test_they_differ_as_often_as_the_level_says(self, run):
        """The number of differences is binomial, with a mean of 10; it is within these bounds with probability 0.998."""
        least, most = stats.binom.interval(0.998, 200, 0.05)
        assert least <= self.found(run, n_tests=200) <= most

    def test_they_would_differ_too_often_if_folds_shared_random_numbers(self, run, monkeypatch):
        monkeypatch.setattr(RunSpec, "stream_seed", property(lambda spec: spec.seed))
        assert self.found(run, n_tests=60) > stats.binom.ppf(0.999, 60, 0.05)


def published_cell(measure, user, algorithm, dataset):
    found = published().where(measure=measure, user=user, algorithm=algorithm, dataset=dataset)
    assert len(found) == 1
    return float(found["mean"][0]), float(found["std"][0])


def test_every_cell_is_there_once():
    rows = list(published().rows())
    places = {(row["measure"], row["user"], row["algorithm"], row["dataset"]) for row in rows}
    assert len(rows) == len(places) == 180
    measures, users, algorithms, datasets = (set(names) for names in zip(*places, strict=True))
    assert measures == {"online", "offline"}
    assert users == {"perfect", "navigational", "informational"}
    assert algorithms == {"dbgd", "dbgd-dsp", "mgd", "mgd-dsp", "nsgd", "nsgd-dsp"}
    assert datasets == {"mq2007", "mq2008", "mslr-web10k", "np2003", "yahoo-set1"}


def test_the_names_are_ours():
    for name in ("dbgd", "dbgd-dsp", "mgd", "mgd-dsp", "nsgd", "nsgd-dsp"):
        parse(name)
    for name in ("perfect", "navigational", "informational"):
        parse(name, User)


def test_cells_read_from_the_paper():
    assert published_cell("online", "perfect", "dbgd", "mq2007") == (679.3, 21.6)
    assert published_cell("online", "navigational", "nsgd-dsp", "np2003") == (1296.2, 24.3)
    assert published_cell("online", "informational", "mgd-dsp", "yahoo-set1") == (1268.1, 16.4)
    assert published_cell("offline", "perfect", "mgd-dsp", "mslr-web10k") == (0.409, 0.006)
    assert published_cell("offline", "informational", "dbgd-dsp", "yahoo-set1") == (0.63, 0.03)
    assert published_cell("offline", "informational", "nsgd-dsp", "np2003") == (0.789, 0.013)


def test_values_are_plausible():
    for row in published().rows():
        top = 1.0 if row["measure"] == "offline" else 1.0 / (1.0 - 0.9995)
        assert 0 < row["std"] < row["mean"] < top


class TestReplication:
    names: ClassVar = {"mgd(n_candidates=49)": "mgd", "dbgd": "dbgd"}

    def frame(self, run, values):
        mgd = [
            run("mgd(n_candidates=49)", fold=fold, seed=seed, online=value)
            for fold, runs in enumerate(values, start=1)
            for seed, value in enumerate(runs)
        ]
        return Frame.of([*mgd, run("dbgd"), run("pdgd"), run("dbgd", dataset="synthetic")])

    def test_only_the_spread_within_folds_is_noise(self, run):
        """Two folds far apart, three runs each; the paper's 15 runs are over the same folds."""
        values = ((600.0, 603.0, 606.0), (800.0, 801.0, 805.0))
        found = replicate(self.frame(run, values), "online", self.names).cells[0]
        paper, std = published_cell("online", "perfect", "mgd", "mq2007")
        means = [sum(runs) / 3 for runs in values]
        within = sqrt(sum((v - m) ** 2 for runs, m in zip(values, means, strict=True) for v in runs) / 4)
        error = within * sqrt(1 / 6 + 1 / PUBLISHED_RUNS)
        assert found.mean == pytest.approx(sum(means) / 2)
        assert (found.within, found.standard_error) == (pytest.approx(within), pytest.approx(error))
        assert found.z == pytest.approx((sum(means) / 2 - paper) / error)
        assert (found.runs, found.published_mean, found.published_std) == (6, paper, std)
        assert found.std > 50 > found.within

    def test_folds_count_alike_however_many_runs_they_have(self, run):
        found = replicate(self.frame(run, ((600.0, 602.0), (800.0, 801.0, 805.0))), "online", self.names).cells[0]
        assert found.mean == pytest.approx((601 + 802) / 2)
        within = sqrt((1 + 1 + 4 + 1 + 9) / 3)
        assert found.standard_error == pytest.approx(within * sqrt((1 / 2 + 1 / 3) / 4 + 1 / PUBLISHED_RUNS))

    def test_one_run_per_fold_has_no_spread_to_judge_by(self, run):
        found = replicate(self.frame(run, ((600.0,), (800.0,))), "online", self.names)
        assert [(each.published, each.standard_error, each.z) for each in found.cells] == [
            ("mgd", None, None),
            ("dbgd", None, None),
        ]
        assert found.agreement() == (0, 0)

    def test_agreement_counts_cells_within_so_many_errors(self, run):
        paper, _ = published_cell("online", "perfect", "mgd", "mq2007")
        close = replicate(self.frame(run, ((paper - 1, paper, paper + 1),)), "online", self.names)
        far = replicate(self.frame(run, ((paper + 99, paper + 100, paper + 101),)), "online", self.names)
        assert (close.agreement(), far.agreement()) == ((1, 1), (0, 1))

    def test_the_expected_agreement_is_that_of_students_t_with_runs_less_folds(self, run):
        found = replicate(self.frame(run, ((600.0, 602.0), (800.0, 801.0, 805.0))), "online", self.names)
        assert [each.freedom for each in found.cells] == [3, 0]  # one run alone has no spread to judge by
        assert found.by_chance(2.0) == pytest.approx(1 - 2 * stats.t.sf(2.0, 3))

    def test_what_was_not_published_is_left_out(self, run):
        assert replicate(Frame.of([run("pdgd")]), "online", {"pdgd": "pdgd"}).cells == ()


class TestRecovery:
    """Blocks of 10 lists, a moving average of 20 lists, a change after 40."""

    def recovery(self, *after: float, start: int = 40):
        return recovery(np.array([0.2, 0.6, 0.8, 1.0, *after]), lists=10, start=start, window=20, share=0.9)

    def test_a_dip_and_its_end(self):
        # level 0.9; averages at lists 50, 60, …: 0.6, 0.25, 0.55, 0.75, 0.85, 0.9; 0.81 is reached after 50 lists
        found = self.recovery(0.2, 0.3, 0.8, 0.7, 1.0, 0.8)
        assert (found.before, found.dip, found.until) == pytest.approx((0.9, 1 - 0.25 / 0.9, 50))
        assert found.lost == pytest.approx(10 * (6 * 0.9 - 3.8))
        assert found.end == pytest.approx(0.9)

    def test_a_slow_change_is_low_only_later(self):
        # averages 1, 0.9, 0.5, 0.2, 0.5, 0.9: above 0.81 at first, and again after 60 lists
        assert self.recovery(1.0, 0.8, 0.2, 0.2, 0.8, 1.0).until == 60

    def test_never_low_and_always_low(self):
        assert self.recovery(0.9, 0.9, 0.8).until == 0
        assert self.recovery(0.5, 0.5, 0.5).until == inf

    def test_a_gain_is_a_negative_loss(self):
        assert self.recovery(1.0, 1.0).lost == pytest.approx(-2.0)

    @pytest.mark.parametrize("start", [10, 60, 1000])
    def test_runs_without_a_level_before_or_after(self, start):
        assert all(isnan(value) for value in vars(self.recovery(0.5, 0.5, start=start)).values())

    def test_curves_are_at_the_last_list_of_their_window(self):
        row = {**record().row(), "online_blocks": [0.2, 0.4, 0.8]}
        frame = Frame.of([row, {**row, "online_blocks": [0.4, 0.4, 0.4]}])
        (curve,) = average_curves(frame, lists=10, window=20)
        assert curve.impressions == (20, 30)
        assert curve.mean == pytest.approx((0.35, 0.5))
        assert len(curve.half_width) == 2
