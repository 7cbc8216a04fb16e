"""Fixed positions: they hold in every list, and what is learned does not depend on the documents that have them."""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

from duelrank import Feedback, Learner, Placement, Query
from duelrank.core.errors import InvalidValue
from duelrank.placing import free_above, with_placed

#: Lists of the search; `make soak` makes a million.
LISTS = 1_000_000 if "DUELRANK_SOAK" in os.environ else 5_000


def drawn(draws: Random):
    """Return documents, a length, and where some of the documents have to be."""
    n = draws.randint(1, 12)
    ids = [f"d{number}" for number in range(n)]
    fixed_ids = draws.sample([*ids, "ad1", "ad2"], draws.randint(0, min(3, n)))
    positions = draws.sample(range(1, 15), len(fixed_ids))
    others = [id for id in ids if id not in fixed_ids]
    below = {id: draws.randint(1, 14) for id in draws.sample(others, draws.randint(0, min(4, len(others))))}
    return ids, draws.randint(1, 15), dict(zip(fixed_ids, positions, strict=True)), below


def check(shown: list[str], free: list[str], ids: list[str], length: int, fixed, below) -> None:
    """Hold what is promised about a list."""
    everything = {*ids, *fixed}
    assert len(shown) == len(set(shown)) == min(length, len(everything))
    beyond = [id for id, position in fixed.items() if position > len(everything)]
    for id, position in fixed.items():
        if position <= len(shown):
            assert shown[position - 1] == id
        elif id in shown:
            assert id in beyond
    for id, k in below.items():
        if id in shown:
            above = shown[: shown.index(id)]
            assert len(above) >= k or set(free) <= set(above)


def test_places_hold_in_all_lists():
    draws = Random(1)
    for _ in range(LISTS):
        ids, length, fixed, below = drawn(draws)
        order = draws.sample(ids, len(ids))
        place = Placement(ids, length, fixed, below, order)
        ranking = draws.sample(range(len(place.free)), len(place.free))[: place.n_free]
        shown = place.shown(ranking)
        assert place.n_documents == len({*ids, *fixed})
        check(shown, place.free, ids, length, fixed, below)
        free = [id for id in shown if id in place.free]
        assert free == [place.free[row] for row in ranking], "the others stay in the order of the ranker"


def test_examples():
    ids = ["a", "b", "c", "d"]
    assert Placement(ids, 4, {"c": 1}).shown([0, 1, 2]) == ["c", "a", "b", "d"]
    assert Placement(ids, 3, {"ad": 2, "b": 9}).shown([0, 1]) == ["a", "ad", "c"]
    assert Placement(ids, 9, {"ad": 8}).shown([3, 2, 1, 0]) == ["d", "c", "b", "a", "ad"]
    assert Placement(ids, 4, below_top={"a": 2}).shown([0, 1, 2]) == ["b", "c", "a", "d"]
    assert Placement(ids, 4, below_top={"d": 1}).shown([0, 1, 2]) == ["a", "b", "c", "d"], "it is there anyway"
    assert Placement(ids, 4, below_top={"d": 1}, order=["d", "a", "b", "c"]).shown([0, 1, 2]) == ["a", "d", "b", "c"]
    assert Placement(ids, 4, dict.fromkeys(ids[:1], 1), dict.fromkeys(ids[1:], 3)).shown([]) == ids
    assert with_placed(["a", "b"], {0: "x", 3: "y"}) == ["x", "a", "b", "y"]
    assert [free_above({0: "x", 3: "y"}, place) for place in range(5)] == [0, 0, 1, 2, 2]


@pytest.mark.parametrize(
    ("fixed", "below", "message"),
    [
        ({"a": 0}, {}, "whole number from 1"),
        ({"a": 2, "b": 2}, {}, "two documents have the fixed position 2"),
        ({"a": 1}, {"a": 3}, "in fixed and in below_top"),
        ({}, {"x": 3}, "not among the documents"),
        ({}, {"a": 0}, "whole number from 1"),
    ],
)
def test_places_that_cannot_be(fixed, below, message):
    with pytest.raises(InvalidValue, match=message):
        Placement(["a", "b"], 2, fixed, below)


def test_lists_that_cannot_be():
    with pytest.raises(InvalidValue, match="the id 'a'; ids must be unique"):
        Placement(["a", "b", "a"], 2, {"a": 1})
    with pytest.raises(InvalidValue, match="length"):
        Placement(["a"], 0)


@pytest.mark.parametrize("recipe", ["mgd-dsp", "pdgd", "thompson-pairs", "curves >> wmgd-dsp"])
def test_what_is_learned_does_not_depend_on_placed_documents(recipe):
    """Sponsored documents that everybody clicks, and one that may not be at the top: the weights are the same to the bit."""
    draws = np.random.default_rng(3)
    one, other = (Learner(recipe, n_features=2, seed=5) for _ in range(2))
    for _ in range(60):
        features = draws.random((10, 2))
        ids = [f"d{row}" for row in range(10)]
        place = Placement(ids, 10, {"d3": 1, "ad": 4}, {"d8": 5})
        shown = one.rank(Query("q", features[place.rows]), place.n_free)
        alone = other.rank(Query("q", features[place.rows]), place.n_free)
        clicks = [id for id in place.shown(shown.ranking) if id in ("ad", "d3") or features[int(id[1:]), 0] > 0.6]
        one.learn(shown, place.feedback(shown.ranking, clicks))
        other.learn(alone, Feedback(features[place.rows][alone.ranking, 0] > 0.6))
    assert one.state == other.state
    assert one.state.updates > 0
