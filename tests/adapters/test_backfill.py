"""What a ranker takes over from a log, and at which length."""

from __future__ import annotations

import numpy as np
import pytest

from duelrank import Learner
from duelrank.adapters.backfill import ENOUGH, IMITATED_DOCUMENTS, IMITATED_WORTH, LENGTH, LogLearner
from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe, ShapeMismatch
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream
from duelrank.core.types import Feedback, Query, State
from duelrank.service.log import pack_state, unpack_state

N_FEATURES = 3
RECIPES = [
    "mgd-dsp",
    "pdgd",
    "dbgd(step=Momentum())",
    "query-scaled >> wmgd-dsp",
    "curves >> wmgd-dsp",
    "ramps >> pdgd",
]


def lists(number: int, seed: int = 1):
    """Lists of production, which sorts by the first feature; users click what is good in the first two, and leave."""
    rng = np.random.default_rng(seed)
    for name in range(number):
        features = rng.random((12, N_FEATURES))
        ranking = np.argsort(-features[:, 0])[:8]
        clicks = np.zeros(8, bool)
        for position, document in enumerate(ranking):
            clicks[position] = rng.random() < 0.9 * (features[document, :2].sum() > 1.2)
            if clicks[position] and rng.random() < 0.7:
                break
        yield Query(f"q{name}", features), ranking, Feedback(clicks)


def taught(recipe: str, number: int, state: State | None = None) -> tuple[LogLearner, State, State]:
    ranker = parse(recipe, Algorithm)
    state = state or ranker.start(N_FEATURES, stream(1, "start"))
    learner = LogLearner(ranker)
    logged = learner.start(state)
    for each, (query, ranking, feedback) in enumerate(lists(number)):
        logged = learner.learn(logged, query, ranking, feedback, stream(each, "log"))
    return learner, state, logged


@pytest.mark.parametrize("recipe", RECIPES)
class TestEveryRecipe:
    def test_the_ranker_ranks_as_the_log_taught_and_can_go_on(self, recipe):
        learner, state, logged = taught(recipe, 300)
        ranker, after = parse(recipe, Algorithm), learner.handed_over(state, logged)
        query = next(lists(1, seed=9))[0]
        best = ranker.best(after, query, stream(1, "best"))
        assert np.array_equal(best, learner.algorithm.best(logged, query, stream(1, "best")))
        impression = ranker.rank(after, query, 5, stream(1, "rank"))
        live = ranker.learn(after, impression, Feedback([False, True, False, False, False]), stream(1, "learn"))
        assert np.isfinite(live.weights).all()
        assert live.step == state.step + 1

    def test_counts_stay_those_of_the_ranker(self, recipe):
        ranker = parse(recipe, Algorithm)
        begun = ranker.start(N_FEATURES, stream(1, "start"))
        learner, _, logged = taught(recipe, 20, State(begun.weights, 7, 5, begun.memory))
        after = learner.handed_over(State(begun.weights, 7, 5, begun.memory), logged)
        assert (after.step, after.updates) == (7, 5)

    def test_a_half_read_log_can_be_stored(self, recipe):
        learner, state, logged = taught(recipe, 40)
        back = unpack_state(pack_state(logged), learner.algorithm)
        assert back == logged
        query, ranking, feedback = next(lists(1, seed=5))
        went_on = [learner.learn(each, query, ranking, feedback, stream(5, "log")) for each in (back, logged)]
        assert went_on[0] == went_on[1]
        assert learner.handed_over(state, back) == learner.handed_over(state, logged)

    def test_a_log_without_clicks_changes_no_weights(self, recipe):
        ranker = parse(recipe, Algorithm)
        state, learner = ranker.start(N_FEATURES, stream(1, "start")), LogLearner(ranker)
        query, ranking, _ = next(lists(1))
        logged = learner.learn(learner.start(state), query, ranking, Feedback([False] * 8), stream(1, "log"))
        assert np.array_equal(learner.handed_over(state, logged).weights, state.weights)


class TestLength:
    def test_it_grows_with_the_square_root_of_the_lists_and_then_no_more(self):
        learner, state, logged = taught("mgd-dsp", 30)
        for updates, length in ((ENOUGH // 100, LENGTH / 10), (ENOUGH, LENGTH), (9 * ENOUGH, LENGTH)):
            after = learner.handed_over(state, State(logged.weights, 2 * updates, updates))
            assert np.linalg.norm(after.weights) == pytest.approx(length)

    def test_weights_that_the_ranker_was_given_are_trusted_no_less_than_before(self):
        given = State(np.array([20.0, 0.0, 0.0]))
        learner, _, logged = taught("mgd-dsp", 30, given)
        after = learner.handed_over(given, logged)
        assert np.linalg.norm(after.weights) == pytest.approx(20.0)
        assert after.weights[0] < 20.0


def test_knots_come_from_the_log_and_what_parts_remember_of_other_columns_does_not():
    learner, state, logged = taught("ramps >> mgd-dsp", 40)
    ranker = parse("ramps >> mgd-dsp", Algorithm)
    remembering = ranker.learn(
        state, ranker.rank(state, *_first(), stream(1, "rank")), Feedback([True] + [False] * 4), stream(1, "learn")
    )
    assert "projection" in remembering.memory
    after = learner.handed_over(remembering, logged)
    assert after.memory["representation"] == logged.memory["representation"]
    assert len(after.weights) > len(state.weights)
    assert "projection" not in after.memory


def _first():
    return next(lists(1))[0], 5


def test_it_learns_what_production_does_not_know():
    """Production sorts by the first of two equally good features; pairs with skips above a click alone teach to turn it around."""
    _, _, logged = taught("mgd-dsp", 2000)
    first, second, noise = logged.weights
    assert second > 0.0 < first
    assert max(first, second) > 3.0 * abs(noise)


@pytest.mark.parametrize(("recipe", "reason"), [("pairrank", "first click"), ("cascade-ucb1", "for each query")])
def test_who_keeps_nothing_in_weights_refuses(recipe, reason):
    with pytest.raises(InvalidRecipe, match=reason):
        LogLearner(parse(recipe, Algorithm))


def test_a_learner_reads_a_log_in_one_pass():
    one, other = Learner("curves >> wmgd-dsp", N_FEATURES, seed=3), Learner("curves >> wmgd-dsp", N_FEATURES, seed=3)
    one.backfill(lists(100))
    other.backfill(list(lists(100)))
    assert one.state == other.state
    assert one.ranked == one.state.step == 0
    assert np.linalg.norm(one.weights) > 0.0
    with pytest.raises(ShapeMismatch):
        one.backfill([(Query("wide", np.zeros((2, 4))), [0, 1], Feedback([True, False]))])


def test_a_ranker_with_weights_above_0_takes_over_such_weights():
    learner, state, logged = taught("mgd-dsp(step=NonNegative())", 300)
    logged = State(logged.weights * [1, 1, -1] - [0, 0, 0.5], logged.step, logged.updates, logged.memory)
    after = learner.handed_over(state, logged)
    assert logged.weights[2] < 0.0 == after.weights[2]
    assert np.linalg.norm(after.weights) == pytest.approx(LENGTH * np.sqrt(logged.updates / ENOUGH))


def test_only_proportions_of_weights_matter():
    learner = LogLearner(parse("mgd-dsp", Algorithm))
    found = []
    for scale in (None, 1.0, 100.0, 1e6):
        logged = learner.start(State(np.zeros(N_FEATURES)))
        for query, ranking, feedback in lists(50):
            weights = None if scale is None else feedback.clicks * scale
            logged = learner.learn(logged, query, ranking, Feedback(feedback.clicks, weights=weights), stream(1, "log"))
        found.append(logged.weights)
    assert all(np.array_equal(found[0], other) for other in found[1:])


class TestImitation:
    def imitated(self, recipe: str, number: int) -> tuple[LogLearner, State, State]:
        ranker = parse(recipe, Algorithm)
        state, learner = ranker.start(N_FEATURES, stream(1, "start")), LogLearner(ranker)
        logged = learner.start(state)
        for each, (query, _, _) in enumerate(lists(number)):
            logged = learner.imitate(logged, query, np.argsort(-query.features[:, 0]), stream(each, "log"))
        return learner, state, logged

    @pytest.mark.parametrize("recipe", RECIPES)
    def test_the_order_is_learned_from_few_lists(self, recipe):
        learner, state, logged = self.imitated(recipe, 100)
        after, ranker = learner.handed_over(state, logged), parse(recipe, Algorithm)
        agree = []
        for query, _, _ in lists(50, seed=2):
            best = ranker.best(after, query, stream(1, "best"))
            agree.append(best[0] == query.features[:, 0].argmax())
        assert np.mean(agree) > 0.7, "one in twelve by chance"

    def test_an_imitated_list_is_worth_several_of_a_log(self):
        learner, state, logged = self.imitated("mgd-dsp", 300)
        expected = LENGTH * np.sqrt(IMITATED_WORTH * 300 / ENOUGH)
        assert np.linalg.norm(learner.handed_over(state, logged).weights) == pytest.approx(expected)

    def test_it_does_not_change_what_is_known_of_users(self):
        learner, _, logged = taught("mgd-dsp", 20)
        query = Query("", np.random.default_rng(1).random((12, N_FEATURES)))
        after = learner.imitate(logged, query, np.arange(12), stream(0, "log"))
        assert after.of("examination").memory is logged.of("examination").memory
        assert not np.array_equal(after.weights, logged.weights)

    def test_what_is_known_of_users_is_of_the_columns_that_there_are(self):
        learner, _, logged = taught("curves >> mgd-dsp", 5)
        assert logged.of("examination").memory, "users of the log are known"
        columns = {len(logged.weights)}
        for each, (query, ranking, _) in enumerate(lists(100, seed=2)):
            logged = learner.imitate(logged, query, ranking, stream(each, "log"))
            columns.add(len(logged.weights))
            known = logged.of("examination").memory.get("examination_documents")
            assert known is None or known.shape == (2, len(logged.weights) + 1)
        assert len(columns) > 1, "the knots have moved"

    def test_long_lists_are_cut_and_one_document_teaches_nothing(self):
        learner, _, logged = self.imitated("mgd-dsp", 1)
        features = np.random.default_rng(1).random((IMITATED_DOCUMENTS + 50, N_FEATURES))
        long, cut = Query("", features), Query("", features[:IMITATED_DOCUMENTS])
        orders = [
            learner.imitate(logged, query, np.arange(query.n_documents), stream(0, "log")) for query in (long, cut)
        ]
        assert np.array_equal(orders[0].weights, orders[1].weights)
        one = learner.imitate(logged, Query("", features[:1]), np.arange(1), stream(0, "log"))
        assert np.array_equal(one.weights, logged.weights)
