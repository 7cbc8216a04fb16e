"""Every registered algorithm keeps every convention: registry × checks."""

import ast
import inspect
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import pytest

from duelrank import DBGD, MGD, PDGD, Feedback, Projected, Query, parse, register
from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe
from duelrank.core.grammar import as_part
from duelrank.core.registry import Between, aliases, forget
from duelrank.core.types import Gradient, Impression, Memory, State, Stream, Weights
from duelrank.testing import CHECKS, STORAGE_CHECKS, check_algorithm, play
from duelrank.testing.checks import (
    check_every_parameter_matters,
    check_explained_step_is_the_step,
    check_learns_from_easy_clicks,
    check_no_click_moves_nothing,
)

ALGORITHMS = aliases(Algorithm)
#: Recipes with a memory of queries, which have no short names.
REMEMBERING = (
    "remember >> mgd-dsp",
    "remember >> nsgd-dsp",
    "remember >> thompson-pairs-curves",
    "remember(curious=0.1) >> pdgd",
)


def test_the_papers_six_have_short_names() -> None:
    assert {"dbgd", "dbgd-dsp", "mgd", "mgd-dsp", "nsgd", "nsgd-dsp"} <= set(ALGORITHMS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithm_keeps_the_conventions(name: str, check: object) -> None:
    check(ALGORITHMS[name])  # type: ignore[operator]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("text", REMEMBERING)
def test_algorithm_with_a_memory_keeps_the_conventions(
    text: str, check: object, request: pytest.FixtureRequest
) -> None:
    if text == "remember >> nsgd-dsp" and check is check_learns_from_easy_clicks:
        reason = "team draft compares lists with boosts, which hardly differ if all queries are remembered"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
    check(parse(text))  # type: ignore[operator]


@pytest.mark.parametrize("variant", ["TeamDraft()", "Probabilistic(tau=1.0)"])
@pytest.mark.parametrize("inference", ["MeanWinner(unit=True)", "BestWinner()", "DifficultQueries(when='tie')"])
def test_parts_compose_freely(variant: str, inference: str) -> None:
    algorithm = parse(
        f"nsgd-dsp(multileaver={variant}, inference={inference}, examination=WholeList(), initial='random')"
    )
    assert np.isfinite(play(algorithm, 100).weights).all()


def test_how_many_low_credits_count_matters_on_long_lists() -> None:
    narrow, wide = (play(parse(f"nsgd(n_candidates=2, n_low={n})"), 200).weights for n in (1, 3))
    assert not np.allclose(narrow, wide)


@dataclass(frozen=True, repr=False)
class Forgetful(DBGD):
    """An algorithm with the published code's bug: it takes a parameter and never looks at it."""

    prev_query_len: int = 10


def test_a_parameter_that_is_ignored_is_found() -> None:
    with pytest.raises(AssertionError, match=r"prev_query_len of .* has no effect"):
        check_every_parameter_matters(Forgetful())


@dataclass(frozen=True, repr=False)
class Greedy(DBGD):
    """An algorithm that learns from lists without clicks."""

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        return np.ones(state.weights.shape[0]), state.memory


def test_learning_without_clicks_is_found() -> None:
    for check in (check_no_click_moves_nothing, check_explained_step_is_the_step):
        with pytest.raises(AssertionError, match="moves_without_clicks: ClassVar"):
            check(Greedy())


@dataclass(frozen=True, repr=False)
class Reinforce(PDGD):
    """A policy gradient with a baseline: a list without a click has a lower reward than usual, so it moves the weights too."""

    moves_without_clicks: ClassVar[bool] = True
    baseline: Annotated[float, Between(0.0)] = 0.2

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        features, chances = impression.query.features, np.exp(impression.trace["scores"])
        of_first = (
            features[impression.ranking[0]] - chances @ features / chances.sum()
        )  # the gradient of log P(first document)
        return (feedback.gains[0] - self.baseline) * of_first, state.memory


def test_learning_without_clicks_can_be_declared() -> None:
    check_algorithm(register(Reinforce)())
    for recipe in (Projected(Reinforce()), "query-scaled >> Reinforce()"):
        check_no_click_moves_nothing(as_part(recipe, Algorithm))
    forget(__name__)


@dataclass(frozen=True, repr=False)
class Careless(DBGD):
    """An algorithm with an error of its own."""

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        raise KeyError("ranks")


def test_an_error_of_an_algorithm_passes_with_a_note() -> None:
    with pytest.raises(KeyError, match="ranks") as caught:
        check_algorithm(register(Careless)())
    forget(__name__)
    assert "check_ranking_does_not_change_the_state of Careless()" in caught.value.__notes__[0]


@pytest.mark.parametrize("check", [*CHECKS, *STORAGE_CHECKS], ids=lambda check: check.__name__)
def test_no_check_has_a_bare_assertion(check: object) -> None:
    tree = ast.parse(inspect.getsource(check))  # type: ignore[arg-type]
    bare = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert not bare, "use duelrank.testing.checks.require, whose sentences say what to do"


def test_what_inert_fields_excuse_is_true() -> None:
    """Where the projected gradient keeps its length, the length that it had before does matter."""
    for rescale, matters in (("unit", False), ("preserve", True)):
        plain, unit = (play(parse(f"mgd-dsp(rescale={rescale!r}, unit={unit})"), 100).weights for unit in (False, True))
        assert np.allclose(plain, unit) != matters


def test_shared_ties_leave_nothing_to_chance_and_separate_ones_do() -> None:
    """Documents that are all alike score alike in every ranker: with one order of ties they all rank alike, and none can win."""
    query, moved = Query("q", np.ones((6, 20))), {}
    for ties in ("shared", "separate"):
        learner = play(parse(f"mgd(ties={ties!r})"), 0)
        for _ in range(30):
            impression = learner.rank(query)
            learner.learn(impression, Feedback(np.arange(impression.ranking.size) == 0))
        moved[ties] = bool(learner.weights.any())
    assert moved == {"shared": False, "separate": True}


def test_a_projection_wraps_once() -> None:
    with pytest.raises(InvalidRecipe, match="already projected"):
        Projected(Projected(MGD()))


def test_wrapping_changes_the_gradient_only() -> None:
    """The same state and stream give the same list, wrapped or not."""
    base, wrapped = MGD(), Projected(MGD())
    one, other = play(base, 0), play(wrapped, 0)
    query = Query("q", np.arange(160.0).reshape(8, 20))
    assert one.rank(query) == other.rank(query)


def test_step_lengths_of_the_three_rescalings() -> None:
    """One update of DBGD, whose gradient has length 1: |g| ≤ 1 as it is, 1 rescaled either way."""
    lengths = {}
    for rescale in ("none", "unit", "preserve"):
        algorithm = parse(f"dbgd-dsp(rescale={rescale!r}, remembered=0, beyond=0, learning_rate=1)")
        learner = play(algorithm, 0)
        while learner.state.updates == 0:
            play(algorithm, 1, learner=learner)
        lengths[rescale] = float(np.linalg.norm(learner.weights))
    assert lengths["none"] < 1.0
    assert lengths["unit"] == pytest.approx(1.0)
    assert lengths["preserve"] == pytest.approx(1.0)


def test_start() -> None:
    assert not play(MGD(), 0).weights.any()
    random = play(replace(MGD(), initial="random"), 0).weights
    assert np.linalg.norm(random) == pytest.approx(1.0)


def test_an_algorithm_may_be_checked_by_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[object] = []
    monkeypatch.setattr("duelrank.testing.checks.CHECKS", (checked.append,))
    check_algorithm("mgd")
    assert checked == [parse("mgd")]
