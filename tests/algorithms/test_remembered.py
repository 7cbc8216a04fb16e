"""The memory of queries: counts and boosts by the definition, what is forgotten, and that shared weights take it into account."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

import numpy as np
import pytest
from tests.reference.pdgd import _log_chance, _sigmoid

from duelrank import MGD, Feedback, Impression, Learner, Query, parse
from duelrank.algorithms import Remember, Remembered, Represented
from duelrank.algorithms.remembered import RATE_KEPT, Remembrance, click_rate, document_keys
from duelrank.core.errors import InvalidRecipe, InvalidValue, ShapeMismatch
from duelrank.core.randomness import stream
from duelrank.core.snapshot import Snapshot
from duelrank.core.types import NO_BOOSTS, State
from duelrank.export import Model, export
from duelrank.kernels import pdgd, thompson_pairs
from duelrank.projection import LastClick, WholeList
from duelrank.representation.base import knots_of
from duelrank.testing import play, tiny_split

RNG = np.random.default_rng(0)
#: The user looks one position below the last click.
NEXT = Remember(examination=LastClick(beyond=1))


def query(id: str = "q", n: int = 6, ids: bool = True, seed: int = 0) -> Query:
    features = np.random.default_rng(seed).random((n, 4))
    return Query(id, features, documents=[f"d{row}" for row in range(n)] if ids else ())


def taught(remember: Remember, lists: int = 40, queries: int = 3, ids: bool = True, seed: int = 0) -> Learner:
    """Return a learner after lists of some queries, of which the documents 1 and 3 are clicked, and others sometimes."""
    learner, rng = Learner(Remembered(MGD(), remember), 4, seed, length=5), np.random.default_rng(seed)
    for number in range(lists):
        shown = learner.rank(query(f"q{number % queries}", ids=ids))
        learner.learn(shown, (np.isin(shown.ranking, (1, 3)) & (rng.random(5) < 0.7)) | (rng.random(5) < 0.1))
    return learner


def counts(learner: Learner, id: str = "q0") -> dict[str | int, tuple[float, float]]:
    return {each.document: (each.clicks, each.views) for each in learner.remembered(id)}


class Slow:
    """The definition in plain Python: clicks and views by query and document, and the clicks per view of all lists."""

    def __init__(self, remember: Remember) -> None:
        self.remember, self.clicks_and_views = remember, [0.0, 0.0]
        self.known: dict[str, OrderedDict[str | int, list[float]]] = defaultdict(OrderedDict)

    def count(self, shown: Impression, clicks: list[bool]) -> None:
        known, asked = self.known[shown.query.id], shown.query
        kept = 1.0 if self.remember.half_life is None else 0.5 ** (1.0 / self.remember.half_life)
        for each in known.values():
            each[:] = [kept * each[0], kept * each[1]]
        last = max((place for place, click in enumerate(clicks) if click), default=-2)
        views = [float(place <= last + 1) for place in range(len(clicks))]
        for row, click, view in zip(shown.ranking.tolist(), clicks, views, strict=True):
            each = known.setdefault(asked.documents[row] if asked.documents else row, [0.0, 0.0])
            each[:] = [each[0] + click, each[1] + view]
        rate = [RATE_KEPT * number for number in self.clicks_and_views]
        self.clicks_and_views = [rate[0] + sum(clicks), rate[1] + sum(views)]

    def boost(self, id: str, document: str | int) -> float:
        clicks, views = self.known[id].get(document, (0.0, 0.0))
        rate = self.clicks_and_views[0] / self.clicks_and_views[1] if self.clicks_and_views[1] else 0.0
        return self.remember.strength * (clicks - rate * views) / (views + self.remember.doubt)


class TestStrengthZero:
    @pytest.mark.parametrize("name", ["mgd-dsp", "wmgd-dsp-curves", "thompson-pairs", "pdgd", "pairrank", "mlp-pdgd"])
    def test_changes_no_bit(self, name: str) -> None:
        base, with_memory = parse(name), parse(f"remember(strength=0, curious=0.5) >> {name}")
        one, other, split = play(base, 0), play(with_memory, 0), tiny_split()
        for number in range(90):
            asked = split.query(number % 12)
            shown, same = one.rank(asked), other.rank(asked)
            assert shown == same
            clicks = split.judgements(number % 12)[shown.ranking] > number % 3
            one.learn(shown, clicks)
            other.learn(same, clicks)
        own = {**other.state.memory.get("base", {}), "representation": other.state.memory.get("representation", {})}
        memory = {name: known for name, known in own.items() if name != "representation" or known}
        assert State(other.weights, other.state.step, other.state.updates, memory) == one.state
        assert np.array_equal(one.best(asked), other.best(asked))
        assert len(other.remembered(asked)) > 0  # but counts


class TestBoosts:
    @pytest.mark.parametrize("ids", [True, False])
    @pytest.mark.parametrize("half_life", [None, 7.0])
    def test_follow_the_definition(self, ids: bool, half_life: float | None) -> None:
        remember = Remember(strength=2.5, doubt=0.7, half_life=half_life, examination=LastClick(beyond=1))
        learner, slow, rng = Learner(Remembered(MGD(), remember), 4, length=4), Slow(remember), np.random.default_rng(1)
        for number in range(60):
            asked = query(f"q{number % 4}", ids=ids)
            wanted = [slow.boost(asked.id, row if not ids else f"d{row}") for row in range(6)]
            np.testing.assert_allclose(learner.boosts(asked), wanted, rtol=1e-6, atol=1e-7)
            shown = learner.rank(asked)
            clicks = (rng.random(4) < 0.3).tolist()
            learner.learn(shown, clicks)
            slow.count(shown, clicks)
        assert np.ptp(wanted) > 0.1  # there was something to compare

    def test_are_rounded_to_single_precision(self) -> None:
        found = taught(NEXT).boosts(query("q0"))
        assert np.array_equal(found, found.astype(np.float32))

    def test_a_view_counts_half_after_the_half_life(self) -> None:
        learner, asked = Learner("remember(half_life=5, examination=WholeList()) >> mgd", 4), query()
        for _ in range(6):
            learner.learn(learner.rank(asked), np.zeros(6, bool))
        halves = sum(0.5 ** (n / 5) for n in range(6))
        np.testing.assert_allclose([each.views for each in learner.remembered(asked)], halves)

    def test_a_new_document_has_none(self) -> None:
        asked = query("q0")
        more = Query("q0", np.vstack([asked.features, asked.features[:1]]), documents=[*asked.documents, "new"])
        found = taught(NEXT).boosts(more)
        assert found[:-1].all()
        assert found[-1] == 0.0

    def test_an_unknown_query_has_none_and_is_ranked_by_its_features(self) -> None:
        learner = taught(NEXT)
        asked = query("unknown", seed=5)
        assert not learner.boosts(asked).any()
        scores = learner.score(asked)[learner.best(asked)]
        assert np.all(np.diff(scores) <= 0.0)

    def test_documents_are_known_by_their_ids_wherever_they_are(self) -> None:
        learner, asked = taught(NEXT), query("q0")
        turned = Query("q0", asked.features[::-1], documents=asked.documents[::-1])
        assert np.array_equal(learner.boosts(turned), learner.boosts(asked)[::-1])

    def test_documents_without_ids_are_known_by_their_rows(self) -> None:
        assert set(counts(taught(NEXT, ids=False))) <= set(range(6))

    def test_rows_and_ids_are_not_mixed(self) -> None:
        """Row 1 need not be the document that had row 1 before: the query starts again, and other queries stay."""
        learner = taught(NEXT, ids=False)
        shown = learner.rank(query("q0"))
        assert not shown.query.boosts.size
        learner.learn(shown, np.arange(5) == 4)
        assert set(counts(learner)) == {f"d{row}" for row in shown.ranking.tolist()}
        assert set(counts(learner, "q1")) <= set(range(6))
        learner.learn(learner.rank(query("q0", ids=False)), np.arange(5) == 4)
        assert set(counts(learner)) <= set(range(6))

    def test_without_an_id_nothing_is_remembered(self) -> None:
        learner = Learner("remember >> mgd", 4)
        before = learner.state.memory["remember"]
        learner.learn(learner.rank(query("")), [True, False, False, False, False, False])
        assert learner.state.memory["remember"] is before

    def test_own_boosts_of_a_query_are_kept(self) -> None:
        learner = taught(NEXT)
        own = Query("q0", query("q0").features, query("q0").documents, np.arange(6) * 100.0)
        assert learner.best(own).tolist() == [5, 4, 3, 2, 1, 0]
        assert learner.boosts(own).tolist() == own.boosts.tolist()

    def test_a_click_raises_the_document_of_this_query_only(self) -> None:
        learner, asked = Learner("remember >> thompson-pairs", 4), Query("q", np.full((5, 4), 0.5))
        for _ in range(20):
            shown = learner.rank(asked)
            learner.learn(shown, shown.ranking == 3)
        assert learner.best(asked)[0] == 3
        first = {
            int(learner.algorithm.best(learner.state, Query("p", asked.features), stream(n, "b"))[0]) for n in range(40)
        }
        assert len(first) > 1

    def test_a_view_is_not_blamed_below_what_was_seen(self) -> None:
        learner = Learner(Remembered(MGD(), NEXT), 4)
        shown = learner.rank(query())
        learner.learn(shown, np.arange(6) == 1)
        names = [f"d{row}" for row in shown.ranking.tolist()]
        assert counts(learner, "q") == {names[0]: (0.0, 1.0), names[1]: (1.0, 1.0), names[2]: (0.0, 1.0)}


class TestCurious:
    def test_a_share_of_lists_raises_a_document_that_was_hardly_seen(self) -> None:
        learner = taught(Remember(curious=0.25, examination=LastClick(beyond=0)), lists=3, queries=1)
        known = learner.boosts(query("q0"))
        hardly_seen = {row for row in range(6) if dict(counts(learner, "q0")).get(f"d{row}", (0.0, 0.0))[1] < 1.0}
        assert hardly_seen
        raised = []
        for _ in range(2000):
            boosts = learner.rank(query("q0")).query.boosts
            changed = np.flatnonzero(boosts != known)
            raised += changed.tolist()
            assert len(changed) <= 1
            assert all(boosts[row] == known.max() for row in changed)
        assert set(raised) == hardly_seen
        assert abs(len(raised) / 2000 - 0.25) < 4.0 * np.sqrt(0.25 * 0.75 / 2000)

    def test_best_is_never_curious(self) -> None:
        learner = taught(Remember(strength=1000.0, curious=1.0, examination=WholeList()))
        boosts = learner.boosts(query("q0"))
        assert np.all(np.diff(boosts[learner.best(query("q0"))]) <= 0.0)


class TestForgetting:
    def test_the_query_whose_feedback_is_the_oldest_leaves(self) -> None:
        learner = Learner("remember(queries=2) >> mgd", 4)
        for id in ("a", "b", "a", "c"):
            learner.learn(learner.rank(query(id)), np.arange(6) == 2)
        assert [bool(learner.remembered(id)) for id in "abc"] == [True, False, True]

    def test_the_document_that_was_seen_longest_ago_leaves(self) -> None:
        learner, asked = Learner("remember(documents=3, examination=LastClick(beyond=0)) >> pdgd", 4), query()
        for ranking, clicked in (([0, 1, 2], 2), ([3, 0, 1], 0), ([1, 4], 0)):
            learner.learn(learner.observe(asked, ranking), np.arange(len(ranking)) == clicked)
        # The first list showed 0, 1 and 2, of which the lowest counts as the oldest: 2 left for 3. Then 1 was seen again.
        assert set(counts(learner, "q")) == {"d0", "d1", "d3"}
        learner.learn(learner.observe(asked, [4]), [True])
        assert set(counts(learner, "q")) == {"d1", "d3", "d4"}


class TestStates:
    @pytest.mark.parametrize("ids", [["d1", "d2"], ["schön", "木"], ["\ud800", 'a"b\\'], ["", "\0"]])
    def test_ids_survive_packing(self, ids: list[str]) -> None:
        known = Remembrance(document_keys(ids), np.array([[1.0, 0.0], [2.5, 0.5]]), ["query", *ids])
        again = Remembrance.unpacked(known.packed())
        assert list(again.names) == ["query", *ids]
        assert again.keys.tolist() == known.keys.tolist()
        assert again.counts.tolist() == known.counts.tolist()

    def test_a_snapshot_continues_identically(self) -> None:
        learner = taught(Remember(curious=0.2, half_life=10.0))
        again = Learner.from_snapshot(Snapshot.from_bytes(learner.snapshot().to_bytes()))
        assert again.remembered("q0") == learner.remembered("q0")
        for number in range(20):
            one, other = (each.rank(query(f"q{number % 4}")) for each in (learner, again))
            assert one == other
            learner.learn(one, one.ranking == 1)
            again.learn(other, other.ranking == 1)
        assert again.state == learner.state

    def test_the_order_of_feedback_does_not_change_counts(self) -> None:
        found = []
        for turn in (1, -1):
            learner = Learner(Remembered(MGD(), NEXT), 4, length=5)
            late = [learner.rank(query(f"q{n % 2}")) for n in range(12)]
            for shown in late[::turn]:
                learner.learn(shown, shown.ranking == 3)
            found.append((counts(learner), counts(learner, "q1")))
        assert found[0] == found[1]

    def test_late_feedback_counts_for_the_list_that_was_shown(self) -> None:
        learner = taught(NEXT)
        late = learner.rank(query("q0"))
        before = late.query.boosts
        for _ in range(5):
            shown = learner.rank(query("q0"))
            learner.learn(shown, shown.ranking == 5)
        clicks = counts(learner)[f"d{late.ranking[0]}"][0]
        learner.learn(late, np.arange(5) == 0)
        assert np.array_equal(late.query.boosts, before)
        assert counts(learner)[f"d{late.ranking[0]}"][0] == clicks + 1.0

    def test_moving_knots_keep_the_counts(self) -> None:
        """Feedback is late, so that some lists were made with other knots than those of the state that learns from them."""
        learner = Learner("remember(examination=LastClick(beyond=1)) >> wmgd-dsp-curves", 4)
        rng, slow, elsewhere = np.random.default_rng(4), Slow(NEXT), 0
        for start in range(0, 120, 10):
            tables = ((f"q{number % 3}", rng.random((6, 4)) * (1 + number)) for number in range(start, start + 10))
            for shown in [learner.rank(Query(id, table, query().documents)) for id, table in tables]:
                knots, clicks = knots_of(learner.state.memory["representation"]), (rng.random(6) < 0.3).tolist()
                elsewhere += not np.array_equal(shown.trace["knots"], knots)
                learner.learn(shown, clicks)
                slow.count(shown, clicks)
        assert elsewhere > 0
        for id in ("q0", "q1", "q2"):
            wanted = {document: tuple(each) for document, each in slow.known[id].items() if each[1]}
            assert counts(learner, id) == wanted

    @pytest.mark.parametrize("before", ["", "query-scaled >> "])
    def test_a_log_fills_the_memory(self, before: str) -> None:
        learner = Learner(f"{before}remember(examination=LastClick(beyond=1)) >> mgd-dsp", 4)
        learner.backfill([(query(), [4, 2, 0], [False, True, False])] * 3)
        assert counts(learner, "q") == {"d2": (3.0, 3.0), "d4": (0.0, 3.0), "d0": (0.0, 3.0)}
        assert learner.weights.any()

    def test_a_log_fills_the_memory_although_knots_move(self) -> None:
        learner = Learner("remember >> wmgd-dsp-curves", 4)
        learner.backfill([(query(seed=n), [4, 2, 0], [False, True, False]) for n in range(100)])
        assert counts(learner, "q")["d2"] == (100.0, 100.0)
        assert learner.weights.any()


def slope(function, weights: np.ndarray) -> np.ndarray:
    """Return the central differences of a function of the weights."""
    return np.array(
        [(function(weights + step) - function(weights - step)) / 2e-6 for step in 1e-6 * np.eye(len(weights))]
    )


class TestOffsets:
    """Pairs are compared by w·x + boost, so that weights learn only what the memory does not explain."""

    WEIGHTS, ROWS, BOOSTS = RNG.standard_normal(4), RNG.random((5, 4)), RNG.standard_normal(5) * 2.0
    GAINS, SEEN = np.array([0.0, 1.0, 0.0, 2.0, 0.0]), np.array([1.0, 1.0, 0.4, 1.0, 0.7])

    def log_likelihood(self, weights: np.ndarray) -> float:
        scored, pairs = self.ROWS @ weights + self.BOOSTS, np.argwhere(self.GAINS[:, None] > self.GAINS)
        return sum(
            (self.GAINS[i] - self.GAINS[j]) * self.SEEN[j] * np.log(_sigmoid(scored[i] - scored[j])) for i, j in pairs
        )

    def test_pairs_of_any_list(self) -> None:
        found = pdgd.skip_gradient(self.WEIGHTS, self.ROWS, self.BOOSTS, np.arange(5), self.GAINS, self.SEEN)
        np.testing.assert_allclose(4.0 * found, slope(self.log_likelihood, self.WEIGHTS), rtol=1e-6)

    def test_pairs_of_a_drawn_list(self) -> None:
        order, scored = np.arange(5), self.ROWS @ self.WEIGHTS + self.BOOSTS

        def weighted(weights: np.ndarray) -> float:
            now, total = self.ROWS @ weights + self.BOOSTS, 0.0
            for i, j in np.argwhere(self.GAINS[:, None] > self.GAINS):
                swapped = order.copy()
                swapped[[i, j]] = j, i
                share = _sigmoid(_log_chance(scored, swapped) - _log_chance(scored, order))
                total += (self.GAINS[i] - self.GAINS[j]) * share * _sigmoid(now[i] - now[j])
            return total

        found = pdgd.pair_gradient(self.WEIGHTS, self.ROWS, self.BOOSTS, scored, order, self.GAINS)
        np.testing.assert_allclose(found, slope(weighted, self.WEIGHTS), rtol=1e-6)

    @pytest.mark.parametrize("full", [True, False])
    def test_pairs_with_a_belief(self, full: bool) -> None:
        learn, belief = (thompson_pairs.learn_full, np.eye(4)) if full else (thompson_pairs.learn_diagonal, np.ones(4))
        step, after = learn(self.WEIGHTS, belief, self.ROWS, self.BOOSTS, NO_BOOSTS, self.GAINS, self.SEEN, 1.0, 0.0)
        gradient = np.linalg.solve(after @ after.T, step) if full else step / after**2
        n_pairs = sum(self.SEEN[j] for _, j in np.argwhere(self.GAINS[:, None] > self.GAINS))
        np.testing.assert_allclose(gradient * n_pairs, slope(self.log_likelihood, self.WEIGHTS), rtol=1e-5)

    @pytest.mark.parametrize("name", ["log-pairs", "pdgd", "thompson-pairs"])
    def test_what_the_memory_explains_moves_the_weights_less(self, name: str) -> None:
        """A click on the document that the memory puts first is no surprise."""
        algorithm, moves = parse(name), []
        for boosts in (NO_BOOSTS, np.array([8.0, 0.0])):
            state = algorithm.start(2, stream(0, "s"))
            shown = algorithm.observe_list(state, Query("q", np.eye(2), (), boosts), np.array([0, 1]), stream(0, "o"))
            moves.append(np.linalg.norm(algorithm.learn(state, shown, Feedback([True, False]), stream(0, "l")).weights))
        assert moves[1] < 0.01 * moves[0]


class TestRecipes:
    @pytest.mark.parametrize(
        "text",
        [
            "remember >> mgd-dsp",
            "remember(strength=3, doubt=1) >> mgd-dsp",
            "query-scaled >> remember >> mgd-dsp",
            "remember(half_life=100.0) >> wmgd-dsp-curves",
            "query-scaled >> curves >> remember >> pdgd",
            "remember >> curves >> pdgd",
        ],
    )
    def test_the_text_of_a_recipe_is_the_recipe(self, text: str) -> None:
        recipe = parse(text)
        assert parse(repr(recipe)) == recipe
        assert parse(recipe.spelling) == recipe

    def test_spellings(self) -> None:
        assert parse("remember(strength=5) >> mgd-dsp").spelling == "remember >> mgd-dsp"
        assert parse("remember >> query-scaled >> mgd").spelling == "query-scaled >> remember >> mgd"
        assert parse("query-scaled >> remember >> mgd") == Represented(
            Remembered(MGD(), Remember()), parse("query-scaled")
        )
        assert parse("remember >> curves >> mgd") == parse("curves >> remember >> mgd")

    @pytest.mark.parametrize(
        "text", ["remember >> cascade-ucb1", "remember >> batchrank", "raw >> remember >> dcm-kl-ucb"]
    )
    def test_an_algorithm_with_a_model_for_each_query_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidRecipe, match="learns a model for each query"):
            parse(text)

    def test_a_memory_comes_once_and_last(self) -> None:
        with pytest.raises(InvalidRecipe, match="'>>' puts a representation or a memory before"):
            parse("remember >> remember >> mgd")
        with pytest.raises(InvalidRecipe, match="has a memory or a representation already"):
            Remembered(Remembered(MGD()))
        with pytest.raises(InvalidRecipe, match="has a memory or a representation already"):
            Remembered(parse("query-scaled >> mgd"))

    @pytest.mark.parametrize("text", ["mgd >> remember", "remember >> perfect", "remember >> query-scaled"])
    def test_what_is_no_recipe(self, text: str) -> None:
        with pytest.raises(InvalidRecipe):
            Learner(text, 4)

    @pytest.mark.parametrize(
        "text", ["strength=-1", "doubt=0", "half_life=0.5", "curious=1.5", "queries=0", "documents=0"]
    )
    def test_parameters_have_limits(self, text: str) -> None:
        with pytest.raises((InvalidRecipe, InvalidValue)):
            parse(f"remember({text})")


@pytest.mark.parametrize("name", ["mgd-dsp", "wmgd-dsp-curves", "mlp-pdgd"])
def test_an_exported_model_is_by_features_alone(name: str) -> None:
    """An engine knows no boosts, so the memory is exported apart, as pinned documents."""
    learner, asked = Learner(f"remember >> {name}", 4), query("a secret")
    for _ in range(5):
        learner.learn(learner.rank(asked), np.arange(6) == 0)
    assert learner.boosts(asked).any()
    model = Model.from_snapshot(learner.snapshot())
    np.testing.assert_allclose(model.score(asked.features), learner.score(asked), rtol=1e-12)
    assert b"secret" not in export(model, "onnx" if name == "mlp-pdgd" else "json")


class TestLearner:
    def test_what_is_remembered_is_the_best_first(self) -> None:
        learner = taught(NEXT)
        found = learner.remembered("q0")
        assert found == learner.remembered(query("q0"))
        assert [each.boost for each in found] == sorted((each.boost for each in found), reverse=True)
        boosts = dict(zip(query("q0").documents, learner.boosts(query("q0")).tolist(), strict=True))
        assert {each.document: each.boost for each in found}.items() <= boosts.items()
        assert {found[0].document, found[1].document} == {"d1", "d3"}

    def test_behind_a_representation(self) -> None:
        learner = Learner("query-scaled >> remember >> mgd", 4)
        learner.learn(learner.rank(query()), np.arange(6) == 2)
        assert len(learner.remembered("q")) == 6
        assert learner.boosts(query()).any()
        assert learner.rank(query()).query.features is not None

    def test_of_an_unknown_query_and_without_a_memory(self) -> None:
        assert taught(NEXT).remembered("unknown") == []
        learner = Learner("mgd-dsp", 4)
        assert learner.boosts(query()).tolist() == [0.0] * 6
        with pytest.raises(InvalidRecipe, match="mgd-dsp remembers no queries; remember >> mgd-dsp does"):
            learner.remembered("q")

    def test_strength_zero_shows_counts_without_boosts(self) -> None:
        assert {each.boost for each in taught(Remember(strength=0.0)).remembered("q0")} == {0.0}

    def test_the_rate_before_the_first_view(self) -> None:
        assert click_rate(NEXT.start()) == 0.0
        assert click_rate({}) == 0.0


class TestQuery:
    def test_ids_and_boosts_are_kept(self) -> None:
        given = np.array([1.0, -2.0])
        asked = Query("q", np.eye(2), documents=["a", "b"], boosts=given)
        given[0] = 7.0
        assert asked.documents == ("a", "b")
        assert asked.boosts.tolist() == [1.0, -2.0]
        assert not asked.boosts.flags.writeable
        assert asked != Query("q", np.eye(2), ["a", "b"])
        assert asked != Query("q", np.eye(2), ["a", "c"], asked.boosts)
        assert asked == Query("q", np.eye(2), np.array(["a", "b"]), [1, -2])

    def test_no_boosts(self) -> None:
        assert Query("q", np.eye(2)).boosts is NO_BOOSTS
        assert Query("q", np.eye(2), boosts=[]).boosts is NO_BOOSTS

    @pytest.mark.parametrize("documents", [["a"], ["a", "b", "c"], []])
    def test_one_id_per_document(self, documents: list[str]) -> None:
        with pytest.raises(ShapeMismatch, match="2 documents have features, so documents must have 2 ids"):
            Query("q", np.eye(2), documents)

    @pytest.mark.parametrize("documents", ["ab", b"ab", [1, 2], ["a", None], None, 5, ["a", "a"]])
    def test_ids_are_different_texts(self, documents: object) -> None:
        with pytest.raises(InvalidValue, match=r"as texts|an id of its own"):
            Query("q", np.eye(2), documents)  # type: ignore[arg-type]

    @pytest.mark.parametrize("boosts", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]])
    def test_one_boost_per_document(self, boosts: object) -> None:
        with pytest.raises(ShapeMismatch):
            Query("q", np.eye(2), boosts=boosts)  # type: ignore[arg-type]

    @pytest.mark.parametrize("boosts", [[1.0, np.nan], [np.inf, 0.0], ["a", "b"]])
    def test_boosts_are_finite_numbers(self, boosts: object) -> None:
        with pytest.raises(InvalidValue):
            Query("q", np.eye(2), boosts=boosts)  # type: ignore[arg-type]
