"""The probabilities of lists: least biased first, most sensitive then; against any others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.randomness import stream
from duelrank.kernels.multileaving import draw_lists, shown_ranks
from duelrank.multileaving import click_chances, list_chances, prefix_bias


def violation(bias: np.ndarray, chances: np.ndarray) -> float:
    return float(np.abs(bias @ chances).sum())


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 1000))
def test_no_other_probabilities_are_less_biased(n_lists: int, n_constraints: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bias, gain = rng.integers(-3, 4, (n_constraints, n_lists)).astype(float), rng.random(n_lists)
    chances = list_chances(bias, gain)
    assert chances.sum() == pytest.approx(1.0)
    assert (chances >= 0).all()
    for other in [*np.eye(n_lists), *rng.dirichlet(np.ones(n_lists), 50)]:
        assert violation(bias, chances) <= violation(bias, other) + 1e-7
        if violation(bias, other) <= violation(bias, chances):  # as unbiased, so no more sensitive
            assert gain @ chances >= gain @ other - 1e-6


def test_among_equally_unbiased_lists_the_gain_decides() -> None:
    """Lists 0 and 1 outweigh each other, so do 2 and 3; the second pair has the larger gain."""
    bias = np.array([[1.0, -1.0, 2.0, -2.0]])
    assert list_chances(bias, np.array([0.1, 0.1, 0.7, 0.5])) == pytest.approx([0, 0, 0.5, 0.5])
    assert list_chances(bias, np.array([0.9, 0.9, 0.7, 0.5])) == pytest.approx([0.5, 0.5, 0, 0])


def test_where_no_bias_is_impossible_the_least_is_taken() -> None:
    assert list_chances(np.array([[1.0, 3.0, 2.0]]), np.array([0.0, 9.0, 5.0])) == pytest.approx([1, 0, 0], abs=1e-8)


def test_bias_is_what_clicks_in_each_top_give_one_ranker_over_the_one_before() -> None:
    credits = np.array([[[1.0, 0.5], [0.25, 2.0]]])  # one list, two rankers, two positions
    assert prefix_bias(credits).tolist() == [[0.25 - 1.0], [2.25 - 1.5]]


def test_click_chances_fall_with_the_position() -> None:
    assert click_chances(3) == pytest.approx(np.array([6, 3, 2]) / 11)


def test_more_lists_less_bias() -> None:
    """Optimized multileaving of three rankers: two lists leave much bias, ten less, a hundred hardly any."""
    rankings = np.array([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 3, 0, 4, 2]])
    means = []
    for n_lists in (2, 10, 100):
        found = []
        for number in range(20):
            lists = np.unique(draw_lists(rankings, 4, n_lists, stream(number, "bias")), axis=0)
            credits = np.stack([1.0 / (np.minimum(shown_ranks(rankings, each), 4) + 1.0) for each in lists])
            found.append(violation(prefix_bias(credits), list_chances(prefix_bias(credits), np.zeros(len(lists)))))
        means.append(np.mean(found))
    assert means[0] > 2 * means[1] > 4 * means[2]
