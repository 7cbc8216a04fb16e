"""Tables as values."""

import numpy as np
import pytest

from duelrank.errors import InvalidValue
from duelrank.experiments.frame import Frame
from duelrank.experiments.significance import paired
from duelrank.experiments.tables import table
from duelrank.statistics import holm


def find(made, algorithm, user="perfect"):
    (row,) = (row for row in made.rows if (row.algorithm, row.user) == (algorithm, user))
    return row


def test_a_row_for_each_user_and_algorithm_a_column_for_each_data_set(frame):
    made = table(frame(datasets=("mq2007", "mq2008")), "online")
    assert made.datasets == ("mq2007", "mq2008")
    assert [(row.user, row.algorithm) for row in made.rows] == [
        (user, algorithm) for user in ("perfect", "informational") for algorithm in ("mgd", "mgd-dsp", "dbgd")
    ]
    assert all(cell.runs == 5 for row in made.rows for cell in row.cells)
    assert (made.runs, made.metric) == ((5, 5), "nDCG@10")


def test_a_cell_is_mean_deviation_and_change(frame):
    runs = frame()
    ours = runs.where(user="perfect", algorithm="mgd-dsp")["offline"]
    theirs = runs.where(user="perfect", algorithm="mgd")["offline"]
    (cell,) = find(table(runs, "offline"), "mgd-dsp").cells
    assert cell.value.mean == pytest.approx(ours.mean())
    assert cell.value.std == pytest.approx(np.sqrt(((ours - ours.mean()) ** 2).sum() / 4))
    assert cell.change == pytest.approx((ours.mean() - theirs.mean()) / theirs.mean())
    assert cell.pairs == 5


def test_p_values_are_corrected_over_the_whole_table(frame):
    runs = frame(datasets=("mq2007", "mq2008"))
    places = [(user, dataset) for user in ("perfect", "informational") for dataset in ("mq2007", "mq2008")]
    tests = [paired(runs.where(user=u, dataset=d), "mgd-dsp", "mgd", "offline").p for u, d in places]
    made = table(runs, "offline")
    found = [find(made, "mgd-dsp", user).cells[made.datasets.index(dataset)].p for user, dataset in places]
    assert found == pytest.approx(holm(tests))


def test_only_what_has_a_base_among_the_runs_has_a_change(frame):
    made = table(frame(algorithms=("mgd-dsp", "dbgd")), "online")
    assert [(cell.change, cell.p, cell.pairs) for row in made.rows for cell in row.cells] == [(None, None, 0)] * 4


def test_the_best_of_each_user_and_data_set(run):
    rows = [run("mgd", online=2.0), run("dbgd", online=1.0), run("mgd", user="informational", online=1.0)]
    made = table(Frame.of([*rows, run("dbgd", user="informational", online=1.0)]), "online")
    best = {(row.user, row.algorithm): row.cells[0].best for row in made.rows}
    assert best == {
        ("perfect", "mgd"): True,
        ("perfect", "dbgd"): False,
        ("informational", "mgd"): True,  # a tie has two best
        ("informational", "dbgd"): True,
    }


def test_a_projection_follows_its_base_whatever_came_first(run):
    made = table(Frame.of([run("mgd-dsp"), run("dbgd"), run("mgd")]), "online")
    assert [row.algorithm for row in made.rows] == ["mgd", "mgd-dsp", "dbgd"]


def test_the_order_of_runs_changes_nothing(frame):
    runs = frame(users=("perfect",))
    turned = [runs.where(algorithm=name).take(np.arange(5)[::-1]) for name in ("mgd", "mgd-dsp", "dbgd")]
    assert table(Frame.of(row for part in turned for row in part.rows()), "online") == table(runs, "online")


def test_missing_cells_are_none(run):
    made = table(Frame.of([run("mgd"), run("dbgd", dataset="mq2008")]), "online")
    assert [[cell is None for cell in row.cells] for row in made.rows] == [[False, True], [True, False]]


@pytest.mark.parametrize(
    ("name", "value"), [("metric", "MRR"), ("split", "validation"), ("impressions", 7), ("length", 5)]
)
def test_runs_of_different_kinds_are_refused(run, name, value):
    with pytest.raises(InvalidValue, match=name):
        table(Frame.of([run(), run(**{name: value}, fold=2)]), "online")


def test_no_runs_are_refused(frame):
    with pytest.raises(InvalidValue, match="no runs"):
        table(frame().where(user="nobody"), "online")
