"""The report of a search: the best trials, cells and parameters, made again without new trials."""

import csv

import pytest

pytest.importorskip("optuna", reason="the extra 'tune' is not installed")
pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")

from duelrank.experiments import tune
from duelrank.experiments.tuning.report import make_report, write_report

TINY = "synthetic(n_queries=12, n_documents=8, n_features=6)"
VARY = ("learning_rate", "delta", "n_candidates=4,9", "beyond")
USERS = ("perfect", "navigational")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune") / "a"
    given = {"trials": 20, "batch": 10, "folds": 3, "impressions": 15, "vary": VARY, "workers": 1}
    return tune("mgd-dsp", TINY, users=USERS, out=folder, **given)


@pytest.fixture(scope="module")
def page(found):
    """Where the report was written; its tables are beside it."""
    return write_report(found, "duelrank tune mgd-dsp …")


def rows(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_page_says_what_was_found_and_how(found, page):
    text = page.read_text(encoding="utf-8")
    for said in (
        found.recipe,
        "reward=1, validation=1",
        "duelrank tune mgd-dsp …",
        "Optuna, tpe, seed 1, 10 trials at a time",
    ):
        assert said in text
    assert {path.stem for path in (page.parent / "figures").iterdir()} == {
        "history",
        "slices",
        "slices-2",
        "importance",
    }
    assert text.count("<svg") == 4


def test_the_best_ten_are_in_order_and_the_start_is_below_them(found, page):
    best = rows(page.parent / "best-trials.csv")
    assert len(best) == 11
    values = [float(row["value"]) for row in best[:-1]]
    assert values == sorted(values, reverse=True)
    assert values[0] == found.scores.value
    assert (best[-1]["trial"], best[-1]["value"], best[-1]["learning_rate"]) == ("as it was", "1.0", "0.01")


def test_cells_compare_the_best_recipe_with_the_start(found, page):
    cells = rows(page.parent / "cells.csv")
    assert len(cells) == len(USERS) * 4
    relative = [float(row["after"]) / float(row["before"]) for row in cells if row["measure"] == "reward mean"]
    assert sum(relative) / len(relative) == pytest.approx(found.scores.reward)


def test_the_table_of_parameters_has_their_values(found, page):
    parameters = {row["parameter"]: row for row in rows(page.parent / "parameters.csv")}
    assert parameters.keys() == {"learning_rate", "delta", "n_candidates", "beyond"}
    rate = parameters["learning_rate"]
    assert (rate["before"], float(rate["best"])) == ("0.01", found.algorithm.base.step.learning_rate)
    assert float(rate["importance"]) == found.importance["learning_rate"]
    assert parameters["n_candidates"]["range"] == "one of 4, 9"


def test_a_search_of_one_trial_has_a_report(tmp_path):
    one = tune("pdgd", TINY, 1, "perfect", out=tmp_path / "a", folds=1, impressions=10, workers=1)
    assert one.importance == {}
    assert "The parameters that were searched" in make_report(one).to_html()
