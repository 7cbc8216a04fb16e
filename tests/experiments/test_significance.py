"""Paired tests, confidence intervals."""

from dataclasses import replace
from math import isnan, sqrt

import numpy as np
import pytest
from scipy import stats

from duelrank import RunSpec, simulate
from duelrank.core.errors import InvalidValue
from duelrank.experiments import Frame, Grid
from duelrank.experiments.summary import half_width, half_widths, paired


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
