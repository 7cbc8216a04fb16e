"""NullSpace avoids directions that lost, keeps those that separate the documents, and always has directions left."""

from collections.abc import Mapping

import numpy as np
import pytest

from duelrank import Feedback, Impression, Query, State
from duelrank.core.randomness import stream
from duelrank.exploration import NullSpace
from duelrank.kernels.random import derive, normals


def directions_of_losers(n: int, n_features: int) -> np.ndarray:
    drawn = normals(stream(1, "losers"), n, n_features)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def after(
    explorer: NullSpace, directions: np.ndarray, credit: list[float], memory: Mapping[str, np.ndarray] | None = None
) -> Mapping[str, np.ndarray]:
    """What is remembered after a comparison; of the impression only its directions matter."""
    n_features = directions.shape[1]
    impression = Impression(Query("q", np.ones((1, n_features))), np.array([0]), {"directions": directions})
    state = State(np.zeros(n_features), memory={} if memory is None else memory)
    return explorer.observe(state, impression, Feedback([True]), np.array(credit), derive(0, 0))


def explore(explorer: NullSpace, memory: Mapping[str, np.ndarray], n_features: int, seed: int = 0) -> np.ndarray:
    query = Query("q", normals(stream(seed, "query"), 6, n_features))
    return explorer.directions(State(np.zeros(n_features), memory=memory), query, stream(seed, "explore"))


def test_directions_are_unit_vectors_orthogonal_to_the_losers() -> None:
    losers = directions_of_losers(4, 12)
    memory = after(NullSpace(), losers, [2.0, 0, 0, 0, 0])
    found = explore(NullSpace(), memory, 12)
    assert found.shape == (9, 12)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    np.testing.assert_allclose(found @ losers.T, 0.0, atol=1e-12)


def test_only_clear_losers_are_remembered() -> None:
    """Less than the current ranker, and no more than the fourth smallest credit of all."""
    directions = directions_of_losers(6, 8)
    credit = [3.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0]  # the four smallest: 0, 1, 1, 2
    memory = after(NullSpace(n_candidates=6), directions, credit)
    np.testing.assert_array_equal(memory["losers"], directions[:5])
    np.testing.assert_array_equal(memory["loser_margins"], np.array(credit[1:6]) - credit[0])
    narrow = after(NullSpace(n_candidates=6, n_low=3), directions, credit)  # now up to 1
    np.testing.assert_array_equal(narrow["losers"], directions[:3])


def test_winners_and_equals_leave_the_memory_alone() -> None:
    memory: dict[str, np.ndarray] = {}
    assert after(NullSpace(), directions_of_losers(2, 4), [1.0, 1.0, 2.0], memory) is memory


def test_the_oldest_losers_are_forgotten() -> None:
    explorer = NullSpace(remembered_losers=3)
    first, second = directions_of_losers(4, 9)[:2], directions_of_losers(4, 9)[2:]
    memory = after(explorer, second, [1.0, 0, 0], after(explorer, first, [1.0, 0, 0]))
    np.testing.assert_array_equal(memory["losers"], np.vstack([first[1:], second]))


def test_the_worst_margins_are_avoided_first() -> None:
    directions = directions_of_losers(3, 9)
    memory = after(NullSpace(avoided=1), directions, [5.0, 4.0, 1.0, 3.0])
    np.testing.assert_allclose(np.abs(memory["avoided"] @ directions[1]), 1.0)


def test_directions_that_separate_the_documents_best_are_kept() -> None:
    """Of 2 (n + 1) draws the n with the largest |u · mean document|: fewer candidates have a larger reach."""
    mean = normals(stream(0, "query"), 6, 30).mean(axis=0)
    reach = [np.abs(explore(NullSpace(n_candidates=9), {}, 30) @ mean)]
    everything = NullSpace(n_candidates=9)
    drawn = normals(stream(0, "explore"), 2 * (everything.n_candidates + 1), 30)
    best = np.sort(np.abs(drawn @ mean) / np.linalg.norm(drawn, axis=1))[-9:]
    np.testing.assert_allclose(np.sort(reach[0]), best)


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_one_dimension_is_always_left(n_features: int) -> None:
    losers = directions_of_losers(30, n_features)
    explorer = NullSpace(n_candidates=30)
    memory = after(explorer, losers, [1.0, *([0.0] * 30)])
    assert memory["avoided"].shape[0] <= n_features - 1
    found = explore(NullSpace(), memory, n_features)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
