"""Summaries: every number against its formula."""

from math import sqrt

import numpy as np
import pytest

from duelrank import MGD, Record, RunSpec, parse
from duelrank.core.errors import InvalidValue, MissingExtra, UnknownName
from duelrank.core.statistics import holm
from duelrank.experiments import Frame, mean_curves, summarise
from duelrank.experiments.summary import corrected, half_width, half_widths, paired, spread
from duelrank.metrics import DISCOUNT


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
