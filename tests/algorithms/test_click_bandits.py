"""Click bandits: their bounds are the papers', they learn one query well and many queries not at all, and they forget."""

from collections import OrderedDict
from math import ceil, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import rel_entr

from duelrank import Feedback, Learner, Projected, Query, Snapshot, parse
from duelrank.algorithms import BatchRank, CascadeKLUCB, ClickBandit
from duelrank.algorithms.batch_rank import _end_stage
from duelrank.algorithms.click_bandit import QueryMemory
from duelrank.core.errors import InvalidValue, ShapeMismatch
from duelrank.core.registry import aliases
from duelrank.core.types import State
from duelrank.kernels.bandits import (
    ALL_CLICKED,
    ALL_SEEN,
    BATCH,
    CLICKED,
    POSITIONS,
    SEEN,
    STAGE,
    kl_budget,
    kl_ucb,
    kl_upper,
    stage_length,
    ucb1,
)
from duelrank.kernels.random import derive, permutation, uniform
from duelrank.metrics import nDCG
from duelrank.testing import play, tiny_split
from duelrank.users import Cascade

NAMES = ["cascade-ucb1", "cascade-kl-ucb", "dcm-kl-ucb", "batchrank"]


def query(name: str = "q", n_documents: int = 6) -> Query:
    return Query(name, np.arange(2.0 * n_documents).reshape(n_documents, 2))


def learner(recipe: str, length: int = 5, seed: int = 0) -> Learner:
    return Learner(recipe, 2, seed, length)


def model_of(learned: Learner, of: Query) -> np.ndarray:
    assert isinstance(learned.algorithm, ClickBandit)
    return learned.algorithm._model(learned.state, of, learned.length)[0]


def rounds_of(learned: Learner, name: str) -> int:
    return QueryMemory(learned.algorithm.queries).read(learned.state.memory, name)[1]


class TestBounds:
    def test_ucb1_by_hand(self) -> None:
        model = np.array([[4, 0, 1], [1, 0, 1]])
        expected = [1 / 4 + sqrt(1.5 * log(9) / 4), np.inf, 1 + sqrt(1.5 * log(9) / 1)]
        np.testing.assert_allclose(ucb1(model, 9), expected, rtol=1e-15)

    def test_kl_ucb_by_hand(self) -> None:
        """Of a document that was never clicked, KL(0 ‖ q) = −log(1 − q); one that always was has no room above."""
        model = np.array([[5, 0, 3], [0, 0, 3]])
        budget = log(10) + 3 * log(log(10))
        np.testing.assert_allclose(kl_ucb(model, 9), [1 - np.exp(-budget / 5), np.inf, 1.0], rtol=1e-14)

    @pytest.mark.parametrize("mean", [0.001, 0.1, 0.5, 0.9, 0.999])
    @pytest.mark.parametrize("radius", [1e-6, 1e-3, 0.1, 1.0, 5.0])
    def test_kl_bound_is_the_root(self, mean: float, radius: float) -> None:
        def excess(q: float) -> float:
            return float(rel_entr(mean, q) + rel_entr(1 - mean, 1 - q)) - radius

        largest = np.nextafter(1.0, 0.0)
        root = brentq(excess, mean, largest, xtol=1e-15) if excess(largest) > 0 else 1.0
        assert kl_upper(mean, radius) == pytest.approx(root, abs=1e-10)

    def test_first_rounds_have_no_budget(self) -> None:
        """log t + 3 log log t is negative, or not a number, up to t = 2."""
        assert kl_budget(1.0) == kl_budget(2.0) == 0.0
        assert kl_budget(3.0) == pytest.approx(log(3) + 3 * log(log(3)))


class TestWhatIsObserved:
    CLICKS = np.array([False, True, False, True, False])

    @pytest.mark.parametrize(("recipe", "examined"), [("cascade-ucb1", 2), ("cascade-kl-ucb", 2), ("dcm-kl-ucb", 4)])
    def test_down_to_the_first_or_the_last_click(self, recipe: str, examined: int) -> None:
        learned = learner(recipe)
        impression = learned.rank(query())
        learned.learn(impression, Feedback(self.CLICKS))
        seen, clicked = model_of(learned, query())
        np.testing.assert_array_equal(seen[impression.ranking], np.arange(5) < examined)
        np.testing.assert_array_equal(clicked[impression.ranking], self.CLICKS & (np.arange(5) < examined))

    @pytest.mark.parametrize("recipe", NAMES)
    def test_without_a_click_all_shown_documents_failed(self, recipe: str) -> None:
        learned = learner(recipe)
        impression = learned.rank(query())
        learned.learn(impression, Feedback(np.zeros(5, bool)))
        model = model_of(learned, query())
        seen, clicked = model[[SEEN, CLICKED]] if recipe == "batchrank" else model
        assert seen[impression.ranking].tolist() == [1] * 5
        assert seen.sum() == 5
        assert not clicked.any()

    @pytest.mark.parametrize("recipe", ["cascade-ucb1", "cascade-kl-ucb", "dcm-kl-ucb"])
    def test_bonus_is_in_lists_and_not_in_best(self, recipe: str) -> None:
        """Document 0 has the higher click rate, document 1 the higher bound, document 2 was never examined."""
        learned = learner(recipe)
        memory = QueryMemory(10_000).write(learned.state.memory, "q", np.array([[100, 2, 0], [60, 1, 0]]), 102, 0)
        learned.state = State(learned.state.weights, 1, 0, memory)
        assert learned.rank(query(n_documents=3)).ranking.tolist() == [2, 1, 0]
        assert learned.best(query(n_documents=3)).tolist() == [0, 1, 2]


class TestOneQuery:
    #: Four of sixteen documents attract 30% of the users, the others 5%; users may go on after a click.
    ATTRACTION = np.where(np.arange(16) % 4 == 0, 0.3, 0.05)
    USER = Cascade(click_probability=(0.05, 0.3), stop_probability=(0.5, 0.5), stop_without_click=False)

    @pytest.mark.parametrize("recipe", ["cascade-ucb1", "cascade-kl-ucb", "dcm-kl-ucb"])
    def test_the_best_list_is_found(self, recipe: str) -> None:
        """In the last tenth lists are 90% as attractive as the best one, 1 − 0.7⁴.

        UCB1's bound on an unattractive document falls below 0.3 once it was examined 1.5 · log(n) / 0.25² ≈ 221 times, 2,650
        times for all twelve; each list has at least one observation, so that is over long before round 9,000. From there to
        10,000 the logarithm grows by 1%, so some 30 examinations, each of which costs 0.25 at most, are left for 1,000 lists:
        1%. KL-UCB needs fewer. Attraction is computed from the shown list, so no noise of clicks is in it.
        """
        n = 10_000
        learned, one = learner(recipe, length=4), query(n_documents=16)
        labels = (self.ATTRACTION > 0.1).astype(np.int8)
        rewards = np.empty(n)
        for t in range(n):
            impression = learned.rank(one)
            rewards[t] = 1 - np.prod(1 - self.ATTRACTION[impression.ranking])
            learned.learn(impression, self.USER.click(labels[impression.ranking], derive(5, t)))
        best = 1 - 0.7**4
        assert rewards[-n // 10 :].mean() > 0.9 * best
        assert rewards[:50].mean() < 0.75 * best
        assert set(learned.best(one)[:4].tolist()) == {0, 4, 8, 12}

    def test_batchrank_finds_it_too(self) -> None:
        """Its first stage, ⌈16 · log T⌉ = 122 counts, ends after 122 · 6 / 2 = 366 lists, and separates both kinds of documents.

        With a budget of log T + 3 log log T ≈ 13.7 the bound above a rate of 0.05 is 0.22. An attractive document is clicked by
        0.9 of the users in the first position and by at least 0.9 · (1 − 0.9/2) in the second, 0.7 on average; even of a rate of
        0.5, five standard errors less, the lower bound is 0.28. The two attractive ones are alike, so no list mixes the kinds.
        """
        learned, one = learner("batchrank(horizon=2000)", length=2), query(n_documents=6)
        labels = np.array([0, 1, 0, 0, 1, 0], np.int8)
        user = Cascade(click_probability=(0.05, 0.9), stop_probability=(0.5, 0.5), stop_without_click=False)
        shown = []
        for t in range(2000):
            impression = learned.rank(one)
            shown.append(labels[impression.ranking].mean())
            learned.learn(impression, user.click(labels[impression.ranking], derive(6, t)))
        assert np.mean(shown[:300]) < 0.5
        assert np.mean(shown[-200:]) == 1.0


def test_many_queries_are_hardly_learned_where_features_help() -> None:
    """What is shown to 300 queries, twice each: a click bandit is no better than a random order, while MGD has learned.

    Standard error of the mean over the last 300 lists: of the bandit's own values, and of MGD's.
    """
    split = tiny_split(300, 20, 20, seed=8)

    def shown_by(recipe: str) -> np.ndarray:
        learned, user, values = Learner(recipe, 20, seed=3, length=5), parse("perfect").for_grades(3), []
        for t in range(600):
            labels, impression = split.judgements(t % 300), learned.rank(split.query(t % 300))
            shown = labels[impression.ranking]
            learned.learn(impression, user.click(shown, derive(7, t)))
            values.append((nDCG @ 5).of(shown, labels))
        return np.array(values[300:])

    orders = [permutation(derive(index, 9), 20) for index in range(3000)]
    judged = [split.judgements(index % 300) for index in range(3000)]
    random = np.mean([(nDCG @ 5).of(labels[order[:5]], labels) for order, labels in zip(orders, judged, strict=True)])
    for recipe in NAMES:
        values = shown_by(recipe)
        assert values.mean() < random + 3 * values.std() / sqrt(300)
    values = shown_by("mgd")
    assert values.mean() > random + 3 * values.std() / sqrt(300)


class TestMemory:
    def visit(self, learned: Learner, name: str) -> None:
        impression = learned.rank(query(name))
        learned.learn(impression, Feedback(impression.ranking == 2))

    @pytest.mark.parametrize("recipe", NAMES)
    def test_the_longest_unused_is_forgotten(self, recipe: str) -> None:
        learned = learner(f"{recipe}(queries=50)")
        for number in range(500):
            self.visit(learned, f"q{number}")
            self.visit(learned, "often")
        known = {name for name in ("often", *(f"q{n}" for n in range(500))) if rounds_of(learned, name)}
        assert known == {"often", *(f"q{n}" for n in range(451, 500))}
        assert learned.state.memory["queries_known"].tolist() == [50]
        assert sum(array.nbytes for array in learned.state.memory.values()) < 8 * (50 * (7 * 6 + 4) + 4 * 7 + 1) + 1

    @pytest.mark.parametrize("recipe", NAMES)
    def test_a_forgotten_query_starts_anew(self, recipe: str) -> None:
        learned = learner(f"{recipe}(queries=1)")
        for _ in range(3):
            self.visit(learned, "one")
        assert learned.best(query("one"))[0] == 2
        self.visit(learned, "two")
        firsts = {int(learned.algorithm.best(learned.state, query("one"), derive(n, 0))[0]) for n in range(60)}
        assert firsts == set(range(6))

    @pytest.mark.parametrize("recipe", NAMES)
    def test_other_documents_start_anew(self, recipe: str) -> None:
        learned = learner(recipe)
        self.visit(learned, "q")
        assert model_of(learned, query(n_documents=6)).any()
        other = query(n_documents=7)
        impression = learned.rank(other)
        learned.learn(impression, Feedback(np.zeros(5, bool)))
        fresh = learner(recipe)
        fresh.learn(impression, Feedback(np.zeros(5, bool)))
        np.testing.assert_array_equal(model_of(learned, other), model_of(fresh, other))
        assert learned.state.memory["queries_known"].tolist() == [1]

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=60), st.integers(1, 6))
    def test_it_is_a_dictionary_that_forgets(self, writes: list[tuple[int, int]], queries: int) -> None:
        memory, state, known = QueryMemory(queries), QueryMemory(queries).start(), OrderedDict[str, np.ndarray]()
        for now, (name, size) in enumerate(writes):
            model = np.full((1, size), now)
            before, copy = state, {name: array.copy() for name, array in state.items()}
            state = memory.write(state, str(name), model, now, now)
            assert all(np.array_equal(before[name], copy[name]) for name in copy)
            known.pop(str(name), None)
            known[str(name)] = model
            if len(known) > queries:
                known.popitem(last=False)
        for name in map(str, range(10)):
            np.testing.assert_array_equal(memory.read(state, name)[0], known.get(name, np.empty((1, 0)))[0])

    @pytest.mark.parametrize("recipe", NAMES)
    def test_a_snapshot_keeps_every_query(self, recipe: str) -> None:
        learned = learner(recipe)
        for number in range(200):
            self.visit(learned, f"q{number}")
        restored = Learner.from_snapshot(Snapshot.from_bytes(learned.snapshot().to_bytes()))
        assert restored.state == learned.state
        for number in range(200):
            assert restored.rank(query(f"q{number}")) == learned.rank(query(f"q{number}"))

    def test_any_text_is_a_name(self) -> None:
        learned = learner("cascade-ucb1")
        for name in ("", "schuhe größe 42", "\ud800", "q" * 10_000):
            self.visit(learned, name)
            assert model_of(learned, query(name)).any()


class TestBatchRank:
    HORIZON = 3

    def served(self, attractive: set[int], length: int, rounds: int, learned: Learner | None = None) -> Learner:
        learned = learned or learner(f"batchrank(horizon={self.HORIZON})", length)
        for _ in range(rounds):
            impression = learned.rank(query())
            learned.learn(impression, Feedback([document in attractive for document in impression.ranking.tolist()]))
        return learned

    def test_stage_lengths(self) -> None:
        assert [stage_length(stage, 10_000) for stage in range(3)] == [ceil(16 * 4**s * log(10_000)) for s in range(3)]
        assert stage_length(0, 10_000) == 148
        assert stage_length(0, 1) == 1

    def test_documents_are_counted_evenly(self) -> None:
        for rounds in range(1, 30):
            seen = model_of(self.served({0}, 4, rounds), query())[SEEN]
            assert seen.max() - seen.min() <= 1

    def test_a_stage_ends_in_elimination_then_in_a_split(self) -> None:
        """Six documents in lists of two are counted once in three lists; both attractive ones look alike, so there is no split."""
        first = 3 * ceil(16 * log(3))
        learned = self.served({1, 4}, 2, first - 1)
        assert model_of(learned, query())[STAGE, 0] == 0
        self.served({1, 4}, 2, 1, learned)
        model = model_of(learned, query())
        assert model[BATCH].tolist() == [-1, 0, -1, -1, 0, -1]
        assert (model[STAGE, 0], model[POSITIONS, 0], model[SEEN].sum()) == (1, 2, 0)
        self.served({4}, 2, ceil(64 * log(3)), learned)  # as many documents as positions: each list counts both
        model = model_of(learned, query())
        assert model[BATCH].tolist() == [-1, 1, -1, -1, 0, -1]
        assert model[POSITIONS, :3].tolist() == [1, 1, 0]
        assert model[STAGE, :2].tolist() == [0, 0]
        assert {tuple(learned.rank(query()).ranking.tolist()) for _ in range(20)} == {(4, 1)}
        assert learned.best(query())[:2].tolist() == [4, 1]

    def test_a_split_is_at_the_lowest_position_that_is_sure(self) -> None:
        learned = self.served({1, 4}, 3, 2 * ceil(16 * log(3)))
        model = model_of(learned, query())
        assert model[BATCH].tolist() == [2, 0, 2, 2, 0, 2]
        assert model[POSITIONS, :3].tolist() == [2, 0, 1]
        for _ in range(20):
            assert set(learned.rank(query()).ranking[:2].tolist()) == {1, 4}

    def test_of_two_sure_positions_the_lower_one_is_split(self) -> None:
        """Document 1 is surely better than document 4, and both than the others."""
        model = BatchRank().fresh(6, 3)
        model[SEEN], model[CLICKED] = 18, [0, 18, 0, 0, 9, 0]
        _end_stage(model, 0, kl_budget(3.0))
        assert model[BATCH].tolist() == [2, 0, 2, 2, 0, 2]
        assert model[POSITIONS].tolist() == [2, 0, 1, 0, 0, 0]
        assert not model[[SEEN, CLICKED, STAGE]].any()

    def test_who_may_still_belong_to_the_top_is_not_eliminated(self) -> None:
        """Two positions: with 16 of 18 clicks the second best is at least 0.73; 12 of 18 may be 0.83 in truth, 9 at most 0.69."""
        model = BatchRank().fresh(5, 2)
        model[SEEN], model[CLICKED] = 18, [9, 12, 16, 18, 0]
        radius = kl_budget(3.0) / 18
        assert kl_upper(9 / 18, radius) < 1 - kl_upper(1 - 16 / 18, radius) < kl_upper(12 / 18, radius)
        _end_stage(model, 0, kl_budget(3.0))
        assert model[BATCH].tolist() == [-1, 0, 0, 0, -1]
        assert model[STAGE, 0] == 1

    def test_best_is_by_batch_then_by_clicks_and_eliminated_ones_are_last(self) -> None:
        model = BatchRank().fresh(5, 3)
        model[BATCH], model[POSITIONS] = [1, 0, -1, 1, -1], [1, 2, 0, 0, 0]
        model[ALL_SEEN], model[ALL_CLICKED] = 10, [10, 0, 10, 9, 5]
        assert np.argsort(-BatchRank().attraction(model)).tolist() == [1, 0, 3, 2, 4]
        assert np.unique(BatchRank().attraction(model)).size == 5

    @given(st.integers(1, 8), st.data())
    def test_batches_always_fill_their_positions(self, n_documents: int, data: st.DataObject) -> None:
        """Whatever is clicked: batches lie side by side, no position is lost, and none has more positions than documents."""
        length, horizon = data.draw(st.integers(1, n_documents)), data.draw(st.sampled_from([1, 2]))
        clicks, one = derive(data.draw(st.integers(0, 999)), 0), query(n_documents=n_documents)
        learned = learner(f"batchrank(horizon={horizon})", length)
        for _ in range(60):
            impression = learned.rank(one)
            learned.learn(impression, Feedback([uniform(clicks) < 1 / (2 + d) for d in impression.ranking.tolist()]))
            model = model_of(learned, one)
            firsts = np.flatnonzero(model[POSITIONS])
            np.testing.assert_array_equal(np.cumsum([0, *model[POSITIONS, firsts]]), [*firsts, length])
            assert all((model[BATCH] == first).sum() >= model[POSITIONS, first] for first in firsts)
            assert set(model[BATCH].tolist()) <= {-1, *firsts.tolist()}

    def test_late_feedback_counts_only_in_its_own_stage(self) -> None:
        learned = self.served({1, 4}, 2, 5)
        late = learned.rank(query())
        now = model_of(self.served({1, 4}, 2, 0, learned), query())
        learned.learn(late, Feedback([True, True]))
        assert model_of(learned, query())[SEEN].sum() == now[SEEN].sum() + 2
        self.served({1, 4}, 2, 3 * ceil(16 * log(3)), learned)
        before = model_of(learned, query())
        assert before[STAGE, 0] == 1
        learned.learn(late, Feedback([True, True]))
        np.testing.assert_array_equal(model_of(learned, query()), before)

    def test_feedback_on_documents_that_are_ahead_is_not_counted(self) -> None:
        learned = self.served({1}, 2, 0)
        impression = learned.rank(query())
        for _ in range(4):
            learned.learn(impression, Feedback([True, True]))
        assert sorted(model_of(learned, query())[SEEN].tolist()) == [0, 0, 0, 0, 1, 1]

    def test_lists_of_other_lengths(self) -> None:
        """A shorter list shows the model's top; what a longer one adds is random and teaches nothing."""
        learned = self.served({1, 4}, 3, 2 * ceil(16 * log(3)))  # positions 1 and 2, and 3, are batches of their own
        assert all(learned.rank(query(), 1).ranking[0] in (1, 4) for _ in range(20))
        longer = learned.rank(query(), 6)
        assert set(longer.ranking[:2].tolist()) == {1, 4}
        assert sorted(longer.ranking.tolist()) == list(range(6))
        learned.learn(longer, Feedback(np.ones(6, bool)))
        model = model_of(learned, query())
        assert np.flatnonzero(model[SEEN]).tolist() == sorted(longer.ranking[:3].tolist())
        shorter = learned.rank(query(), 1)
        learned.learn(shorter, Feedback([False]))
        assert np.flatnonzero(model_of(learned, query())[SEEN]).tolist() == np.flatnonzero(model[SEEN]).tolist()

    def test_lists_of_others_are_refused(self) -> None:
        impression = learner("cascade-ucb1").rank(query())
        with pytest.raises(InvalidValue, match="batches"):
            learner("batchrank").learn(impression, Feedback(np.zeros(5, bool)))


def test_best_refuses_other_features() -> None:
    with pytest.raises(ShapeMismatch):
        learner("cascade-ucb1").best(Query("q", np.ones((3, 5))))


def test_projecting_a_click_bandit_changes_nothing_and_has_no_name() -> None:
    projected, plain = play(Projected(CascadeKLUCB()), 50), play(CascadeKLUCB(), 50)
    assert not projected.weights.any()
    assert projected.state.of("base") == plain.state
    assert not [name for name in aliases(Projected) if isinstance(aliases(Projected)[name].base, ClickBandit)]


def test_what_is_declared() -> None:
    assert all(parse(name).per_query for name in NAMES)
    assert not parse("mgd").per_query
    assert BatchRank().horizon == 10_000
