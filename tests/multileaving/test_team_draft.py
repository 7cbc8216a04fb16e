"""Team draft: owners of positions, and that no ranker is favoured."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank.core.randomness import stream
from duelrank.core.types import Impression, Query
from duelrank.multileaving import TeamDraft

ALPHA = 1e-4


def tables(max_rankers=5, max_documents=7):
    """Rankings of a few rankers over a few documents, often equal to each other in part."""
    return st.integers(1, max_documents).flatmap(
        lambda n: st.lists(st.permutations(range(n)), min_size=2, max_size=max_rankers).map(
            lambda rows: np.array(rows, np.int64)
        )
    )


def credits(rankings, length, clicked, n, name):
    """Credit in n lists of a user who clicks every shown document of a set: (n, n_rankers)."""
    draft, draws = TeamDraft(), stream(1, name)
    query = Query("q", np.ones((rankings.shape[1], 1)))
    found = []
    for _ in range(n):
        ranking, trace = draft.leave(rankings, length, draws)
        found.append(draft.assign_credit(Impression(query, ranking, trace), np.isin(ranking, clicked), draws))
    return np.array(found)


class TestLists:
    @given(tables(), st.integers(0, 1000), st.data())
    def test_each_position_is_its_owners_best_document_left(self, rankings, number, data):
        length = data.draw(st.integers(1, rankings.shape[1]))
        ranking, trace = TeamDraft().leave(rankings, length, stream(0, "list", number))
        assert len(set(ranking.tolist())) == length
        for position, owner in enumerate(trace["teams"]):
            left = [document for document in rankings[max(owner, 0)] if document not in ranking[:position]]
            assert ranking[position] == left[0]

    @given(tables(), st.integers(0, 1000))
    def test_the_common_top_belongs_to_nobody_and_nothing_else_does(self, rankings, number):
        length = rankings.shape[1]
        _, trace = TeamDraft().leave(rankings, length, stream(0, "top", number))
        agree = (rankings == rankings[0]).all(axis=0)
        common = length if agree.all() else int(agree.argmin())
        assert trace["teams"][:common].tolist() == [-1] * common
        assert (trace["teams"][common:] >= 0).all()

    @given(tables(), st.integers(0, 1000))
    def test_in_each_round_every_ranker_has_one_turn(self, rankings, number):
        n_rankers, length = rankings.shape
        _, trace = TeamDraft().leave(rankings, length, stream(0, "round", number))
        owned = trace["teams"][trace["teams"] >= 0]
        for start in range(0, owned.size, n_rankers):
            turn = owned[start : start + n_rankers]
            assert len(set(turn.tolist())) == turn.size

    def test_clicks_on_the_common_top_credit_nobody(self):
        rankings = np.array([[0, 1, 2, 3], [0, 1, 3, 2]])
        assert not credits(rankings, 4, clicked=[0, 1], n=50, name="common").any()

    @given(tables(), st.integers(0, 1000), st.data())
    def test_credit_counts_owned_clicks(self, rankings, number, data):
        length = rankings.shape[1]
        ranking, trace = TeamDraft().leave(rankings, length, stream(0, "credit", number))
        clicks = np.array(data.draw(st.lists(st.booleans(), min_size=length, max_size=length)))
        shown = Impression(Query("q", np.ones((length, 1))), ranking, trace)
        credit = TeamDraft().assign_credit(shown, clicks, stream(0, "unused"))
        teams = trace["teams"]
        assert credit.tolist() == [np.sum(clicks & (teams == i)) for i in range(rankings.shape[0])]
        assert credit.sum() == np.sum(clicks & (teams >= 0))


class TestFairness:
    @pytest.mark.parametrize("length", [1, 4, 5, 7])
    def test_each_ranker_owns_each_position_equally_often(self, length):
        rankings = np.array(
            [[0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [3, 0, 6, 1, 5, 2, 4], [0, 2, 1, 3, 4, 6, 5]]
        )
        n, draws = 4000, stream(2, "share", length)
        owners = np.array([TeamDraft().leave(rankings, length, draws)[1]["teams"] for _ in range(n)])
        for position in range(length):
            assert stats.chisquare(np.bincount(owners[:, position], minlength=4)).pvalue > ALPHA

    def test_a_ranker_compared_with_itself_alone_gets_nothing(self):
        rankings = np.array([[2, 0, 1, 3]] * 2)
        assert not credits(rankings, 4, clicked=[0, 1, 2, 3], n=50, name="alone").any()

    @pytest.mark.parametrize("clicked", [[0], [1], [2], [0, 4]], ids=str)
    def test_a_ranker_compared_with_itself_among_others_wins_as_often_as_it_loses(self, clicked):
        current, other = [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]
        found = credits(np.array([current, current, other]), 4, clicked, n=6000, name="itself")
        lead = found[:, 1] - found[:, 0]
        assert abs(lead.mean()) <= 4 * lead.std() / math.sqrt(lead.size)
        wins, losses = np.sum(lead > 0), np.sum(lead < 0)
        assert stats.binomtest(int(wins), int(wins + losses)).pvalue > ALPHA

    def test_a_ranker_with_the_clicked_document_on_top_wins(self):
        """The test above can fail: a better candidate is found to be better."""
        found = credits(np.array([[0, 1, 2, 3], [3, 0, 1, 2]]), 2, clicked=[3], n=2000, name="better")
        lead = found[:, 1] - found[:, 0]
        assert lead.mean() > 4 * lead.std() / math.sqrt(lead.size)
