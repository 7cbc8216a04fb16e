"""The published numbers, and ours beside them."""

from math import sqrt
from typing import ClassVar

import pytest

from duelrank.experiments.frame import Frame
from duelrank.experiments.published import PUBLISHED_RUNS, beside_published, published
from duelrank.grammar import parse
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


class TestBeside:
    names: ClassVar = {"mgd(n_candidates=49)": "mgd", "dbgd": "dbgd"}

    def frame(self, run, values=(690.0, 700.0, 713.0)):
        mgd = [run("mgd(n_candidates=49)", fold=i, online=value) for i, value in enumerate(values)]
        return Frame.of([*mgd, run("dbgd"), run("pdgd"), run("dbgd", dataset="synthetic")])

    def test_the_difference_is_in_standard_errors(self, run):
        table = beside_published(self.frame(run), "online", self.names)
        assert (table.datasets, [(row.user, row.name) for row in table.rows]) == (
            ("mq2007",),
            [("perfect", "mgd"), ("perfect", "dbgd")],
        )
        found = table.rows[0].cells[0]
        mean = (690 + 700 + 713) / 3
        variance = ((690 - mean) ** 2 + (700 - mean) ** 2 + (713 - mean) ** 2) / 2
        paper, std = cell("online", "perfect", "mgd", "mq2007")
        assert found.runs == 3
        assert found.errors == pytest.approx((mean - paper) / sqrt(variance / 3 + std**2 / PUBLISHED_RUNS))

    def test_one_run_has_no_spread_to_judge_by(self, run):
        table = beside_published(self.frame(run), "online", self.names)
        assert table.rows[1].cells[0].errors is None
        assert table.agreement(2.0)[1] == 1

    def test_agreement_counts_cells_within_so_many_errors(self, run):
        paper, _ = cell("online", "perfect", "mgd", "mq2007")
        close = beside_published(self.frame(run, (paper - 1, paper, paper + 1)), "online", self.names)
        far = beside_published(self.frame(run, (paper + 99, paper + 100, paper + 101)), "online", self.names)
        assert (close.agreement(), far.agreement()) == ((1, 1), (0, 1))

    def test_what_was_not_published_is_left_out(self, run):
        table = beside_published(Frame.of([run("pdgd")]), "online", {"pdgd": "pdgd"})
        assert (table.datasets, table.rows) == ((), ())
