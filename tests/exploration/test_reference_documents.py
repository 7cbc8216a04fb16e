"""ReferenceDocuments explores what its references span; SpeedThenQuality does until the model stops turning."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from duelrank import Feedback, Impression, Query, State, parse
from duelrank.exploration import Exploration, ReferenceDocuments, SpeedThenQuality
from duelrank.kernels.random import derive, normals
from duelrank.testing import play

Memory = Mapping[str, np.ndarray]


def some_query(seed: int, n_documents: int = 8, n_features: int = 12) -> Query:
    return Query(f"q{seed}", normals(derive(seed, 1), n_documents, n_features))


def draw(explorer: Exploration, state: State, query: Query, seed: int = 0) -> np.ndarray:
    return explorer.directions(state, query, derive(seed, 2))


def learn(explorer: Exploration, state: State, query: Query) -> State:
    """The state after a clicked impression that leaves the weights alone."""
    directions = draw(explorer, state, query, state.step)
    impression = Impression(query, np.array([0]), {"directions": directions})
    memory = explorer.observe(state, impression, Feedback([True]), np.zeros(len(directions) + 1), derive(state.step, 1))
    return State(state.weights, state.step + 1, state.updates, memory)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def filled(explorer: ReferenceDocuments, n_features: int = 12, n_documents: int = 8) -> State:
    state = State(np.zeros(n_features))
    for seed in range(40):
        state = learn(explorer, state, some_query(seed, n_documents, n_features))
    return state


def test_directions_lie_in_the_span_of_the_references() -> None:
    explorer = ReferenceDocuments(n_candidates=5, n_references=4)
    state = filled(explorer)
    references = state.memory["references"].T
    found = draw(explorer, state, some_query(99))
    assert found.shape == (5, 12)
    theta, *_ = np.linalg.lstsq(references.T, found.T, rcond=None)
    np.testing.assert_allclose(references.T @ theta, found.T, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(theta, axis=0), 1.0)  # θ lies on the m-sphere


def test_a_direction_scores_by_similarity() -> None:
    """Under u = Σ_j θ_j r_j/|r_j| a document's score is Σ_j θ_j (d · r_j)/|r_j|, for documents of any length."""
    explorer = ReferenceDocuments(n_candidates=1, n_references=3)
    query = some_query(5, n_documents=3)
    found = draw(explorer, State(np.zeros(12)), query)[0]  # nothing remembered: the query's own three documents
    theta = np.linalg.solve(unit(query.features) @ unit(query.features).T, unit(query.features) @ found)
    similarities = query.features @ unit(query.features).T
    np.testing.assert_allclose(query.features @ found, similarities @ theta)
    assert np.linalg.norm(theta) == pytest.approx(1.0)


def test_the_references_are_documents_of_ten_impressions_scaled_to_length_one() -> None:
    state = State(np.zeros(12))
    explorer = ReferenceDocuments(n_references=20)
    for seed in range(10):
        query = some_query(seed)
        state = learn(explorer, state, query)
        newest = state.memory["references"][:, -2:].T
        assert state.memory["references"].shape == (12, 2 * (seed + 1))
        assert all(np.isclose(unit(query.features), row).all(axis=1).any() for row in newest)
        assert not np.allclose(*newest)  # drawn without replacement
    assert learn(explorer, state, some_query(10)).memory is state.memory


def test_every_document_is_as_likely_a_reference() -> None:
    """2000 choices of one of 5: each about 400 times, with standard deviation √(2000 · 0.2 · 0.8) ≈ 18; four are allowed."""
    explorer, counts = ReferenceDocuments(n_candidates=1, n_references=1), np.zeros(5)
    query = some_query(3, n_documents=5)
    for step in range(2000):
        kept = learn(explorer, State(np.zeros(12), step), query).memory["references"].T
        counts[np.isclose(unit(query.features), kept).all(axis=1).argmax()] += 1
    assert np.abs(counts - 400).max() < 4 * 18


def test_too_few_references_are_filled_up_with_the_query_itself() -> None:
    explorer = ReferenceDocuments(n_candidates=30, n_references=20)
    state = learn(explorer, State(np.zeros(40)), some_query(0, 8, 40))
    query = some_query(1, 5, 40)
    found = draw(explorer, state, query)
    span = np.vstack([state.memory["references"].T, query.features])  # 2 + 5 of 20
    assert np.linalg.matrix_rank(found) == 7
    assert np.linalg.matrix_rank(np.vstack([span, found])) == 7


def test_documents_of_zeros_are_no_trouble() -> None:
    explorer, state = ReferenceDocuments(n_references=4), State(np.zeros(6))
    empty = Query("zeros", np.zeros((3, 6)))
    np.testing.assert_array_equal(draw(explorer, state, empty), np.zeros((9, 6)))
    state = learn(explorer, state, empty)
    assert state.memory["references"].shape == (6, 0)  # a document of zeros is like nothing
    assert np.isfinite(draw(explorer, state, empty)).all()
    half = Query("half", np.vstack([np.zeros((5, 6)), np.ones((1, 6))]))
    state = learn(explorer, state, half)
    np.testing.assert_allclose(state.memory["references"], np.full((6, 1), 6**-0.5))


def test_the_weights_stay_in_the_span() -> None:
    """Fewer references than features: once they are there, what they do not span is never learned."""
    learner = play(parse("sim-mgd(n_references=10)"), 100)
    references, before = learner.state.memory["exploration"]["references"], learner.weights
    moved = play(learner.algorithm, 200, learner=learner).weights - before
    assert references.shape == (20, 10)
    assert np.linalg.norm(moved) > 0.0
    np.testing.assert_allclose(references @ np.linalg.lstsq(references, moved, rcond=None)[0], moved, atol=1e-12)


def after(explorer: SpeedThenQuality, path: list[np.ndarray]) -> State:
    """The state after one clicked impression at each of these weights."""
    state = State(path[0])
    for weights in path:
        state = learn(explorer, State(weights, state.step, state.updates, state.memory), some_query(state.step))
    return state


def at(degrees: float, length: float = 1.0) -> np.ndarray:
    weights = np.zeros(12)
    weights[:2] = length * np.cos(np.radians(degrees)), length * np.sin(np.radians(degrees))
    return weights


@pytest.mark.parametrize(("degrees", "cascades"), [(8.0, True), (8.2, False)])  # cos 8.11° = 0.99
def test_the_switch_is_where_the_weights_turn_less_than_the_tolerance(degrees: float, cascades: bool) -> None:
    explorer = SpeedThenQuality(lookback=3)
    path = [at(0), at(60), at(120), at(degrees, 7.0)]  # what happens in between does not count, nor does the length
    assert ("cascaded" in after(explorer, path).memory) == cascades


def test_weights_are_compared_with_those_of_the_lookback() -> None:
    explorer = SpeedThenQuality(lookback=3)
    assert "cascaded" not in after(explorer, [at(0)] * 3).memory
    turned = [at(0), at(0), at(0), at(90)]
    assert "cascaded" not in after(explorer, turned).memory
    assert "cascaded" not in after(explorer, [*turned, at(90), at(90)]).memory
    assert "cascaded" in after(explorer, [*turned, at(90), at(90), at(90)]).memory


def test_zero_weights_are_not_a_model_that_stands_still() -> None:
    assert "cascaded" not in after(SpeedThenQuality(lookback=1), [np.zeros(12)] * 9).memory


def test_after_the_switch_all_features_are_explored_for_good() -> None:
    explorer = SpeedThenQuality(fast=ReferenceDocuments(n_candidates=40, n_references=3), lookback=1)
    fast, still = after(explorer, [at(0)]), after(explorer, [at(0), at(1)])
    assert np.linalg.matrix_rank(draw(explorer, fast, some_query(9, n_documents=3))) == 3
    assert set(still.memory) == {"cascaded"}
    found = draw(explorer, still, some_query(9, n_documents=3))
    assert found.shape == (40, 12)
    assert np.linalg.matrix_rank(found) == 12
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    turned = learn(explorer, replace(still, weights=at(90)), some_query(1))
    assert turned.memory is still.memory


def test_the_number_of_candidates_is_one_parameter() -> None:
    assert parse("c-mgd(n_candidates=4)").exploration.fast.n_candidates == 4  # type: ignore[attr-defined]
    assert parse("c-mgd-dsp(least_turn=0.5, tolerance=0.1)").projection.tolerance == 0.1  # type: ignore[attr-defined]
