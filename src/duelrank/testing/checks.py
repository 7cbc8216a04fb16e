"""Checks the conventions that every algorithm must follow."""

from __future__ import annotations

import pickle  # only to check that a recipe survives the trip to a worker process
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Algorithm
from duelrank.datasets import Split
from duelrank.errors import DuelrankError, InvalidRecipe
from duelrank.grammar import as_part, parse
from duelrank.kernels.random import derive
from duelrank.learner import Learner
from duelrank.memory import flatten
from duelrank.metrics import nDCG
from duelrank.snapshot import Snapshot
from duelrank.testing.parameters import variations
from duelrank.testing.tiny import play, tiny_split
from duelrank.types import Feedback, Impression, Query, State

__all__ = ["CHECKS", "check_algorithm"]

Check = Callable[[Algorithm], None]


def check_algorithm(algorithm: Algorithm | str) -> None:
    """Run all checks on an algorithm or its text; a failed check raises an AssertionError or the error of the algorithm.

    Examples
    --------
    >>> from duelrank.testing import check_algorithm
    >>> print(check_algorithm("mgd(n_candidates=2)"))  # nothing is wrong with it
    None
    """
    recipe = as_part(algorithm, Algorithm)
    for check in CHECKS:
        check(recipe)


def _learner(algorithm: Algorithm, n_impressions: int = 30) -> Learner:
    return play(algorithm, n_impressions)


def _query(index: int = 0) -> Query:
    return tiny_split().query(index)


def _first(impression: Impression) -> Feedback:
    """Return a click on the second position of a list, or on its only one."""
    clicks = np.zeros(impression.ranking.shape[0], np.bool_)
    clicks[min(1, clicks.size - 1)] = True
    return Feedback(clicks, examined=clicks.size)


def check_recipe_is_a_value(algorithm: Algorithm) -> None:
    """A recipe is equal to what its repr parses to and to its pickled copy, and can be hashed."""
    assert parse(repr(algorithm)) == algorithm
    assert pickle.loads(pickle.dumps(algorithm)) == algorithm  # noqa: S301  # our own bytes
    assert hash(parse(repr(algorithm))) == hash(algorithm)


def check_ranking_does_not_change_the_state(algorithm: Algorithm) -> None:
    """Exploring does not change the state."""
    learner = _learner(algorithm)
    before = learner.snapshot().state
    learner.rank(_query())
    assert learner.state is before


def check_ranking_has_no_duplicates(algorithm: Algorithm) -> None:
    """A list contains distinct documents of the query, as many as requested."""
    learner = _learner(algorithm)
    for length in (1, 3, 8):
        ranking = learner.rank(_query(), length).ranking
        assert ranking.shape == (length,)
        assert np.unique(ranking).size == length
        assert set(ranking.tolist()) <= set(range(8))


def check_list_longer_than_the_documents(algorithm: Algorithm) -> None:
    """If the list is longer than the number of documents, all are shown, and learning works."""
    learner = _learner(algorithm)
    impression = learner.rank(_query(), 50)
    assert sorted(impression.ranking.tolist()) == list(range(8))
    learner.learn(impression, _first(impression))


def check_one_document(algorithm: Algorithm) -> None:
    """A query with a single document can be shown and learned from; it teaches nothing wrong."""
    learner = _learner(algorithm)
    impression = learner.rank(Query("single", tiny_split().features[:1]))
    assert impression.ranking.tolist() == [0]
    learner.learn(impression, _first(impression))
    assert np.isfinite(learner.weights).all()


def check_all_ties(algorithm: Algorithm) -> None:
    """Equal documents are shown in more than one order, and weights stay finite."""
    learner = _learner(algorithm)
    query = Query("alike", np.ones((6, learner.n_features)))
    orders = set()
    for _ in range(40):
        impression = learner.rank(query)
        orders.add(tuple(impression.ranking.tolist()))
        learner.learn(impression, _first(impression))
    assert len(orders) > 1
    assert np.isfinite(learner.weights).all()


def check_no_click_moves_nothing(algorithm: Algorithm) -> None:
    """Without a click the weights do not change, and the impression is counted."""
    learner = _learner(algorithm)
    before, step = learner.weights, learner.state.step
    impression = learner.rank(_query())
    learner.learn(impression, Feedback(np.zeros(impression.ranking.size, np.bool_), examined=impression.ranking.size))
    assert learner.weights is before
    assert learner.state.step == step + 1


def check_late_and_reversed_feedback(algorithm: Algorithm) -> None:
    """Impressions that are in flight together can be learned from in any order."""
    learner = _learner(algorithm)
    flying = [learner.rank(_query(index)) for index in range(5)]
    for impression in reversed(flying):
        learner.learn(impression, _first(impression))
    assert learner.state.step == 35
    assert np.isfinite(learner.weights).all()


def check_repeated_feedback_counts_twice(algorithm: Algorithm) -> None:
    """Repeated feedback counts as another user, and everything stays finite."""
    learner = _learner(algorithm)
    impression = learner.rank(_query())
    for _ in range(3):
        learner.learn(impression, _first(impression))
    assert learner.state.step == 33
    assert np.isfinite(learner.weights).all()


def check_missing_feedback_leaves_no_trace(algorithm: Algorithm) -> None:
    """Impressions without feedback do not affect the state."""
    one, other = _learner(algorithm), _learner(algorithm)
    impression = one.rank(_query())
    one.rank(_query(1))
    one.rank(_query(2))
    one.learn(impression, _first(impression))
    same = other.rank(_query())
    other.learn(same, _first(same))
    assert one.state == other.state


def check_learning_is_deterministic(algorithm: Algorithm) -> None:
    """Equal seeds give equal states, to the bit; different seeds give different states."""
    assert play(algorithm, 60).state == play(algorithm, 60).state
    assert play(algorithm, 60, seed=1).state != play(algorithm, 60, seed=2).state


def check_learning_is_pure(algorithm: Algorithm) -> None:
    """Learning twice from one state gives the same result, and does not change that state."""
    learner = _learner(algorithm)
    state = learner.state
    copy = Snapshot.from_bytes(learner.snapshot().to_bytes()).state
    impression = learner.rank(_query())
    results = [algorithm.learn(state, impression, _first(impression), derive(1, 1)) for _ in range(2)]
    assert results[0] == results[1]
    assert state == copy


def check_explained_step_is_the_step(algorithm: Algorithm) -> None:
    """Explaining a step changes nothing, neither the stream; it ends where learning ends, and without clicks it points nowhere."""
    learner = _learner(algorithm)
    impression, stream = learner.rank(_query()), derive(1, 1)
    step = algorithm.explain_step(learner.state, impression, _first(impression), stream)
    assert np.array_equal(stream, derive(1, 1))
    after = algorithm.learn(learner.state, impression, _first(impression), stream)
    assert np.array_equal(step.before, learner.state.weights)
    assert np.array_equal(step.after, after.weights)
    assert step.followed.any() == (after.updates > learner.state.updates)
    nothing = Feedback(np.zeros(impression.ranking.shape[0], np.bool_))
    assert not algorithm.explain_step(learner.state, impression, nothing, derive(1, 1)).direction.any()


def check_a_click_weighs_one(algorithm: Algorithm) -> None:
    """Clicks that weigh 1 each are clicks without weights, to the bit, also for what is remembered of them."""
    plain, weighted = _learner(algorithm, 0), _learner(algorithm, 0)
    for number in range(60):
        query, clicks = _query(number % 12), np.arange(5) % (2 + number % 3) == 1
        plain.learn(plain.rank(query), Feedback(clicks, examined=5))
        weighted.learn(weighted.rank(query), Feedback(clicks, examined=5, weights=clicks))
    assert weighted.state == plain.state


def check_snapshot_continues_identically(algorithm: Algorithm) -> None:
    """A learner that is saved as bytes and restored continues identically."""
    original = _learner(algorithm, 45)
    restored = Learner.from_snapshot(Snapshot.from_bytes(original.snapshot().to_bytes()))
    assert restored.state == original.state
    assert play(algorithm, 45, learner=restored).state == play(algorithm, 45, learner=original).state


def check_state_shares_nothing_with_its_input(algorithm: Algorithm) -> None:
    """Changing an array after it was passed in does not change any state."""
    learner = _learner(algorithm)
    features = tiny_split().features[:8].copy()
    impression = learner.rank(Query("mine", features))
    learner.learn(impression, _first(impression))
    before = learner.snapshot().to_bytes()
    features[:] = 0.5
    assert Snapshot.from_bytes(before).state == learner.state
    assert not learner.weights.flags.writeable


def check_bad_input_changes_nothing(algorithm: Algorithm) -> None:
    """Wrong shapes raise a `DuelrankError`, before anything has changed."""
    learner = _learner(algorithm)
    before = learner.state
    impression = learner.rank(_query())
    n = impression.ranking.size
    attempts: list[Callable[[], object]] = [
        lambda: learner.rank(Query("narrow", np.ones((3, 5)))),
        lambda: learner.rank(_query(), 0),
        lambda: learner.learn(impression, Feedback(np.ones(n + 1, np.bool_))),
        lambda: learner.learn(impression, Feedback(np.ones(n - 1, np.bool_))),
    ]
    for attempt in attempts:
        try:
            attempt()
        except DuelrankError:
            assert learner.state is before
        else:
            raise AssertionError("bad input was accepted")


def check_memory_is_bounded(algorithm: Algorithm) -> None:
    """The memory stops growing: it may vary a little, but twice the impressions do not need twice the bytes."""
    learner = _learner(algorithm, 400)
    early = _memory_bytes(learner.state)
    assert _memory_bytes(play(algorithm, 400, learner=learner).state) <= 1.2 * early


def check_best_does_not_explore(algorithm: Algorithm) -> None:
    """`best` sorts all documents by the weights; or by the query's own model, with the only clicked document first."""
    learner = _learner(algorithm, 100)
    query = Query("own", _query().features)
    if not algorithm.per_query:
        scores = algorithm.columns(learner.state, query.features, np.array([0, query.n_documents])) @ learner.weights
        assert np.all(np.diff(scores[learner.best(query)]) <= 1e-12)
        return
    for _ in range(40):
        impression = learner.rank(query)
        learner.learn(impression, Feedback(impression.ranking == 3, examined=impression.ranking.size))
    for number in range(20):
        ranking = algorithm.best(learner.state, query, derive(number, 0))
        assert ranking[0] == 3
        assert sorted(ranking.tolist()) == list(range(query.n_documents))


def check_learns_from_easy_clicks(algorithm: Algorithm) -> None:
    """After some hundred impressions, queries are ranked better than at the start, for most seeds.

    These are unseen queries; or, if each query has its own model, the queries that were shown.
    """
    split = tiny_split() if algorithm.per_query else tiny_split(n_queries=60, seed=99)
    gains = [
        _quality(play(algorithm, 800, seed), split) - _quality(play(algorithm, 0, seed), split) for seed in range(5)
    ]
    assert np.median(gains) > 0.05


def _quality(learner: Learner, split: Split) -> float:
    judged = ((split.query(index), split.judgements(index)) for index in range(len(split)))
    return float(np.mean([(nDCG @ 5).of(labels[learner.best(query)], labels) for query, labels in judged]))


def check_every_parameter_matters(algorithm: Algorithm) -> None:
    """No parameter is silently ignored: for each that is not listed as inert, some other value changes what is learned."""
    # Most differ after a few impressions; only the others get more.
    base = {n: _learned(play(algorithm, n)) for n in (40, 400)}
    for path, others in variations(algorithm):
        assert any(_learns_otherwise(other, n, base[n]) for n in base for other in others), (
            f"{path} of {algorithm!r} has no effect"
        )


def _learns_otherwise(algorithm: Algorithm, n_impressions: int, base: NDArray[Any]) -> bool:
    """Whether a recipe learns something different; one that raises an error, as for too many rankers, does not."""
    try:
        learned = _learned(play(algorithm, n_impressions))
        return learned.shape != base.shape or not np.allclose(learned, base, rtol=1e-6, atol=1e-9)
    except InvalidRecipe:
        return False


def _learned(learner: Learner) -> NDArray[Any]:
    """Return the weights; or, if each query has its own model, the rankings of the tiny queries."""
    if not learner.algorithm.per_query:
        return learner.weights
    split = tiny_split()
    return np.array([learner.best(split.query(index)) for index in range(len(split))])


def _memory_bytes(state: State) -> int:
    return sum(array.nbytes for array in flatten(state.memory).values())


CHECKS: tuple[Check, ...] = tuple(
    value for name, value in list(globals().items()) if name.startswith("check_") and value is not check_algorithm
)
