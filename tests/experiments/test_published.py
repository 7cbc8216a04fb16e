"""The published numbers, and how ours differ from them."""

from math import sqrt
from typing import ClassVar

import pytest
from scipy import stats

from duelrank.core.grammar import parse
from duelrank.experiments import Frame, replicate
from duelrank.experiments.summary import PUBLISHED_RUNS, published
from duelrank.users import User


def cell(measure, user, algorithm, dataset):
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
    assert cell("online", "perfect", "dbgd", "mq2007") == (679.3, 21.6)
    assert cell("online", "navigational", "nsgd-dsp", "np2003") == (1296.2, 24.3)
    assert cell("online", "informational", "mgd-dsp", "yahoo-set1") == (1268.1, 16.4)
    assert cell("offline", "perfect", "mgd-dsp", "mslr-web10k") == (0.409, 0.006)
    assert cell("offline", "informational", "dbgd-dsp", "yahoo-set1") == (0.63, 0.03)
    assert cell("offline", "informational", "nsgd-dsp", "np2003") == (0.789, 0.013)


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
        paper, std = cell("online", "perfect", "mgd", "mq2007")
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
        paper, _ = cell("online", "perfect", "mgd", "mq2007")
        close = replicate(self.frame(run, ((paper - 1, paper, paper + 1),)), "online", self.names)
        far = replicate(self.frame(run, ((paper + 99, paper + 100, paper + 101),)), "online", self.names)
        assert (close.agreement(), far.agreement()) == ((1, 1), (0, 1))

    def test_the_expected_agreement_is_that_of_students_t_with_runs_less_folds(self, run):
        found = replicate(self.frame(run, ((600.0, 602.0), (800.0, 801.0, 805.0))), "online", self.names)
        assert [each.freedom for each in found.cells] == [3, 0]  # one run alone has no spread to judge by
        assert found.by_chance(2.0) == pytest.approx(1 - 2 * stats.t.sf(2.0, 3))

    def test_what_was_not_published_is_left_out(self, run):
        assert replicate(Frame.of([run("pdgd")]), "online", {"pdgd": "pdgd"}).cells == ()
