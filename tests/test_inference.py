"""Who won, and where that points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from duelrank.core.randomness import stream
from duelrank.core.types import Feedback, Impression, Query, State
from duelrank.inference import BestWinner, DifficultQueries, MeanWinner
from duelrank.kernels.inference import MARGIN

N = 4
CREDIT = hnp.arrays(np.float64, N + 1, elements=st.integers(-3, 3).map(float))
DIRECTIONS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.6, 0.8, 0.0]])


def infer(inference, credit, *, memory=None, step=0, clicks=(True, False, False), features=None, directions=DIRECTIONS):
    query = Query("q", np.eye(3) if features is None else features)
    impression = Impression(query, np.arange(query.n_documents), {"directions": directions})
    state = State(np.zeros(3), step, 0, memory or {})
    return inference.infer(state, impression, Feedback(clicks), np.asarray(credit, float), 1.0, stream(0, "learn"))


class TestMeanWinner:
    @given(CREDIT)
    def test_the_mean_of_those_with_more_credit_than_the_current_ranker(self, credit):
        gradient, memory = infer(MeanWinner(), credit)
        winners = DIRECTIONS[credit[1:] > credit[0]]
        np.testing.assert_allclose(gradient, winners.mean(axis=0) if len(winners) else np.zeros(3), atol=1e-15)
        assert memory == {}

    @given(CREDIT)
    def test_unit_changes_the_length_only(self, credit):
        plain, _ = infer(MeanWinner(), credit)
        unit, _ = infer(MeanWinner(unit=True), credit)
        length = np.linalg.norm(plain)
        np.testing.assert_allclose(unit * length, plain, atol=1e-15)
        assert np.linalg.norm(unit) == pytest.approx(1.0 if length > 0 else 0.0)

    def test_opposite_winners_cancel_without_dividing_by_zero(self):
        gradient, _ = infer(MeanWinner(unit=True), [0, 1, 1], directions=np.array([[1.0, 0, 0], [-1.0, 0, 0]]))
        assert np.array_equal(gradient, np.zeros(3))

    @pytest.mark.parametrize("inference", [MeanWinner(), BestWinner(), DifficultQueries()], ids=repr)
    def test_a_lead_within_rounding_is_none(self, inference):
        gradient, _ = infer(inference, [0.0, MARGIN, MARGIN / 2, 0.0, -1.0])
        assert np.array_equal(gradient, np.zeros(3))
        gradient, _ = infer(inference, [0.0, 2 * MARGIN, 0.0, 0.0, 0.0])
        assert np.array_equal(gradient, DIRECTIONS[0])

    @pytest.mark.parametrize("inference", [MeanWinner(), BestWinner(), DifficultQueries()], ids=repr)
    def test_nobody_wins_where_all_are_equal(self, inference):
        gradient, _ = infer(inference, [2.0] * (N + 1))
        assert np.array_equal(gradient, np.zeros(3))


class TestBestWinner:
    @given(CREDIT)
    def test_the_first_of_the_best(self, credit):
        gradient, _ = infer(BestWinner(), credit)
        best = credit[1:].argmax()
        assert np.array_equal(gradient, DIRECTIONS[best] if credit[1 + best] > credit[0] else np.zeros(3))


class TestDifficultQueries:
    TIE = (0.0, 1.0, 1.0, 0.0, 0.0)  # the first two directions win

    def test_a_tie_goes_to_the_one_that_lifts_the_clicked_document(self):
        for clicked in (0, 1):
            clicks = [position == clicked for position in range(3)]
            gradient, _ = infer(DifficultQueries("tie"), self.TIE, clicks=clicks)
            assert np.array_equal(gradient, DIRECTIONS[clicked])

    def test_a_single_winner_needs_no_replay(self):
        gradient, _ = infer(DifficultQueries("tie"), [0, 0, 0, 1, 0], clicks=[True, False, False])
        assert np.array_equal(gradient, DIRECTIONS[2])

    def test_remembered_queries_decide_together(self):
        """One click on document 0 now, two remembered ones on document 1: the second direction places them better."""
        inference, memory = DifficultQueries("tie"), {}
        for step in range(2):
            _, memory = infer(inference, [0.0] * 5, memory=memory, step=step, clicks=[False, True, False])
        gradient, _ = infer(inference, self.TIE, memory=memory, step=2, clicks=[True, False, False])
        assert np.array_equal(gradient, DIRECTIONS[1])

    def test_what_is_too_old_does_not_vote(self):
        inference, memory = DifficultQueries("tie", window=5), {}
        for step in range(2):
            _, memory = infer(inference, [0.0] * 5, memory=memory, step=step, clicks=[False, True, False])
        gradient, _ = infer(inference, self.TIE, memory=memory, step=7, clicks=[True, False, False])
        assert np.array_equal(gradient, DIRECTIONS[0])

    def test_filling_breaks_ties_until_the_slots_are_full_and_averages_after(self):
        inference, memory, gradients = DifficultQueries("filling", slots=3), {}, []
        for step in range(5):
            gradient, memory = infer(inference, self.TIE, memory=memory, step=step)
            gradients.append(gradient)
        assert all(np.array_equal(gradient, DIRECTIONS[0]) for gradient in gradients[:2])
        assert all(np.array_equal(gradient, DIRECTIONS[:2].mean(axis=0)) for gradient in gradients[2:])

    def test_a_harder_query_takes_the_slot_of_the_easiest(self):
        inference, memory = DifficultQueries(slots=2, window=1000), {}
        clicks = {1: [True, False, False], 2: [False, True, False], 3: [False, False, True]}
        for step, position in enumerate((1, 2)):
            _, memory = infer(inference, [0.0] * 5, memory=memory, step=step, clicks=clicks[position])
        assert sorted(memory["hard_ease"]) == [1 / 2, 1.0]
        _, memory = infer(inference, [0.0] * 5, memory=memory, step=2, clicks=clicks[3])
        assert sorted(memory["hard_ease"]) == [1 / 3, 1 / 2]
        _, again = infer(inference, [0.0] * 5, memory=memory, step=3, clicks=clicks[1])
        assert again is memory  # easier than all that is remembered

    def test_an_old_slot_is_taken_first_even_by_an_easier_query(self):
        inference, memory = DifficultQueries(slots=1, window=10), {}
        _, memory = infer(inference, [0.0] * 5, memory=memory, step=0, clicks=[False, False, True])
        _, kept = infer(inference, [0.0] * 5, memory=memory, step=10, clicks=[True, False, False])
        assert kept["hard_ease"].tolist() == [1 / 3]
        _, taken = infer(inference, [0.0] * 5, memory=memory, step=11, clicks=[True, False, False])
        assert taken["hard_ease"].tolist() == [1.0]
        assert taken["hard_since"].tolist() == [11]

    def test_clicks_are_remembered_by_document_not_by_position(self):
        query = Query("q", np.eye(3))
        impression = Impression(query, np.array([2, 0, 1]), {"directions": DIRECTIONS})
        feedback = Feedback([True, False, False])
        _, memory = DifficultQueries().infer(
            State(np.zeros(3)), impression, feedback, np.zeros(5), 1.0, stream(0, "learn")
        )
        assert memory["hard_clicked_0"].tolist() == [False, False, True]

    def test_the_memory_that_came_in_is_not_written_to(self):
        inference = DifficultQueries(slots=2)
        _, memory = infer(inference, self.TIE)
        kept = {name: array.copy() for name, array in memory.items()}
        infer(inference, self.TIE, memory=memory, step=1)
        infer(DifficultQueries(slots=1), self.TIE, memory=memory, step=500)
        assert all(np.array_equal(memory[name], kept[name]) for name in kept)
