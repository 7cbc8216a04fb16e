"""Suites name what exists, spell out into runs, and say what is wrong with them."""

import pytest

from duelrank import Projected, Synthetic, parse
from duelrank.algorithms import Algorithm
from duelrank.datasets import Dataset
from duelrank.errors import DuelrankError, InvalidValue, UnknownName
from duelrank.experiments.published import published
from duelrank.experiments.suite import Suite, load_suite, read_suite, suite_names
from duelrank.registry import aliases
from duelrank.users import User

SUITES = [
    *("future-best", "future-examination", "future-exploration", "league", "quick"),
    *("sigir19", "sigir19-ablation", "sigir19-exact", "sigir19-figures", "sigir19-text"),
]


def test_the_suites_of_the_paper_are_there() -> None:
    assert set(SUITES) <= set(suite_names())


@pytest.mark.parametrize("name", SUITES)
def test_everything_that_a_suite_names_exists(name: str) -> None:
    suite = load_suite(name)
    for recipe in suite.recipes.values():
        assert isinstance(parse(recipe), Algorithm)
    for text in suite.datasets:
        assert isinstance(parse(text), Dataset)
    for text in suite.users:
        assert isinstance(parse(text), User)
    known = set(published()["algorithm"].tolist())
    assert set(suite.published.values()) <= known


@pytest.mark.parametrize("name", ["sigir19", "sigir19-text"])
def test_the_tables_have_the_papers_six_in_its_order(name: str) -> None:
    suite = load_suite(name)
    assert list(suite.recipes) == ["DBGD", "DBGD-DSP", "MGD", "MGD-DSP", "NSGD", "NSGD-DSP"]
    for label, recipe in suite.recipes.items():
        algorithm = parse(recipe)
        assert isinstance(algorithm, Projected) == label.endswith("-DSP")
        if isinstance(algorithm, Projected):
            assert algorithm.base == parse(suite.recipes[label.removesuffix("-DSP")])


def test_a_sweep_varies_one_field() -> None:
    (sweep,) = (each for each in load_suite("sigir19-figures").experiments if each.field == "beyond")
    assert [(value, algorithm.projection.examination.beyond) for value, algorithm in sweep.varied()] == [
        (k, k) for k in range(8)
    ]


def test_runs_are_shared_between_experiments() -> None:
    """λ = 1, k = 2 and r = 10 are all the same recipe, and it runs once."""
    suite = load_suite("sigir19-figures")
    assert suite.algorithms().count(parse("mgd-dsp(n_candidates=49, beyond=2)")) == 1
    specs = suite.specs(Synthetic())
    assert len(specs) == len(suite.algorithms()) * len(suite.users) * suite.runs
    assert len({spec.digest for spec in specs}) == len(specs)


def test_some_algorithms_only() -> None:
    suite = load_suite("quick").only(["mgd", "MGD-DSP"])
    assert list(suite.recipes) == ["MGD", "MGD-DSP"]
    (curves,) = (each for each in suite.experiments if each.kind == "curves")
    assert curves.recipes == ("MGD", "MGD-DSP")


def test_sweeps_without_their_base_are_left_out() -> None:
    suite = load_suite("sigir19-figures").only(["DBGD", "DBGD-DSP"])
    assert {each.kind for each in suite.experiments} == {"curves"}


def test_unknown_names_are_told_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="did you mean sigir19"):
        load_suite("sigir")
    with pytest.raises(UnknownName, match="did you mean mgd"):
        load_suite("quick").only(["mdg"])


GOOD = """
title = "t"
datasets = ["synthetic"]
users = ["perfect"]
runs = 1
impressions = 10
[recipes]
"A" = "dbgd"
[[experiments]]
kind = "curves"
title = "x"
question = "y"
recipes = ["A"]
"""


def test_a_suite_of_ones_own() -> None:
    suite = read_suite("mine", GOOD)
    assert isinstance(suite, Suite)
    assert len(suite.specs(Synthetic())) == 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("title =", "titel ="), InvalidValue),
        (("[recipes]", "[recipes"), InvalidValue),
        (('recipes = ["A"]', 'recipes = ["B"]'), UnknownName),
        (("[[experiments]]", "[[experimente]]"), InvalidValue),
    ],
)
def test_a_suite_that_is_wrong(change: tuple[str, str], error: type[DuelrankError]) -> None:
    with pytest.raises(error):
        read_suite("mine", GOOD.replace(*change))


def test_the_league_has_every_algorithm_at_its_defaults() -> None:
    assert set(load_suite("league").recipes.values()) == set(aliases(Algorithm))
