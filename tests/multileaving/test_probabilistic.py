"""Probabilistic multileaving: lists and credit against the enumeration of everything that could have happened."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank.core.errors import InvalidRecipe
from duelrank.core.randomness import stream
from duelrank.core.types import Impression, Query
from duelrank.kernels.multileaving import assignments, sampled_preference
from duelrank.multileaving import Probabilistic

ALPHA = 1e-4


def chances(ranking, shown, tau) -> dict[int, float]:
    """A ranker's softmax over the documents that are not yet shown."""
    masses = {document: 1 / rank**tau for rank, document in enumerate(ranking, 1) if document not in shown}
    return {document: mass / sum(masses.values()) for document, mass in masses.items()}


def list_chance(rankings, shown, tau) -> float:
    """P(list): at each position the mean over all rankers of their softmax."""
    chance = 1.0
    for position, document in enumerate(shown):
        chance *= np.mean([chances(ranking, shown[:position], tau)[document] for ranking in rankings])
    return chance


def brute_force_credit(rankings, shown, clicks, tau) -> list[float]:
    """E[sign(c_i − c_0)] over all assignments of the clicked positions to rankers."""
    placed = []
    for position in np.flatnonzero(clicks):
        shares = np.array([chances(ranking, shown[:position], tau)[shown[position]] for ranking in rankings])
        placed.append(shares / shares.sum())
    n = len(rankings)
    credit = np.zeros(n)
    for owners in product(range(n), repeat=len(placed)):
        chance = np.prod([shares[owner] for shares, owner in zip(placed, owners, strict=True)])
        counts = np.bincount(owners, minlength=n)
        credit += chance * np.sign(counts - counts[0])
    return credit.tolist()


@st.composite
def cases(draw, max_rankers=4, max_documents=6):
    """Rankings, a list of them, clicks on it, and a τ."""
    n = draw(st.integers(1, max_documents))
    rankings = np.array(draw(st.lists(st.permutations(range(n)), min_size=2, max_size=max_rankers)), np.int64)
    length = draw(st.integers(1, n))
    clicks = np.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)))
    return rankings, length, clicks, draw(st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0])), draw(st.integers(0, 1000))


def credit_of(rankings, length, clicks, tau, number, draws=None, **options):
    multileaver = Probabilistic(tau, **options)
    ranking, trace = multileaver.leave(rankings, length, stream(0, "list", number))
    impression = Impression(Query("q", np.ones((rankings.shape[1], 1))), ranking, trace)
    return ranking.tolist(), multileaver.assign_credit(
        impression, clicks, stream(0, "credit", number) if draws is None else draws
    )


class TestLists:
    @pytest.mark.parametrize("tau", [0.0, 1.0, 3.0])
    @pytest.mark.parametrize("length", [1, 2, 3])
    @pytest.mark.parametrize(
        "rankings",
        [[[0, 1, 2], [2, 1, 0]], [[0, 1, 2, 3], [0, 1, 3, 2], [3, 2, 1, 0]], [[1, 0, 2], [1, 0, 2]]],
        ids=["opposite", "three", "equal"],
    )
    def test_lists_follow_the_mixture(self, rankings, length, tau):
        n, draws, multileaver = 6000, stream(1, "mixture", length), Probabilistic(tau)
        table = np.array(rankings, np.int64)
        found = Counter(tuple(multileaver.leave(table, length, draws)[0].tolist()) for _ in range(n))
        expected = {
            shown: n * list_chance(rankings, shown, tau) for shown in permutations(range(table.shape[1]), length)
        }
        assert sum(expected.values()) == pytest.approx(n)
        common = [shown for shown in expected if expected[shown] >= 5]  # χ² needs a few expected counts in each cell
        rare = sum(expected[shown] for shown in expected if shown not in common)
        observed = [found[shown] for shown in common]
        wanted = [expected[shown] for shown in common]
        if rare > 0:
            observed, wanted = [*observed, n - sum(observed)], [*wanted, rare]
        assert stats.chisquare(observed, wanted).pvalue > ALPHA

    @given(cases())
    def test_no_document_twice_and_the_trace_holds_its_ranks(self, case):
        rankings, length, _, tau, number = case
        ranking, trace = Probabilistic(tau).leave(rankings, length, stream(0, "ranks", number))
        assert len(set(ranking.tolist())) == length
        for i, row in enumerate(rankings.tolist()):
            assert trace["ranks"][i].tolist() == [row.index(document) for document in ranking]


class TestCredit:
    @given(cases())
    def test_it_is_the_enumeration_of_all_assignments(self, case):
        rankings, _, clicks, tau, _ = case
        shown, credit = credit_of(*case)
        np.testing.assert_allclose(credit, brute_force_credit(rankings.tolist(), shown, clicks, tau), atol=1e-9)

    @given(cases())
    def test_one_that_ranks_as_the_current_one_gets_exactly_nothing(self, case):
        rankings, length, clicks, tau, number = case
        rankings[-1] = rankings[0]
        _, credit = credit_of(rankings, length, clicks, tau, number)
        assert credit[0] == 0.0
        assert credit[-1] == 0.0

    @given(cases())
    def test_equal_candidates_get_equal_credit(self, case):
        rankings, length, clicks, tau, number = case
        rankings = np.concatenate((rankings, rankings[-1:]))
        _, credit = credit_of(rankings, length, clicks, tau, number)
        assert credit[-1] == credit[-2]

    @given(cases(max_rankers=2))
    def test_changing_places_changes_the_sign(self, case):
        rankings, _, clicks, tau, _ = case
        shown, credit = credit_of(*case)
        swapped = np.ascontiguousarray(rankings[::-1])
        ranks = np.array([[row.index(document) for document in shown] for row in swapped.tolist()])
        impression = Impression(
            Query("q", np.ones((rankings.shape[1], 1))),
            np.array(shown),
            {"ranks": ranks, "sizes": np.full(len(ranks), rankings.shape[1])},
        )
        other = Probabilistic(tau).assign_credit(impression, clicks, stream(0, "credit"))
        assert other[1] == pytest.approx(-credit[1], abs=1e-12)

    @given(cases())
    def test_no_click_no_credit_and_always_within_one(self, case):
        rankings, length, _, tau, number = case
        _, credit = credit_of(rankings, length, np.zeros(length, bool), tau, number)
        assert not credit.any()
        _, credit = credit_of(*case)
        assert (np.abs(credit) <= 1.0 + 1e-12).all()

    def test_many_clicks_on_a_long_list_stay_exact(self):
        """Ten clicks on a hundred documents: still a probability, and still exactly 0 for an equal candidate."""
        rng = np.random.default_rng(0)
        rankings = np.array([rng.permutation(100) for _ in range(10)])
        rankings[5] = rankings[0]
        _, credit = credit_of(rankings, 10, np.ones(10, bool), 3.0, 0)
        assert credit[5] == 0.0
        assert (np.abs(credit) <= 1.0).all()


def published_samples(probs, n_samples, rng):
    """Σ over samples of sign(c_i − c_0), as the authors' `ProbabilisticMultileave.preferences_of_list` counts it."""
    upper = np.cumsum(probs, axis=1)
    lower = np.hstack([np.zeros((len(probs), 1)), upper[:, :-1]])
    coins = rng.random((len(probs), n_samples))[:, :, None]
    counts = np.sum((coins > lower[:, None, :]) & (coins <= upper[:, None, :]), axis=0)
    return np.sum(np.sign(counts - counts[:, :1]), axis=0)


#: Who placed each of three clicked documents: the first two rankers are equal, so that chance decides between them.
PLACED = np.array([[0.2, 0.2, 0.5, 0.1], [0.1, 0.1, 0.2, 0.6], [0.3, 0.3, 0.1, 0.3]])


class TestSampledCredit:
    @pytest.mark.parametrize("n_rankers", [2, 50])
    @pytest.mark.parametrize("n_clicks", [1, 4])
    def test_with_many_samples_it_is_the_exact_credit(self, n_rankers, n_clicks):
        rng = np.random.default_rng(n_rankers)
        rankings = np.array([rng.permutation(15) for _ in range(n_rankers)])
        clicks = np.isin(np.arange(10), rng.permutation(10)[:n_clicks])
        _, exact = credit_of(rankings, 10, clicks, 3.0, 0)
        _, sampled = credit_of(rankings, 10, clicks, 3.0, 0, credit="sampled", samples=400_000)
        np.testing.assert_allclose(sampled, exact, atol=4.5 / np.sqrt(400_000))  # a sign varies by 1 at most
        assert sampled[0] == 0.0

    @pytest.mark.parametrize("samples", [7, 300])
    @pytest.mark.parametrize("n_clicks", [1, 2, 3])
    def test_it_is_distributed_as_in_the_published_code(self, n_clicks, samples):
        """The joint distribution over the candidates, by the two most telling functions of it: its mean and covariances."""
        rng, draws, n = np.random.default_rng(1), stream(2, "ours"), 4000
        placed, ones = PLACED[:n_clicks], np.ones(n_clicks, np.int64)
        theirs = np.array([published_samples(placed, samples, rng)[1:] for _ in range(n)])
        ours = samples * np.array(
            [sampled_preference(*assignments(placed, samples, draws), ones, 4, 0)[1:] for _ in range(n)]
        )
        for moments in (lambda x: x, lambda x: np.sign(x), lambda x: x[:, [0, 0, 1]] * x[:, [1, 2, 2]], np.square):
            one, other = moments(ours), moments(theirs)
            error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / n)
            assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) <= 4.5 * error).all()

    def test_chance_decides_between_rankers_that_rank_alike(self):
        """Exactly 0 by exact credit; by samples a win in almost half of the impressions, as in the published code."""
        rankings = np.array([[0, 1, 2, 3]] * 2)
        clicks = np.array([True, False, True, False])
        lists = [credit_of(rankings, 4, clicks, 3.0, number, credit="sampled")[1] for number in range(400)]
        wins = sum(credit[1] > 0 for credit in lists)
        assert stats.binomtest(wins, 400, 0.5).pvalue > ALPHA

    def test_it_draws_from_the_stream_and_from_nothing_else(self):
        case = np.array([[0, 1, 2], [2, 1, 0], [1, 0, 2]]), 3, np.array([True, True, False]), 3.0, 0
        assert (credit_of(*case, credit="sampled")[1] == credit_of(*case, credit="sampled")[1]).all()
        other = credit_of(*case, credit="sampled", draws=stream(1, "other"))[1]
        assert (credit_of(*case, credit="sampled")[1] != other).any()

    @given(cases())
    def test_preferences_are_antisymmetric_and_their_first_column_is_the_credit(self, case):
        rankings, length, clicks, tau, number = case
        multileaver = Probabilistic(tau, credit="sampled", samples=200)
        ranking, trace = multileaver.leave(rankings, length, stream(0, "list", number))
        shown = Impression(Query("q", np.ones((rankings.shape[1], 1))), ranking, trace)
        table = multileaver.preferences(shown, clicks, stream(0, "credit", number))
        assert (table == -table.T).all()
        assert (table[:, 0] == multileaver.assign_credit(shown, clicks, stream(0, "credit", number))).all()


def test_the_steepest_softmax_that_is_allowed_is_exact_too():
    rankings = np.array([[5, 4, 1, 3, 7, 2, 6, 0], [1, 7, 6, 5, 4, 3, 0, 2], [7, 3, 4, 1, 6, 5, 2, 0]])
    tau, clicks = 20.0, np.array([False, True, False, False, False, False, True, False])
    shown, credit = credit_of(rankings, 8, clicks, tau, 0)
    np.testing.assert_allclose(credit, brute_force_credit(rankings.tolist(), shown, clicks, tau), atol=1e-9)


@pytest.mark.parametrize("tau", [-1.0, 21.0, float("nan"), "3"])
def test_tau_out_of_range_is_refused(tau):
    with pytest.raises(InvalidRecipe, match="a number from 0 to 20"):
        Probabilistic(tau)
