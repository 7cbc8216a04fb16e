"""Learning from lists that somebody else made."""

from __future__ import annotations

import numpy as np
import pytest

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream
from duelrank.core.types import Feedback, Query, State

OBSERVING = [
    "mgd",
    "mgd-dsp",
    "NSGD(multileaver=Probabilistic())",
    "MGD(multileaver=SampleOnlyScored())",
    "pdgd",
    "pairrank",
    "log-pairs",
]
QUERY = Query("q", np.random.default_rng(3).random((8, 4)))


def started(algorithm: Algorithm) -> State:
    start = algorithm.start(4, stream(5, "start"))
    return State(np.array([0.5, -1.0, 0.25, 0.0]), memory=start.memory)


@pytest.mark.parametrize("recipe", OBSERVING)
def test_on_its_own_list_it_sees_what_it_knew_when_it_made_it(recipe):
    """The draws before the list is merged are the same, so the evidence is too, to the bit."""
    algorithm = parse(recipe, Algorithm)
    state = started(algorithm)
    made = algorithm.rank(state, QUERY, 5, stream(7, "rank"))
    assert algorithm.observe_list(state, QUERY, made.ranking, stream(7, "rank")) == made


@pytest.mark.parametrize("recipe", OBSERVING)
def test_clicks_on_any_list_teach(recipe):
    algorithm = parse(recipe, Algorithm)
    state = started(algorithm)
    worst_first = algorithm.best(state, QUERY, stream(1, "best"))[::-1][:6].copy()
    seen = algorithm.observe_list(state, QUERY, worst_first, stream(7, "rank"))
    after = algorithm.learn(state, seen, Feedback([False, True, False, True, False, False]), stream(7, "learn"))
    assert after.updates == 1
    assert np.isfinite(after.weights).all()


@pytest.mark.parametrize(
    "recipe", ["MGD(multileaver=TeamDraft())", "MGD(multileaver=PairwisePreference())", "cascade-ucb1"]
)
def test_who_must_know_how_a_list_was_made_refuses(recipe):
    algorithm = parse(recipe, Algorithm)
    with pytest.raises(InvalidRecipe, match="only"):
        algorithm.observe_list(started(algorithm), QUERY, np.arange(5), stream(7, "rank"))
