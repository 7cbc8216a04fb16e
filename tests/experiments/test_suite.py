"""Suites name what exists, spell out into runs, and say what is wrong with them."""

from pathlib import Path

import pytest

from duelrank import Projected, Synthetic, parse
from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe, InvalidValue, MissingData, UnknownName
from duelrank.core.grammar import listed
from duelrank.core.registry import aliases, spell
from duelrank.datasets import Dataset
from duelrank.experiments import Grid
from duelrank.experiments.kinds import Curves, Sweep
from duelrank.experiments.pipeline import plan
from duelrank.experiments.suite import Suite, load_suite, read_suite, suite_names
from duelrank.experiments.summary import published
from duelrank.users import User

SUITES = [
    *(
        "drift",
        "future-best",
        "future-examination",
        "future-exploration",
        "guard",
        "head",
        "head-drift",
        "league",
        "quick",
    ),
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
    (sweep,) = (each for each in load_suite("sigir19-figures").experiments if getattr(each, "field", "") == "beyond")
    assert {label: found.projection.examination.beyond for label, found in sweep.algorithms().items()} == {
        f"MGD-DSP, k = {k}": k for k in range(8)
    }


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
    (curves,) = (each for each in suite.experiments if isinstance(each, Curves))
    assert curves.recipes == ("MGD", "MGD-DSP")


def test_sweeps_without_their_base_are_left_out() -> None:
    suite = load_suite("sigir19-figures").only(["DBGD", "DBGD-DSP"])
    assert {type(each) for each in suite.experiments} == {Curves}


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


def test_a_suite_with_a_collection_of_data_sets() -> None:
    text = GOOD.replace('datasets = ["synthetic"]', 'datasets = ["families", "synthetic"]')
    assert text != GOOD
    planned = plan(read_suite("mine", text), installed=False)
    assert [spell(each) for each in planned.datasets] == [*listed("families"), "synthetic"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("title =", "titel ="), r"mine: no key is called 'titel'; did you mean title\?"),
        (('title = "t"', ""), "mine: the key title is missing$"),
        (("[recipes]", "[recipes"), "mine is not valid TOML: .*line"),
        (("runs = 1", 'runs = "1"'), "mine: runs: Expected `int`, got `str`"),
        (('users = ["perfect"]', 'users = "perfect"'), "mine: users: Expected `array`, got `str`"),
        (('users = ["perfect"]', 'users = ["perfekt"]'), "mine: users: perfekt: .*did you mean perfect"),
        (('"A" = "dbgd"', '"A" = "dbgb"'), "mine: recipes.A: .*did you mean dbgd"),
        (('"A" = "dbgd"', '"A" = 3'), "mine: recipes: Expected `str`, got `int`"),
        (("[[experiments]]", "[[experimente]]"), "mine: no key is called 'experimente'; did you mean experiments"),
        (("[[experiments]]", "[experiments]"), "mine: experiments: Expected `array`, got `object`"),
        (('kind = "curves"', 'kind = "curve"'), "mine, experiment 1: kind must be one of .*did you mean curves"),
        (('kind = "curves"', ""), "mine, experiment 1: kind must be one of ablation, backfill, curves, .*got None"),
        (('question = "y"', 'skylight = "y"'), r"experiment 1 \(curves\): .*'skylight'; did you mean skyline"),
        (('question = "y"', "skyline = 1"), r"mine, experiment 1 \(curves\): skyline: Expected `bool`, got `int`"),
        (
            ('question = "y"', 'column = "online"'),
            "column: Invalid enum value 'online'; it must be 'offline_curve' or 'online_curve'",
        ),
        (('recipes = ["A"]', 'recipes = ["B"]'), "mine, experiment 1: no recipe is called 'B'"),
        (("[[experiments]]", '[published]\n"B" = "mgd"\n[[experiments]]'), "mine, published: no recipe is called 'B'"),
    ],
)
def test_what_is_wrong_with_a_suite_is_said_by_key(change: tuple[str, str], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        read_suite("mine", GOOD.replace(*change))


SWEEP = (
    GOOD.split("[[experiments]]")[0]
    + """
[[experiments]]
kind = "sweep"
title = "x"
label = "MGD"
recipe = "mgd"
field = "n_candidates"
values = [1, 9]
"""
)


def test_a_sweep_needs_no_base_and_its_field_has_to_exist() -> None:
    (sweep,) = read_suite("mine", SWEEP).experiments
    assert isinstance(sweep, Sweep)
    assert list(sweep.algorithms()) == ["MGD, n_candidates = 1", "MGD, n_candidates = 9"]
    with pytest.raises(InvalidValue, match=r"experiment 1 \(sweep\): mgd: .*'n_candidate'; did you mean n_candidates"):
        read_suite("mine", SWEEP.replace('"n_candidates"', '"n_candidate"'))
    with pytest.raises(InvalidValue, match=r"experiment 1 \(sweep\): values: Expected `int .* float`, got `str`"):
        read_suite("mine", SWEEP.replace("[1, 9]", '["1"]'))


def test_a_suite_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "my-suite.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert load_suite(str(path)).name == "my-suite"
    path.write_text(GOOD.replace("runs", "run"), encoding="utf-8")
    with pytest.raises(InvalidValue, match=r"my-suite\.toml: no key is called 'run'; did you mean runs"):
        load_suite(str(path))
    with pytest.raises(MissingData, match="No such file"):
        load_suite(str(tmp_path / "other.toml"))


def test_metric_length_and_split_are_optional() -> None:
    suite = read_suite("mine", 'metric = "MRR"\nlength = 5\nsplit = "validation"\n' + GOOD)
    (spec,) = suite.specs(Synthetic())
    assert (repr(spec.metric), spec.length, spec.split) == ("MRR()", 5, "validation")


class TestGrid:
    def test_text_is_accepted_wherever_a_part_is(self) -> None:
        texts = Grid(["mgd", "mgd-dsp"], "synthetic", ["perfect"], runs=2, metric="MRR")
        parts = Grid((parse("mgd"), parse("mgd-dsp")), Synthetic(), (parse("perfect"),), runs=2, metric=parse("MRR"))
        assert texts == parts
        assert texts.specs() == parts.specs()
        assert Grid("mgd", "synthetic", "perfect").specs() == Grid(["mgd"], "synthetic", ["perfect", "perfect"]).specs()

    def test_runs_go_over_folds_then_seeds(self) -> None:
        specs = Grid("mgd", "synthetic", "perfect", runs=7).specs()
        assert [(spec.fold, spec.seed) for spec in specs] == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (1, 2), (2, 2)]

    def test_another_kind_of_part_is_refused(self) -> None:
        with pytest.raises(InvalidRecipe, match="but a user is required"):
            Grid("mgd", "synthetic", "mgd")
        with pytest.raises(InvalidValue, match="at least one algorithm"):
            Grid([], "synthetic", "perfect")


def test_the_league_has_every_algorithm_at_its_defaults() -> None:
    assert set(load_suite("league").recipes.values()) == set(aliases(Algorithm))
