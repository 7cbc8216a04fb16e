"""CandidatePreselection replays the past without bias, and tries what won there."""

import itertools

import numpy as np
import pytest

from duelrank import Feedback, Impression, Learner, Query, State, parse
from duelrank.core.errors import InvalidRecipe
from duelrank.exploration import CandidatePreselection
from duelrank.kernels.exploration import draw_chances, log_probability, replay, replayed_outcome
from duelrank.kernels.random import derive, normals
from duelrank.testing import play, tiny_split

N_DOCUMENTS, LENGTH = 5, 3
LISTS = [np.array(shown) for shown in itertools.permutations(range(N_DOCUMENTS), LENGTH)]


def orders(seed: int, n: int) -> np.ndarray:
    """Rankings of the documents by some rankers."""
    return np.argsort(normals(derive(seed, 0), n, N_DOCUMENTS), axis=1)


def ranks_in(order: np.ndarray, shown: np.ndarray) -> np.ndarray:
    return np.argsort(order)[shown]


def chance(order: np.ndarray, shown: np.ndarray, position: int, tau: float) -> float:
    """P(a ranker draws the document at a position | those above it are gone), from the definition."""
    mass = {int(document): (rank + 1.0) ** -tau for rank, document in enumerate(order)}
    left = sum(mass[int(document)] for document in order if document not in shown[:position])
    return mass[int(shown[position])] / left


def clicks_on(shown: np.ndarray) -> np.ndarray:
    """A user whose clicks depend on the whole list: documents 0 and 3 wherever they are, 1 at the top, 4 below 2."""
    after_two = np.cumsum(shown == 2) > 0
    return (shown == 0) | (shown == 3) | ((shown == 1) & (np.arange(LENGTH) == 0)) | ((shown == 4) & after_two)


def really_interleaved(one: np.ndarray, other: np.ndarray, tau: float) -> float:
    """E[sign(clicks of one − clicks of the other)] over all lists and all ways to assign their positions."""
    total = 0.0
    for shown in LISTS:
        clicks = clicks_on(shown)
        for owners in itertools.product((0, 1), repeat=LENGTH):
            drawn = [0.5 * chance((one, other)[owner], shown, p, tau) for p, owner in enumerate(owners)]
            score = sum((1 if owner == 0 else -1) for owner, clicked in zip(owners, clicks, strict=True) if clicked)
            total += float(np.prod(drawn)) * np.sign(score)
    return total


@pytest.mark.parametrize("tau", [0.5, 3.0])
@pytest.mark.parametrize("n_source", [2, 4])
def test_the_weighted_estimate_is_unbiased(tau: float, n_source: int) -> None:
    """Its mean over lists from other rankers is the outcome that interleaving the two would really have, by enumeration."""
    for seed in range(5):
        sources, (one, other) = orders(seed, n_source), orders(seed + 100, 2)
        total_chance = estimate = 0.0
        for shown in LISTS:
            ranks = np.array([ranks_in(order, shown) for order in sources])
            log_source = log_probability(ranks, N_DOCUMENTS, tau)
            pair = draw_chances(np.array([ranks_in(one, shown), ranks_in(other, shown)]), N_DOCUMENTS, tau)
            log_weight, outcome = replayed_outcome(pair[0], pair[1], clicks_on(shown), log_source)
            total_chance += np.exp(log_source)
            estimate += np.exp(log_source) * np.exp(log_weight) * outcome
        assert total_chance == pytest.approx(1.0)
        assert estimate == pytest.approx(really_interleaved(one, other, tau), abs=1e-12)


def test_without_the_weight_the_estimate_is_biased() -> None:
    """So the test above could fail."""
    sources, (one, other) = orders(1, 2), orders(101, 2)
    biased = 0.0
    for shown in LISTS:
        log_source = log_probability(np.array([ranks_in(order, shown) for order in sources]), N_DOCUMENTS, 3.0)
        pair = draw_chances(np.array([ranks_in(one, shown), ranks_in(other, shown)]), N_DOCUMENTS, 3.0)
        biased += np.exp(log_source) * replayed_outcome(pair[0], pair[1], clicks_on(shown), log_source)[1]
    assert abs(biased - really_interleaved(one, other, 3.0)) > 0.05


def test_chances_are_those_of_the_whole_ranking() -> None:
    features, rankers = normals(derive(3, 0), N_DOCUMENTS, 4), normals(derive(4, 0), 7, 4)
    place = np.arange(N_DOCUMENTS)
    for shown in LISTS[::7]:
        found = np.ones((7, LENGTH + 1))
        replay(rankers, features, shown, place, 3.0, found)
        for weights, (*row, beyond) in zip(rankers, found, strict=True):
            order = np.argsort(-(features @ weights))
            np.testing.assert_allclose(row, [chance(order, shown, p, 3.0) for p in range(LENGTH)])
            assert beyond == 1.0


@pytest.mark.parametrize("n_documents", [1, 2, 5, 8])
@pytest.mark.parametrize("n_rankers", [1, 2, 3, 4, 7])
def test_documents_that_are_alike_tie_exactly(n_rankers: int, n_documents: int) -> None:
    """Whatever block of documents or rankers they are scored in: their places alone decide, the same for all rankers."""
    features = np.repeat(normals(derive(5, 0), 1, 37), n_documents, axis=0)
    place = np.arange(n_documents)[::-1].copy()
    found = np.ones((n_rankers, n_documents))
    replay(normals(derive(6, 0), n_rankers, 37), features, np.arange(n_documents), place, 1.0, found)
    expected = [chance(np.argsort(place), np.arange(n_documents), p, 1.0) for p in range(n_documents)]
    np.testing.assert_allclose(found, np.tile(expected, (n_rankers, 1)))


def test_a_steep_softmax_and_a_long_list_do_not_underflow() -> None:
    """P(list) is far below the smallest float, its logarithm is not."""
    ranks = np.arange(400)[::-1].reshape(1, -1).copy()
    found = log_probability(ranks, 400, 20.0)
    masses = -20.0 * np.log(np.arange(400, 0, -1.0))
    rests = np.log([np.sum(np.arange(1, 400 - p + 1.0) ** -20.0) for p in range(400)])
    assert found == pytest.approx(float(np.sum(masses - rests)))
    assert found < np.log(np.finfo(float).tiny)


def remembered(explorer: CandidatePreselection, state: State, clicked: int, seed: int = 0, length: int = 4) -> State:
    """The state after an impression with one click, at a position of a list that was made of two rankers."""
    query = Query("q", normals(derive(seed, 1), 6, 4))
    ranks = np.array([np.arange(length), np.arange(length)[::-1]])
    trace = {"ranks": ranks, "tau": np.array(3.0), "delta": np.array(1.0), "directions": np.eye(4)[:1]}
    impression = Impression(query, np.arange(6)[::-1][:length].copy(), trace)
    memory = explorer.observe(state, impression, Feedback(np.arange(length) == clicked), np.zeros(2), derive(seed, 2))
    return State(state.weights, state.step + 1, state.updates, memory)


@pytest.mark.parametrize("n_drawn", [2, 7])
def test_the_candidate_that_wins_the_tournament_is_tried(n_drawn: int) -> None:
    """On one list with one click the outcome of a pair is (p − q)/(p + q), with p and q their chances of drawing the clicked
    document: the candidate with the largest chance beats all others, in any order.
    """
    explorer = CandidatePreselection(n_drawn=n_drawn)
    for seed in range(20):
        state = remembered(explorer, State(normals(derive(seed, 7), 1, 4)[0]), clicked=2, seed=seed)
        query = Query("now", normals(derive(seed, 8), 3, 4))
        found = explorer.directions(state, query, derive(seed, 9))
        drawn = CandidatePreselection(n_drawn=n_drawn).directions(State(state.weights), query, derive(seed, 9))
        everyone = normals(derive(seed, 9), n_drawn, 4)
        everyone /= np.linalg.norm(everyone, axis=1, keepdims=True)
        np.testing.assert_allclose(drawn, everyone[:1])  # without a past the first of the drawn
        features, shown = state.memory["history_features_0"], state.memory["history_lists"][0]
        orders = np.argsort(-(features @ (state.weights + everyone).T), axis=0).T
        chances = [chance(order, shown, 2, 3.0) for order in orders]
        best = np.flatnonzero(np.isclose(chances, max(chances)))  # rankings may be equal
        assert any(np.allclose(found, everyone[i]) for i in best)
        assert found.shape == (1, 4)


def test_only_the_newest_impressions_are_remembered() -> None:
    explorer, state = CandidatePreselection(remembered_impressions=3), State(np.zeros(4))
    sizes = []
    for seed in range(8):
        state = remembered(explorer, state, clicked=seed % 4, seed=seed)
        sizes.append(sum(array.nbytes for array in state.memory.values()))
    assert sorted(state.memory["history_since"].tolist()) == [5, 6, 7]
    for slot, step in enumerate(state.memory["history_since"].tolist()):
        np.testing.assert_array_equal(state.memory["history_clicks"][slot], np.arange(4) == step % 4)
        np.testing.assert_array_equal(state.memory[f"history_features_{slot}"], normals(derive(step, 1), 6, 4))
    assert sizes[2:] == [sizes[2]] * 6


def test_lists_of_different_lengths_are_remembered_together() -> None:
    explorer, state = CandidatePreselection(remembered_impressions=3), State(np.zeros(4))
    for seed, length in enumerate((2, 6, 1, 3)):
        state = remembered(explorer, state, clicked=0, seed=seed, length=length)
    np.testing.assert_array_equal(state.memory["history_lengths"], [3, 6, 1])
    np.testing.assert_array_equal(state.memory["history_clicks"].sum(axis=1), [1, 1, 1])
    assert np.linalg.norm(explorer.directions(state, Query("q", np.eye(4)), derive(0, 0))) == pytest.approx(1.0)


def test_features_are_kept_without_a_copy() -> None:
    learner = Learner("cps", n_features=20)
    query = tiny_split().query(0)
    impression = learner.rank(query)
    learner.learn(impression, Feedback(np.arange(impression.ranking.size) == 0))
    assert learner.state.memory["exploration"]["history_features_0"] is query.features


def test_the_probability_of_a_list_is_that_of_the_rankers_that_made_it() -> None:
    """Through the algorithm: the current ranker and one candidate, by the definition."""
    learner = Learner("cps(tau=1.5, delta=0.5)", n_features=20, seed=3, length=3)
    query = tiny_split().query(1)
    impression = learner.rank(query)
    learner.learn(impression, Feedback([True, False, False]))
    ranked = [learner.algorithm.best(State(w), query, derive(0, 0)) for w in (0.5 * impression.trace["directions"],)[0]]
    ranks = impression.trace["ranks"]
    np.testing.assert_array_equal(ranks[1], ranks_in(ranked[0], impression.ranking))
    expected = np.log(draw_chances(ranks, 8, 1.5).mean(axis=0)).sum()
    assert learner.state.memory["exploration"]["history_sources"][0] == pytest.approx(expected)
    assert learner.state.memory["exploration"]["history_delta"] == 0.5
    assert learner.state.memory["exploration"]["history_tau"] == 1.5


def test_other_multileavers_are_refused() -> None:
    with pytest.raises(InvalidRecipe, match=r"its multileaver must be Probabilistic\(\), got TeamDraft\(\)"):
        parse("cps(multileaver=TeamDraft())")
    with pytest.raises(InvalidRecipe, match="Probabilistic"):
        parse("cps-dsp(multileaver=TeamDraft())")


def test_what_inert_fields_excuse_is_true() -> None:
    """How winners are chosen matters as soon as there may be several."""
    for exploration, matters in (("CandidatePreselection()", False), ("UniformSphere(n_candidates=5)", True)):
        mean, best = (
            play(parse(f"cps(exploration={exploration}, inference={inference})"), 100).weights
            for inference in ("MeanWinner()", "BestWinner()")
        )
        assert np.allclose(mean, best) != matters


def test_elsewhere_an_impression_that_cannot_be_replayed_is_not_remembered() -> None:
    learner = play(parse("mgd(exploration=CandidatePreselection(), multileaver=TeamDraft())"), 30)
    assert learner.state.memory == {}
    assert learner.state.updates > 0
