"""OppositePair tries one uniform direction both ways."""

import numpy as np
import pytest

from duelrank import Feedback, Query, State, parse
from duelrank.core.randomness import stream
from duelrank.exploration import OppositePair
from duelrank.kernels.random import derive
from duelrank.testing import play


def drawn(n_features: int, seed: int) -> np.ndarray:
    query = Query("q", np.ones((1, n_features)))
    return OppositePair().directions(State(np.zeros(n_features)), query, derive(seed, 0))


@pytest.mark.parametrize("n_features", [1, 2, 30])
def test_a_unit_vector_and_its_opposite(n_features: int) -> None:
    pair = drawn(n_features, 1)
    assert pair.shape == (2, n_features)
    np.testing.assert_array_equal(pair[1], -pair[0])
    np.testing.assert_allclose(np.linalg.norm(pair, axis=1), 1.0)


def test_the_direction_is_uniform() -> None:
    """E[u] = 0 and E[u uᵀ] = I/d. With 4000 draws in 3 dimensions the standard errors are √(1/3 / 4000) ≈ 0.0091 and at most
    √(Var(u_k²) / 4000) = √((1/5 − 1/9) / 4000) ≈ 0.0047; four of each are allowed.
    """
    draws = np.array([drawn(3, seed)[0] for seed in range(4000)])
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=4 * 0.0091)
    np.testing.assert_allclose(draws.T @ draws / 4000, np.eye(3) / 3, atol=4 * 0.0047)


def test_where_both_beat_the_current_ranker_the_clearer_winner_is_followed() -> None:
    """The mean of both winners would be zero and teach nothing."""
    algorithm = parse("dp-dbgd(learning_rate=1)")
    learner = play(algorithm, 0)
    for _ in range(200):
        impression = learner.rank(Query("q", np.eye(20)[:6]))
        clicks = np.arange(impression.ranking.size) >= 2
        credit = algorithm.multileaver.assign_credit(impression, clicks, stream(0, "credit"))  # type: ignore[attr-defined]
        if (credit[1:] > 1e-12).all():
            before = learner.weights
            learner.learn(impression, Feedback(clicks))
            expected = impression.trace["directions"][credit[1:].argmax()]
            np.testing.assert_allclose(learner.weights - before, expected)
            return
    raise AssertionError("two winners never happened")
