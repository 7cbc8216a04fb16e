"""Learner and Snapshot: two verbs, nothing remembered behind the caller's back, and bytes that can be trusted."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import pickle
import sys
import zipfile
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.algorithms import MGD, Algorithm, DuelingBandit
from duelrank.core.errors import DuelrankError, InvalidRecipe, InvalidValue, MissingExtra, ShapeMismatch, UnknownName
from duelrank.core.grammar import parse
from duelrank.core.registry import aliases
from duelrank.core.types import Feedback, Query
from duelrank.learner import Learner, Snapshot

RECIPES = ["dbgd", "mgd-dsp", "nsgd-dsp"]
N_FEATURES = 4


def queries(n: int, seed: int = 0) -> list[Query]:
    rng = np.random.default_rng(seed)
    return [Query(f"q{i}", rng.random((int(rng.integers(1, 13)), N_FEATURES))) for i in range(n)]


def clicks_on(impression, number: int) -> Feedback:
    rng = np.random.default_rng(number)
    return Feedback(rng.random(impression.ranking.size) < 0.4)


def run(learner: Learner, n: int, seed: int = 0) -> Learner:
    for number, query in enumerate(queries(n, seed)):
        impression = learner.rank(query)
        learner.learn(impression, clicks_on(impression, number))
    return learner


def learner_of(recipe: str = "mgd-dsp", seed: int = 7) -> Learner:
    return Learner(recipe, N_FEATURES, seed=seed)


@pytest.fixture(params=RECIPES)
def trained(request) -> Learner:
    return run(learner_of(request.param), 60)


class TestTwoVerbs:
    @pytest.mark.parametrize("recipe", sorted(aliases(Algorithm)))
    def test_same_seed_same_calls_same_state_to_the_bit(self, recipe):
        one, other = run(learner_of(recipe), 40), run(learner_of(recipe), 40)
        assert one.state == other.state
        assert one.state.step == 40
        assert one.state.updates > 0 or one.algorithm.per_query  # such an algorithm has no weights to move

    def test_another_seed_explores_otherwise(self):
        assert run(learner_of(seed=1), 20).state != run(learner_of(seed=2), 20).state

    @pytest.mark.parametrize("recipe", RECIPES)
    @pytest.mark.parametrize("length", [1, 3, 10, 500])
    def test_a_list_has_no_duplicates_and_at_most_its_length(self, recipe, length):
        learner = learner_of(recipe)
        for query in queries(20):
            ranking = learner.rank(query, length).ranking.tolist()
            assert len(ranking) == min(length, query.n_documents)
            assert len(set(ranking)) == len(ranking)
            assert set(ranking) <= set(range(query.n_documents))

    def test_ranking_changes_nothing_that_was_learned(self, trained):
        before = trained.state
        for query in queries(5):
            trained.rank(query)
            trained.best(query)
        assert trained.state is before

    def test_best_orders_by_score_and_holds_every_document(self, trained):
        for query in queries(10):
            scores = query.features @ trained.weights
            ranked = trained.best(query)
            assert sorted(ranked.tolist()) == list(range(query.n_documents))
            assert np.all(np.diff(scores[ranked]) <= 1e-12)

    def test_asking_for_the_best_does_not_disturb_what_follows(self):
        disturbed, plain = learner_of(), learner_of()
        for query in queries(5):
            disturbed.best(query)
            assert disturbed.rank(query) == plain.rank(query)

    def test_no_click_moves_nothing_but_counts(self, trained):
        before = trained.state
        impression = trained.rank(queries(1)[0])
        trained.learn(impression, Feedback(np.zeros(impression.ranking.size, bool)))
        assert np.array_equal(trained.weights, before.weights)
        assert (trained.state.step, trained.state.updates) == (before.step + 1, before.updates)

    def test_updates_count_the_moves(self):
        learner, moves = learner_of("dbgd"), 0
        for number, query in enumerate(queries(50)):
            before = learner.weights
            impression = learner.rank(query)
            learner.learn(impression, clicks_on(impression, number))
            moves += not np.array_equal(before, learner.weights)
        assert 0 < moves < 50
        assert learner.state.updates == moves

    def test_weights_are_readonly(self, trained):
        with pytest.raises(ValueError, match="read-only"):
            trained.weights[0] = 1.0

    def test_earlier_states_are_never_written_to(self, trained):
        state = trained.state
        kept = deepcopy(state)
        run(trained, 30, seed=5)
        assert state == kept


class TestImpressionsInFlight:
    @pytest.mark.parametrize("recipe", RECIPES)
    def test_reverse_order_late_and_never_are_all_fine(self, recipe):
        learner = run(learner_of(recipe), 10)
        flying = [learner.rank(query) for query in queries(12, seed=3)]
        for number, impression in reversed(list(enumerate(flying[2:]))):
            learner.learn(impression, clicks_on(impression, number))
        assert learner.state.step == 10 + 10
        assert learner.ranked == 10 + 12
        assert np.isfinite(learner.weights).all()

    @pytest.mark.parametrize("recipe", RECIPES)
    def test_what_is_learned_depends_on_the_impression_not_on_what_was_ranked_last(self, recipe):
        one, other = run(learner_of(recipe), 15), run(learner_of(recipe), 15)
        query, distraction = queries(2, seed=4)
        impression, same = one.rank(query), other.rank(query)
        other.rank(distraction)
        one.learn(impression, clicks_on(impression, 1))
        other.learn(same, clicks_on(same, 1))
        assert one.state == other.state

    def test_the_gradient_of_an_impression_is_that_of_its_own_directions(self):
        """Learned in either order, each of two impressions of a plain duel moves the weights by the same step."""
        ahead, back = learner_of("mgd"), learner_of("mgd")
        pairs = [(learner.rank(queries(2)[0]), learner.rank(queries(2)[1])) for learner in (ahead, back)]
        for learner, order in ((ahead, (0, 1)), (back, (1, 0))):
            pair = pairs[0]
            for index in order:
                learner.learn(pair[index], clicks_on(pair[index], index))
        np.testing.assert_allclose(ahead.weights, back.weights, atol=1e-15)
        assert ahead.state.updates == back.state.updates > 0

    def test_an_impression_is_learned_from_again_as_another_user(self):
        learner = run(learner_of("mgd"), 10)
        impression = learner.rank(Query("q", np.eye(N_FEATURES)))
        for _ in range(2):
            learner.learn(impression, Feedback([False, True, False, False]))
        assert learner.state.step == 12


class TestBadInput:
    def refuses(self, learner, error, match, action):
        state, ranked = learner.state, learner.ranked
        with pytest.raises(error, match=match) as caught:
            action()
        assert isinstance(caught.value, DuelrankError)
        assert learner.state is state
        assert learner.ranked == ranked

    @pytest.mark.parametrize("n", [0, 1, 9, 11])
    def test_clicks_of_another_length_leave_the_state_alone(self, trained, n):
        impression = trained.rank(Query("q", np.random.default_rng(0).random((10, N_FEATURES))))
        action = lambda: trained.learn(impression, Feedback(np.ones(n, bool)))  # noqa: E731
        self.refuses(trained, ShapeMismatch, f"10 documents were shown.*got {n}", action)

    @pytest.mark.parametrize("n", [N_FEATURES - 1, N_FEATURES + 1])
    def test_documents_with_other_features_are_refused_everywhere(self, trained, n):
        stranger = Query("stranger", np.ones((3, n)))
        match = f"the ranker has {N_FEATURES} features, query 'stranger' has {n}"
        self.refuses(trained, ShapeMismatch, match, lambda: trained.rank(stranger))
        self.refuses(trained, ShapeMismatch, match, lambda: trained.best(stranger))
        impression = Learner("mgd", n).rank(stranger)
        self.refuses(trained, ShapeMismatch, match, lambda: trained.learn(impression, Feedback([True, False, False])))

    @pytest.mark.parametrize("length", [0, -1, -(10**9)])
    def test_a_list_has_at_least_one_position(self, trained, length):
        self.refuses(trained, InvalidValue, "a whole number from 1 up", lambda: trained.rank(queries(1)[0], length))

    @pytest.mark.parametrize("length", [2.5, "3", True, float("nan")])
    def test_a_length_is_a_whole_number(self, trained, length):
        self.refuses(trained, InvalidValue, "length", lambda: trained.rank(queries(1)[0], length))

    def test_an_impression_of_another_recipe_is_refused(self):
        learner, query = learner_of("mgd"), Query("q", np.eye(N_FEATURES))
        foreign = Learner("nsgd", N_FEATURES).rank(query)
        feedback = Feedback([True, False, False, False])
        self.refuses(
            learner, InvalidValue, "must have 'ranks' in its trace; this one", lambda: learner.learn(foreign, feedback)
        )

    def test_any_other_key_error_passes(self, monkeypatch):
        learner, query = learner_of("mgd"), Query("q", np.eye(N_FEATURES))
        monkeypatch.setattr(DuelingBandit, "gradient", lambda *_: {}["mean"])
        with pytest.raises(KeyError, match=r"^'mean'$"):
            learner.learn(learner.rank(query), Feedback([True, False, False, False]))

    @pytest.mark.parametrize("n", [0, -1, 2.0, "3", None, True])
    def test_the_number_of_features_is_a_whole_number(self, n):
        with pytest.raises(InvalidValue, match="n_features must be a whole number from 1 up"):
            Learner("mgd", n)

    @pytest.mark.parametrize("length", [0, -1, 2.0, "3", None, True])
    def test_the_length_of_a_list_is_a_whole_number(self, length):
        with pytest.raises(InvalidValue, match="a whole number from 1 up"):
            Learner("mgd", 3, length=length)

    @pytest.mark.parametrize("seed", [-1, 1.5, None, "7"])
    def test_a_seed_is_a_whole_number(self, seed):
        with pytest.raises(InvalidValue, match="seed must be a whole number"):
            Learner("mgd", 3, seed=seed)

    def test_an_unknown_recipe_suggests_and_a_user_is_none(self):
        with pytest.raises(UnknownName, match="did you mean mgd"):
            Learner("mdg", 3)
        with pytest.raises(InvalidRecipe, match="but an algorithm is required"):
            Learner("perfect", 3)

    @pytest.mark.parametrize("algorithm", [5, None, MGD, parse("perfect")], ids=repr)
    def test_what_is_no_algorithm_is_refused(self, algorithm):
        with pytest.raises(DuelrankError):
            Learner(algorithm, 3)

    def test_one_document_and_one_feature_are_enough(self):
        for recipe in RECIPES:
            learner = Learner(recipe, 1)
            impression = learner.rank(Query("q", [[0.5]]))
            assert impression.ranking.tolist() == [0]
            learner.learn(impression, Feedback([True]))

    def test_documents_without_any_feature_set_teach_nothing_wrong(self):
        for recipe in RECIPES:
            learner = learner_of(recipe)
            for _ in range(20):
                impression = learner.rank(Query("q", np.zeros((5, N_FEATURES))))
                learner.learn(impression, Feedback([False, True, True, False, True]))
            assert np.isfinite(learner.weights).all()


class TestSnapshots:
    def test_going_on_from_a_snapshot_is_going_on(self, trained):
        snapshot = trained.snapshot()
        restored = Learner.from_snapshot(snapshot)
        assert restored.snapshot() == snapshot
        assert run(restored, 20, seed=2).state == run(trained, 20, seed=2).state
        assert restored.ranked == trained.ranked

    def test_a_snapshot_is_not_changed_by_what_follows(self, trained):
        snapshot = trained.snapshot()
        packed = snapshot.to_bytes()
        run(trained, 20, seed=2)
        assert snapshot == Snapshot.from_bytes(packed)
        assert trained.snapshot() != snapshot

    def test_bytes_hold_everything(self, trained):
        snapshot = trained.snapshot()
        unpacked = Snapshot.from_bytes(snapshot.to_bytes())
        assert unpacked == snapshot
        assert run(Learner.from_snapshot(unpacked), 20, seed=2).state == run(trained, 20, seed=2).state

    def test_weights_of_unpacked_bytes_are_readonly(self, trained):
        assert not Snapshot.from_bytes(trained.snapshot().to_bytes()).state.weights.flags.writeable

    def test_restoring_rolls_back(self, trained):
        snapshot = trained.snapshot()
        expected = run(Learner.from_snapshot(snapshot), 5, seed=1).state
        run(trained, 20, seed=2)
        trained.restore(snapshot)
        assert trained.snapshot() == snapshot
        assert run(trained, 5, seed=1).state == expected

    def test_restoring_takes_over_the_seed_and_the_length(self):
        snapshot = run(Learner("mgd", N_FEATURES, seed=3, length=2), 5).snapshot()
        learner = Learner("mgd", N_FEATURES, seed=4)
        learner.restore(snapshot)
        assert (learner.seed, learner.length) == (3, 2)
        assert learner.rank(queries(1)[0]) == Learner.from_snapshot(snapshot).rank(queries(1)[0])

    @pytest.mark.parametrize("other", [Learner("mgd", N_FEATURES + 1), Learner("dbgd", N_FEATURES)])
    def test_a_snapshot_of_another_recipe_does_not_fit(self, other):
        learner = run(learner_of("mgd"), 5)
        before = learner.snapshot()
        with pytest.raises(InvalidValue, match="but this learner is"):
            learner.restore(other.snapshot())
        assert learner.snapshot() == before

    def test_a_failed_restore_changes_nothing(self):
        learner = run(learner_of("mgd"), 5)
        before = learner.snapshot()
        with pytest.raises(DuelrankError):
            learner.restore(dataclasses.replace(before, seed=-1, length=3))
        assert learner.snapshot() == before


def packed(head: object, **arrays) -> bytes:
    text = head if isinstance(head, str) else json.dumps(head)
    buffer = io.BytesIO()
    np.savez(buffer, head=np.array(text), **arrays)
    return buffer.getvalue()


HEAD = {
    "algorithm": "MGD()",
    "n_features": 3,
    "seed": 1,
    "length": 10,
    "ranked": 0,
    "step": 0,
    "updates": 0,
    "format": 1,
}


@cache  # not made when the tests are collected, in every process, but when the first of them runs
def whole(recipe: str = "nsgd-dsp") -> bytes:
    return run(learner_of(recipe), 6).snapshot().to_bytes()


class TestDamagedBytes:
    @given(st.deferred(lambda: st.integers(0, len(whole()) - 1)))
    def test_truncated_bytes_are_refused(self, length):
        with pytest.raises(InvalidValue, match="not a snapshot"):
            Snapshot.from_bytes(whole()[:length])

    @given(st.binary(max_size=200))
    def test_any_bytes_are_refused(self, data):
        with pytest.raises(InvalidValue):
            Snapshot.from_bytes(data)

    @given(st.deferred(lambda: st.integers(22, len(whole()) - 1)), st.integers(1, 255))
    def test_one_wrong_byte_of_an_array_is_found(self, where, flip):
        """Within the stored arrays; the directory of the archive has its own test."""
        infos = zipfile.ZipFile(io.BytesIO(whole())).infolist()
        starts = [info.header_offset + 30 + len(info.filename) + 20 for info in infos]
        info, start = next((info, start) for info, start in zip(infos, starts, strict=True) if info.file_size > 0)
        place = start + where % info.file_size
        damaged = bytearray(whole())
        damaged[place] ^= flip
        with pytest.raises(InvalidValue, match="not a snapshot"):
            Snapshot.from_bytes(bytes(damaged))

    def test_a_wrong_byte_anywhere_is_an_error_of_ours_or_harmless(self):
        sound = whole(
            "mgd-dsp"
        )  # fewer arrays than of nsgd-dsp, with a memory among them; entries of the directory are all of one form
        before = Snapshot.from_bytes(sound)
        directory = zipfile.ZipFile(io.BytesIO(sound)).start_dir
        strange = []
        for place in range(directory, len(sound)):
            for flip in (1, 128):
                damaged = bytearray(sound)
                damaged[place] ^= flip
                try:
                    Snapshot.from_bytes(bytes(damaged))
                except DuelrankError:
                    continue
                except Exception as error:
                    strange.append((place, flip, repr(error)))
        assert strange == []
        assert before.to_bytes() == sound

    def test_pickled_objects_are_refused_and_never_run(self, tmp_path):
        target = tmp_path / "made"

        class Trap:
            def __reduce__(self):
                return (open, (str(target), "w"))

        trap = np.empty(3, object)
        trap[:] = [Trap(), None, None]
        for data in (packed(HEAD, weights=trap), packed(HEAD, weights=np.zeros(3), **{"memory/x": trap})):
            with pytest.raises(InvalidValue, match="not a snapshot"):
                Snapshot.from_bytes(data)
        with pytest.raises(InvalidValue, match="not a snapshot"):
            Snapshot.from_bytes(pickle.dumps(Trap()))
        assert not target.exists()

    def test_another_format_is_refused(self):
        with pytest.raises(InvalidValue, match="another version"):
            Snapshot.from_bytes(packed(HEAD | {"format": 2}, weights=np.zeros(3)))

    @pytest.mark.parametrize("missing", sorted(HEAD))
    def test_a_missing_entry_is_refused(self, missing):
        head = {name: value for name, value in HEAD.items() if name != missing}
        with pytest.raises(InvalidValue, match="not a snapshot"):
            Snapshot.from_bytes(packed(head, weights=np.zeros(3)))

    def test_missing_weights_and_unknown_entries_are_refused(self):
        for data in (
            packed(HEAD),
            packed(HEAD | {"surprise": 1}, weights=np.zeros(3)),
            packed("{", weights=np.zeros(3)),
        ):
            with pytest.raises(InvalidValue, match="not a snapshot"):
                Snapshot.from_bytes(data)

    @pytest.mark.parametrize("head", ["5", "null", '"text"', "[" * 100_000], ids=["number", "null", "text", "deep"])
    def test_a_head_that_is_no_mapping_is_refused(self, head):
        with pytest.raises(InvalidValue):
            Snapshot.from_bytes(packed(head, weights=np.zeros(3)))

    @pytest.mark.parametrize(
        "bad",
        [{"length": "ten"}, {"length": 0}, {"ranked": None}, {"ranked": -1}, {"step": -1}, {"n_features": 4}],
        ids=repr,
    )
    def test_values_that_cannot_be_are_refused(self, bad):
        with pytest.raises(DuelrankError):
            Learner.from_snapshot(Snapshot.from_bytes(packed(HEAD | bad, weights=np.zeros(3))))

    @pytest.mark.parametrize("bad", [{"n_features": "x"}, {"seed": -1}, {"algorithm": "perfect"}], ids=repr)
    def test_what_no_learner_can_be_made_of_is_refused(self, bad):
        with pytest.raises(DuelrankError):
            Learner.from_snapshot(Snapshot.from_bytes(packed(HEAD | bad, weights=np.zeros(3))))

    @pytest.mark.parametrize(
        "weights",
        [np.zeros(2), np.zeros((3, 1)), np.full(3, np.nan), np.zeros(3, np.int64), np.array(["a", "b", "c"])],
        ids=["short", "table", "nan", "int", "text"],
    )
    def test_weights_that_cannot_be_are_refused(self, weights):
        with pytest.raises(DuelrankError):
            Learner.from_snapshot(Snapshot.from_bytes(packed(HEAD, weights=weights)))


def test_damaged_headers_of_large_arrays_are_refused() -> None:
    """An array that is larger than zip's first read has its header parsed before any checksum is looked at."""
    whole = Learner("mgd", 3000).snapshot().to_bytes()
    start = whole.index(b"\x93NUMPY")
    for place in range(start, start + 128):
        for value in (0, 40, 58, 255):
            damaged = bytearray(whole)
            damaged[place] = value
            if bytes(damaged) != whole:
                with contextlib.suppress(InvalidValue):
                    Snapshot.from_bytes(bytes(damaged))


NAMES = ["bm25", "pagerank", "clicks", "age"]


class TestGivenWeights:
    def test_learning_starts_from_them(self):
        given = np.array([0.5, -1.0, 0.0, 2.0])
        learner = Learner("mgd", weights=given, seed=7)
        given[:] = 0.0
        assert learner.weights.tolist() == [0.5, -1.0, 0.0, 2.0]
        assert learner.n_features == N_FEATURES
        assert np.linalg.norm(run(learner, 40).weights - [0.5, -1.0, 0.0, 2.0]) > 0.0
        assert not learner.weights.flags.writeable

    def test_zeros_are_the_same_as_none(self):
        given, plain = Learner("mgd-dsp", weights=np.zeros(N_FEATURES), seed=7), learner_of()
        assert run(given, 40).state == run(plain, 40).state

    def test_names_may_say_which_is_which(self):
        learner = Learner("pdgd", feature_names=NAMES, weights={"age": -1.0, "bm25": 2})
        assert learner.weights.tolist() == [2.0, 0.0, 0.0, -1.0]
        assert Learner("pdgd", weights={"age": -1.0, "bm25": 2}).feature_names == ("age", "bm25")

    @pytest.mark.parametrize(
        ("wrong", "error", "match"),
        [
            ({"weights": [1.0, np.nan]}, InvalidValue, "weights must be finite, found nan"),
            ({"weights": ["a"]}, InvalidValue, "weights must be one number per feature"),
            ({"weights": [[1.0]]}, ShapeMismatch, r"got shape \(1, 1\)"),
            ({"weights": []}, ShapeMismatch, r"got shape \(0,\)"),
            ({"weights": [1.0, 2.0], "n_features": 3}, ShapeMismatch, "n_features 3, weights 2"),
            ({"weights": [1.0], "feature_names": NAMES}, ShapeMismatch, "weights 1, feature_names 4"),
            ({"weights": {"bm52": 1.0}, "feature_names": NAMES}, UnknownName, "did you mean bm25"),
            ({"feature_names": "bm25"}, InvalidValue, "feature_names must be a list of non-empty strings"),
            ({"feature_names": []}, InvalidValue, "feature_names must be a list of non-empty strings"),
            ({"feature_names": ["a", ""]}, InvalidValue, "feature_names must be a list of non-empty strings"),
            ({"feature_names": ["a", "a"]}, InvalidValue, "'a' occurs twice"),
            ({"algorithm": "cascade-ucb1", "weights": [1.0]}, InvalidRecipe, "a model for each query"),
        ],
    )
    def test_what_is_wrong_is_refused(self, wrong, error, match):
        with pytest.raises(error, match=match):
            Learner(**{"algorithm": "mgd"} | wrong)


class TestNames:
    def test_they_travel_with_a_snapshot(self):
        learner = run(Learner("mgd", feature_names=NAMES), 5)
        restored = Learner.from_snapshot(Snapshot.from_bytes(learner.snapshot().to_bytes()))
        assert restored.feature_names == tuple(NAMES)
        assert restored.state == learner.state

    def test_snapshots_without_names_are_as_they_always_were(self):
        packed = learner_of().snapshot().to_bytes()
        with np.load(io.BytesIO(packed)) as arrays:
            assert "feature_names" not in json.loads(str(arrays["head"]))
        named = Learner("mgd-dsp", feature_names=NAMES)
        named.restore(Snapshot.from_bytes(packed))
        assert named.feature_names == tuple(NAMES)

    def test_a_snapshot_of_other_features_does_not_fit(self):
        with pytest.raises(InvalidValue, match="other feature names"):
            Learner("mgd", feature_names=NAMES).restore(Learner("mgd", feature_names=NAMES[::-1]).snapshot())
        with pytest.raises(InvalidValue, match="4 strings"):
            dataclasses.replace(Learner("mgd", feature_names=NAMES).snapshot(), feature_names=("a",)).check()

    def test_the_strongest_are_shown(self):
        learner = Learner("mgd-dsp", feature_names=["<b>", *NAMES[1:]], weights=[0.5, 0.0, -2.0, 1.0])
        assert repr(learner) == "<Learner mgd-dsp: 4 features, learned from 0 lists; clicks -2, age 1, <b> 0.5>"
        shown = learner._repr_html_()
        assert shown.index("clicks") < shown.index("age") < shown.index("&lt;b&gt;") < shown.index("pagerank")
        assert repr(Learner("mgd", 30)) == "<Learner mgd: 30 features, learned from 0 lists>"
        assert "… and 20 more" in Learner("mgd", 30)._repr_html_()


class TestObserve:
    @pytest.mark.parametrize("recipe", ["mgd-dsp", "pdgd", "pairrank"])
    def test_clicks_on_any_list_teach(self, recipe):
        learner = learner_of(recipe)
        query = Query("q", np.random.default_rng(3).random((6, N_FEATURES)))
        for _ in range(10):
            impression = learner.observe(query, [5, 3, 1, 0])
            assert impression.ranking.tolist() == [5, 3, 1, 0]
            learner.learn(impression, Feedback([False, False, True, False]))
        assert learner.state.updates > 0
        assert learner.ranked == learner.state.step == 10

    @pytest.mark.parametrize("ranking", [[], [0, 0], [-1], [4], [0.5], [[0, 1]], [True], "ab", [[0], [1, 2]]])
    def test_a_ranking_is_of_different_documents_of_the_query(self, ranking):
        learner = learner_of()
        with pytest.raises(InvalidValue, match="distinct document indices from 0 to 3"):
            learner.observe(Query("q", np.eye(N_FEATURES)), ranking)
        assert learner.ranked == 0

    def test_other_features_are_refused(self):
        with pytest.raises(ShapeMismatch, match="the ranker has 4 features, query 'q' has 3"):
            learner_of().observe(Query("q", np.eye(3)), [0])

    def test_who_must_know_how_a_list_was_made_refuses(self):
        with pytest.raises(InvalidRecipe, match="only from lists that it has made itself"):
            learner_of("cascade-ucb1").observe(Query("q", np.eye(N_FEATURES)), [0])


REPRESENTED = [
    "query-scaled >> mgd-dsp",
    "curves(pieces=4) >> mgd-dsp",
    "query-scaled >> ramps >> nsgd-dsp",
    "steps >> pdgd",
]
GROWN = "ramps(pieces=4) >> mgd-dsp"  # to 2 pieces after 32 lists, to 4 after 64


class TestRepresented:
    @pytest.mark.parametrize("recipe", [*REPRESENTED, GROWN])
    @pytest.mark.parametrize("before", [10, 16, 40, 70])
    def test_going_on_from_bytes_is_going_on_to_the_bit(self, recipe, before):
        learner = run(learner_of(recipe), before)
        again = Learner.from_snapshot(Snapshot.from_bytes(learner.snapshot().to_bytes()))
        for number, query in enumerate(queries(100 - before, seed=9)):
            one, other = learner.rank(query), again.rank(query)
            assert one == other
            learner.learn(one, clicks_on(one, number))
            again.learn(other, clicks_on(other, number))
        assert again.state == learner.state
        restored = learner_of(recipe, seed=1)
        restored.restore(learner.snapshot())
        assert restored.state == learner.state

    @pytest.mark.parametrize("before", [3, 20])
    def test_a_list_from_before_a_restart_is_learned_from_as_if_there_was_none(self, before):
        learner = run(learner_of("ramps >> mgd-dsp"), before)
        impression = learner.rank(queries(1, seed=4)[0])
        again = Learner.from_snapshot(Snapshot.from_bytes(learner.snapshot().to_bytes()))
        for each in (learner, again):
            each.learn(impression, clicks_on(impression, 1))
        assert again.state == learner.state

    @pytest.mark.parametrize("recipe", [*REPRESENTED, GROWN])
    def test_scores_are_what_the_best_ranking_is_sorted_by(self, recipe):
        learner = run(learner_of(recipe), 70)
        for query in queries(10, seed=3):
            assert np.all(np.diff(learner.score(query)[learner.best(query)]) <= 1e-12)
        with pytest.raises(ShapeMismatch, match="4 features, query 'q' has 3"):
            learner.score(Query("q", np.ones((2, 3))))

    def test_scores_are_sums_of_curves(self):
        learner = run(Learner(GROWN, feature_names=["a", "b", "c", "d"]), 70)
        assert len(learner.weights) == 16
        (query,) = queries(1, seed=5)
        columns = dict(zip(learner.feature_names or (), query.features.T, strict=True))
        sums = np.sum([each.curve.at(columns[each.name]) for each in learner.curves()], axis=0)
        np.testing.assert_allclose(sums - sums[0], learner.score(query) - learner.score(query)[0], atol=1e-12)

    def test_given_weights_are_one_per_feature(self):
        given = [1.0, 0.0, -0.5, 2.0]
        learner = Learner(GROWN, weights=given)
        assert learner.weights.tolist() == given
        (query,) = queries(1)
        span = np.ptp(query.features, axis=0)
        scaled = (query.features - query.features.min(axis=0)) / np.where(span > 0, span, 1.0)
        np.testing.assert_allclose(learner.score(query), scaled @ given)
        assert len(run(learner, 70).weights) == 16

    def test_observed_lists_teach(self):
        learner = learner_of("ramps(pieces=4) >> pdgd")
        for number, query in enumerate(queries(70)):
            impression = learner.observe(query, np.arange(query.n_documents))
            learner.learn(impression, clicks_on(impression, number))
        assert len(learner.weights) == 16
        with pytest.raises(ShapeMismatch, match="4 features"):
            learner.observe(Query("q", np.ones((2, 16))), [0, 1])

    def test_ranges_of_curves_are_shown_where_a_feature_has_several_weights(self):
        learner = Learner(GROWN, weights={"price": 1.0, "age": -2.0, "a": 0.0, "b": 0.0})
        assert repr(learner).endswith("learned from 0 lists; age -2, price 1, a 0>")
        assert "<th>weight</th>" in learner._repr_html_()
        run(learner, 70)
        curves = {each.name: np.ptp(each.curve.heights) for each in learner.curves()}
        widest = sorted(curves, key=lambda name: -curves[name])
        shown = ", ".join(f"{name} {curves[name]:.3g}" for name in widest[:3])
        assert repr(learner).endswith(f"learned from 70 lists; ranges of curves: {shown}>")
        assert "<th>range of its curve</th>" in learner._repr_html_()
        assert learner._repr_html_().count("<tr>") == 5

    def test_the_representation_is_that_of_the_recipe(self):
        assert learner_of(GROWN).representation == parse("ramps(pieces=4)")
        assert learner_of("mgd-dsp").representation == parse("raw")


class TestPlot:
    @pytest.mark.parametrize("recipe", [*REPRESENTED, GROWN, "mgd-dsp", "query-ranks >> distribution >> mgd"])
    @pytest.mark.parametrize("lists", [0, 70])
    def test_a_panel_for_each_feature(self, recipe, lists):
        figure = run(learner_of(recipe), lists).plot()
        assert sorted(panel.get_title() for panel in figure.axes) == [f"feature {n}" for n in range(4)]
        assert f"learned from {lists} lists" in figure.get_suptitle()
        figure.savefig(io.BytesIO(), format="svg")

    def test_the_most_important_come_first_and_the_title_counts_the_others(self):
        learner = run(Learner(GROWN, feature_names=["a", "b", "c", "d"]), 70)
        figure = learner.plot(features=3)
        assert [panel.get_title() for panel in figure.axes] == [each.name for each in learner.curves()[:3]]
        assert figure.get_suptitle().endswith("; 1 more feature moves rankings less")

    def test_what_cannot_be_drawn_is_refused(self, monkeypatch):
        with pytest.raises(InvalidRecipe, match="a model for each query and no weights, so it has no curves"):
            Learner("cascade-ucb1", 2).plot()
        with pytest.raises(InvalidValue, match="features must be"):
            learner_of().plot(features=0)
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        with pytest.raises(MissingExtra, match=r"duelrank\[plot\]"):
            learner_of().plot()
