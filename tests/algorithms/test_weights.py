"""Actions that weigh more than a click: what they change, in each algorithm and in each way to assign credit."""

import numpy as np
import pytest

from duelrank import Feedback, Learner, Query, parse
from duelrank.algorithms import PDGD, Algorithm, PairRank
from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.memory import flatten
from duelrank.core.randomness import stream
from duelrank.core.registry import aliases, classes
from duelrank.core.types import Impression, State
from duelrank.inference import DifficultQueries
from duelrank.kernels.multileaving import whole_gains
from duelrank.kernels.random import derive
from duelrank.multileaving import Multileaver
from duelrank.projection import LastClick
from duelrank.testing.tiny import tiny_split

ALGORITHMS = aliases(Algorithm)
DUELS = sorted(name for name, algorithm in ALGORITHMS.items() if isinstance(algorithm, DuelingBandit))
QUERY = tiny_split().query(0)
CLICKS = np.array([True, False, True, True, False])
WEIGHTS = np.array([1.0, 0.0, 3.0, 0.1, 0.0])


def learned(algorithm: Algorithm, weights: object = None, lists: int = 25) -> State:
    """Learn from the same positions of all lists."""
    learner = Learner(algorithm, QUERY.features.shape[1], length=5)
    for number in range(lists):
        impression = learner.rank(tiny_split().query(number % 12))
        learner.learn(impression, Feedback(CLICKS, weights=weights))
    return learner.state


class TestDuels:
    @pytest.mark.parametrize("scale", [2.0, 3.0, 1e-9, 1e9])
    @pytest.mark.parametrize("name", DUELS)
    def test_only_proportions_within_a_list_decide(self, name: str, scale: float) -> None:
        assert np.array_equal(
            learned(ALGORITHMS[name], scale * WEIGHTS).weights, learned(ALGORITHMS[name], WEIGHTS).weights
        )

    @pytest.mark.parametrize("name", DUELS)
    def test_weights_make_a_difference(self, name: str) -> None:
        assert not np.array_equal(learned(ALGORITHMS[name], WEIGHTS).weights, learned(ALGORITHMS[name]).weights)

    @pytest.mark.parametrize("name", sorted(classes(Multileaver)))
    def test_credit_follows_the_heavier_document(self, name: str) -> None:
        """Two opposite rankings; their first documents are clicked."""
        multileaver = parse(f"{name}()", Multileaver)
        for number in range(20):
            rankings = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
            shown, trace = multileaver.leave(rankings, 4, stream(number, "leave"))
            impression = Impression(Query("q", np.eye(4)), shown, trace)

            def lead(
                of_first: float, of_last: float, impression: Impression = impression, number: int = number
            ) -> float:
                gains = np.array([of_first, 0.0, 0.0, of_last])[impression.ranking]
                credit = multileaver.assign_credit(impression, gains, stream(number, "credit"))
                preferred = multileaver.preferences(impression, gains, stream(number, "credit"))[1, 0]
                assert preferred == credit[1] - credit[0]
                return float(preferred)

            assert lead(1.0, 5.0) > lead(1.0, 1.0) > lead(5.0, 1.0)

    def test_a_purchase_decides_against_two_clicks(self) -> None:
        trace = {"teams": np.array([0, 1, 0, 1]), "n_rankers": np.array(2)}
        impression = Impression(Query("q", np.eye(4)), np.arange(4), trace)
        credit = parse("TeamDraft()", Multileaver).assign_credit(
            impression, np.array([1.0, 10, 1, 0]), stream(0, "none")
        )
        assert credit.tolist() == [2.0, 10.0]

    @pytest.mark.parametrize("credit", ["exact", "sampled"])
    def test_sums_that_are_equal_are_no_preference(self, credit: str) -> None:
        """0.1 + 0.2 against 0.3, which differ as floats; no ranker returned what the other did, so all is known."""
        multileaver = parse(f"Probabilistic(credit='{credit}')", Multileaver)
        trace = multileaver.evidence(np.array([[0, 1, -1], [2, -1, -1]]), np.arange(3))
        impression = Impression(Query("q", np.eye(3)), np.arange(3), trace)
        for of_last, preference in ((0.3, 0.0), (0.31, 1.0), (0.29, -1.0)):
            gains = np.array([0.1, 0.2, of_last])
            assert multileaver.assign_credit(impression, gains, stream(1, "credit"))[1] == preference


class TestWholeGains:
    @pytest.mark.parametrize(
        ("gains", "whole"),
        [
            ([], []),
            ([0.0, 0.0], []),
            ([1.0, 0.0, 1.0], [1, 1]),
            ([0.7, 0.7], [1, 1]),
            ([1.0, 3.0, 10.0], [1, 3, 10]),
            ([0.1, 0.2, 0.3], [1, 2, 3]),
            ([2.0, 3.0], [2, 3]),
            ([0.3, 1.0, 7.25], [6, 20, 145]),
            ([1.0, 1e9], [1, 1000]),  # rounded to thousandths, but never to nothing
            ([1e308, 1e308, 5e307], [2, 2, 1]),
            ([np.pi, 1.0], [759, 241]),
        ],
    )
    def test_proportions_are_kept(self, gains: list[float], whole: list[int]) -> None:
        assert whole_gains(np.array(gains, float)).tolist() == whole


class TestPDGD:
    def gradient(self, weights: object, algorithm: Algorithm | None = None) -> np.ndarray:
        algorithm = algorithm or PDGD()
        state = State(np.linspace(-1.0, 1.0, 5))
        impression = algorithm.observe_list(state, Query("q", np.eye(5)), np.arange(5), stream(0, "observe"))
        return algorithm.gradient(state, impression, Feedback(CLICKS, weights=weights), stream(0, "learn"))[0]

    @pytest.mark.parametrize("algorithm", [PDGD(), PDGD(observed=LastClick())], ids=["own", "observed"])
    def test_the_gradient_is_proportional_to_the_weights(self, algorithm: Algorithm) -> None:
        np.testing.assert_allclose(
            self.gradient(10.0 * WEIGHTS, algorithm), 10.0 * self.gradient(WEIGHTS, algorithm), rtol=1e-12
        )

    @pytest.mark.parametrize("algorithm", [PDGD(), PDGD(observed=LastClick())], ids=["own", "observed"])
    def test_a_heavier_document_is_pulled_up_more_and_clicked_ones_less(self, algorithm: Algorithm) -> None:
        """Documents are unit vectors, so the entries of the gradient are what the scores gain."""
        plain, heavy = self.gradient(None, algorithm), self.gradient([1, 0, 5, 1, 0], algorithm)
        assert heavy[2] > 4 * plain[2] > 0  # it is also preferred to those that were only clicked
        assert (heavy[[0, 3]] < plain[[0, 3]]).all()
        assert (heavy[[1, 4]] < plain[[1, 4]]).all()
        assert heavy.sum() == pytest.approx(0.0)

    def test_where_all_are_clicked_the_heavier_is_preferred(self) -> None:
        state = State(np.zeros(2))
        impression = PDGD().observe_list(state, Query("q", np.eye(2)), np.arange(2), stream(0, "observe"))
        found = [
            PDGD().gradient(state, impression, Feedback([1, 1], weights=weights), stream(0, "learn"))[0].tolist()
            for weights in (None, [1, 3])
        ]
        # ρ is 1/2 and ∇P is 1/4 at equal scores, and the lead is 3 − 1
        assert found == [[0.0, 0.0], [-0.25, 0.25]]


class TestPairRank:
    def fit(self, weights: object, loss: str = "mean") -> State:
        return learned(parse(f"pairrank(loss='{loss}')", Algorithm), weights)

    def test_on_the_mean_loss_only_proportions_matter(self) -> None:
        np.testing.assert_allclose(self.fit(4.0 * WEIGHTS).weights, self.fit(WEIGHTS).weights, rtol=1e-6, atol=1e-9)

    def test_on_the_sum_heavier_pairs_outweigh_the_penalty(self) -> None:
        lengths = [np.linalg.norm(self.fit(scale * WEIGHTS, "sum").weights) for scale in (0.1, 1.0, 10.0)]
        assert lengths == sorted(lengths)
        assert lengths[2] > 1.2 * lengths[0]

    def test_a_heavier_pair_counts_as_the_same_pair_several_times_in_the_fit_but_not_in_certainty(self) -> None:
        algorithm, start = PairRank(), PairRank().start(2, stream(0, "start"))
        impression = Impression(Query("q", np.eye(2)), np.arange(2))
        heavy = algorithm.learn(start, impression, Feedback([1, 0], weights=[3, 0]), stream(0, "learn"))
        light = algorithm.learn(start, impression, Feedback([1, 0]), stream(0, "learn"))
        for name in ("curvature", "target", "pairs"):
            np.testing.assert_array_equal(heavy.memory[name], 3.0 * light.memory[name])
        np.testing.assert_array_equal(heavy.memory["inverse"], light.memory["inverse"])


@pytest.mark.parametrize("name", sorted(name for name, algorithm in ALGORITHMS.items() if algorithm.per_query))
def test_click_bandits_count_an_action_as_a_click(name: str) -> None:
    assert learned(ALGORITHMS[name], WEIGHTS) == learned(ALGORITHMS[name])


class TestMemoryOfEarlierVersions:
    """They remembered flags where there are weights now."""

    @pytest.mark.parametrize(
        ("name", "part", "remembered"),
        [
            ("cps", "exploration", "history_clicks"),
            ("nsgd(inference=DifficultQueries(when='tie'))", "inference", "hard_clicked_"),
        ],
    )
    def test_flags_are_weights_of_one(self, name: str, part: str, remembered: str) -> None:
        algorithm = parse(name, Algorithm)
        now = learned(algorithm, lists=30)
        own = {k: v.astype(bool) if k.startswith(remembered) else v for k, v in now.memory[part].items()}
        before = State(now.weights, now.step, now.updates, {**now.memory, part: own})
        for number in range(5):
            ones = [algorithm.rank(state, QUERY, 5, derive(number, 0)) for state in (now, before)]
            assert ones[0] == ones[1]
            now, before = (
                algorithm.learn(state, ones[0], Feedback(CLICKS, weights=WEIGHTS), derive(number, 1))
                for state in (now, before)
            )
            assert now == before


def test_ties_are_broken_by_the_heavier_document_of_remembered_queries() -> None:
    """Two winners: one ranks document 0 first, the other one document 1; both were clicked in a remembered list."""
    inference, query = DifficultQueries(when="tie"), Query("q", np.eye(2))
    for weights, best in (([5.0, 1.0], 0), ([1.0, 5.0], 1)):
        impression = Impression(query, np.arange(2), {"directions": np.eye(2)})
        gradient, _ = inference.infer(
            State(np.zeros(2)), impression, Feedback([1, 1], weights=weights), np.array([0.0, 1, 1]), 1.0, derive(0, 0)
        )
        assert gradient.tolist() == np.eye(2)[best].tolist()


@pytest.mark.parametrize(("recipe", "name"), [("nsgd", "hard_clicked_0"), ("cps", "history_clicks")])
def test_what_is_remembered_of_plain_clicks_is_flags(recipe, name):
    """As earlier versions have it, so that a replay of their stores gives the same bytes."""
    algorithm, query = parse(recipe, Algorithm), Query("q", np.random.default_rng(3).random((6, 4)))
    kinds = []
    for weights in (None, [0.0, 3.0, 0.0]):
        state = algorithm.start(4, stream(1, "start"))
        for number in range(3):
            impression = algorithm.rank(state, query, 3, stream(number, "rank"))
            feedback = Feedback([False, True, False], weights=weights)
            state = algorithm.learn(state, impression, feedback, stream(number, "learn"))
        (found,) = [array for key, array in flatten(state.memory).items() if key.endswith(name)]
        kinds.append(found.dtype.kind)
    assert kinds == ["b", "f"]
