"""LambdaRank: the lambdas are the gradient of the cost that the papers give, also where scores are equal, few or huge."""

from itertools import pairwise
from math import exp, log2

import numpy as np
import pytest
from tests.swap import reference

from duelrank.kernels.lambdarank import adam_step, descend, gradient, lambdas
from duelrank.kernels.random import derive, normals

SIGMA, CUTOFF = 1.5, 4


def grades(*values):
    return np.array(values, np.int8)


def pair_weights(scores, labels, cutoff=CUTOFF):
    """|ΔnDCG@k| of swapping each pair (i, j) with label_i > label_j; 0 for the others."""
    positions = np.empty(len(scores), int)
    positions[np.argsort(-scores, kind="stable")] = range(len(scores))
    discounts = np.where(positions < cutoff, 1 / np.log2(positions + 2), 0.0)
    gains = 2.0**labels - 1
    ideal = sum(gain / log2(i + 2) for i, gain in enumerate(sorted(gains, reverse=True)[:cutoff]))
    deltas = np.abs(np.subtract.outer(gains, gains) * np.subtract.outer(discounts, discounts)) / ideal
    return np.where(np.greater.outer(labels, labels), deltas, 0.0)


def cost(scores, frozen):
    return np.sum(frozen * np.logaddexp(0.0, -SIGMA * np.subtract.outer(scores, scores)))


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_is_that_of_the_cost_with_the_order_frozen(seed):
    features, weights = normals(derive(seed, 1), 24, 6), normals(derive(seed, 2), 1, 6)[0]
    labels, offsets = grades(*np.resize([0, 2, 1, 0, 3, 0, 1], 24)), np.array([0, 7, 8, 15, 24])
    queries = [slice(start, stop) for start, stop in pairwise(offsets) if stop - start > 1]
    frozen = [pair_weights(features[rows] @ weights, labels[rows]) for rows in queries]

    def mean_cost(at):
        return np.mean([cost(features[rows] @ at, kept) for rows, kept in zip(queries, frozen, strict=True)])

    step = 1e-5 * np.eye(6)
    numeric = np.array([(mean_cost(weights + h) - mean_cost(weights - h)) / 2e-5 for h in step])
    found = gradient(weights, features, labels, offsets, SIGMA, CUTOFF)
    assert np.linalg.norm(found - numeric) < 1e-6 * np.linalg.norm(numeric)


def test_two_documents_by_hand():
    (up, down) = lambdas(np.array([0.25, 1.0]), grades(1, 0), SIGMA, 10)
    assert up == pytest.approx(-SIGMA / (1 + exp(SIGMA * (0.25 - 1.0))) * (1 - 1 / log2(3)))
    assert down == -up


def test_a_perfect_order_still_pulls_a_little():
    labels = grades(3, 2, 1, 0)
    right = lambdas(np.array([3.0, 2.0, 1.0, 0.0]), labels, SIGMA, CUTOFF)
    wrong = lambdas(np.array([0.0, 1.0, 2.0, 3.0]), labels, SIGMA, CUTOFF)
    assert right[0] < 0.0 < right[-1]
    assert np.abs(right).sum() < 0.2 * np.abs(wrong).sum()


def test_lambdas_of_a_query_sum_to_zero():
    scores = normals(derive(3, 0), 1, 30)[0]
    assert lambdas(scores, grades(*np.resize([0, 1, 2], 30)), SIGMA, CUTOFF).sum() == pytest.approx(0.0, abs=1e-15)


def test_equal_scores_stand_as_they_come():
    labels = grades(0, 2, 1, 0, 1)
    found = lambdas(np.zeros(5), labels, SIGMA, CUTOFF)
    halves = SIGMA / 2 * pair_weights(np.zeros(5), labels)
    np.testing.assert_allclose(found, halves.sum(axis=0) - halves.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("labels", [grades(0), grades(2), grades(0, 0, 0), grades(1, 1, 1)])
def test_without_two_different_labels_there_is_nothing_to_learn(labels):
    n = len(labels)
    assert not lambdas(np.arange(n, dtype=float), labels, SIGMA, CUTOFF).any()
    assert not gradient(np.ones(2), np.ones((n, 2)), labels, np.array([0, n]), SIGMA, CUTOFF).any()


def test_pairs_below_the_cutoff_do_not_count():
    found = lambdas(np.array([4.0, 3.0, 2.0, 1.0]), grades(1, 1, 0, 2), SIGMA, 2)
    assert found[2] > 0.0  # it meets the two at the top
    top = pair_weights(np.array([4.0, 3.0, 2.0, 1.0]), grades(1, 1, 0, 2), 2)
    assert top[3, 2] == 0.0
    by_hand = sum(top[i, 2] * SIGMA / (1 + exp(SIGMA * (4.0 - i - 2.0))) for i in (0, 1))
    assert found[2] == pytest.approx(by_hand)


def test_huge_scores_do_not_overflow():
    weight = 1 - 1 / log2(3)
    for high in (1e4, 1e300):
        wrong = lambdas(np.array([-high, high]), grades(1, 0), SIGMA, 10)
        np.testing.assert_allclose(wrong, [-SIGMA * weight, SIGMA * weight])  # the logistic is 1
        right = lambdas(np.array([high, -high]), grades(1, 0), SIGMA, 10)
        np.testing.assert_array_equal(right, [0.0, 0.0])  # exp(−2 · 10⁴ σ) is below the smallest float


def test_the_reference_agrees_on_huge_scores():
    scores, labels = 1e4 * normals(derive(1, 0), 1, 12)[0], grades(*np.resize([0, 1, 2, 0], 12))
    np.testing.assert_allclose(
        lambdas(scores, labels, SIGMA, CUTOFF),
        reference("lambdarank", "lambdas")(scores, labels, SIGMA, CUTOFF),
        atol=1e-12,
    )


def test_the_first_step_of_adam_has_the_length_of_the_rate():
    weights, moments, slope = np.zeros(3), np.zeros((2, 3)), np.array([5.0, -1e-3, 0.0])
    adam_step(weights, moments, 1, slope, 0.1)
    np.testing.assert_allclose(weights, -0.1 * slope / (np.abs(slope) + 1e-8))


def test_a_pass_makes_one_step_per_batch_of_queries_that_count():
    features, offsets = normals(derive(2, 0), 10, 3), np.arange(0, 11, 2)
    labels = grades(0, 1, 1, 0, 2, 2, 0, 2, 1, 0)  # the third of five queries has one grade only
    for batch, steps in ((1, 4), (2, 2), (3, 2), (4, 1), (99, 1)):
        arrays = np.zeros(3), np.zeros((2, 3)), 7, features, labels, offsets
        assert descend(*arrays, SIGMA, CUTOFF, np.arange(5), batch, 0.1) == 7 + steps


def test_descending_lowers_the_cost():
    features = normals(derive(5, 0), 60, 4)
    labels, offsets = np.digitize(features @ [1, -2, 0, 1], [0, 2]).astype(np.int8), np.arange(0, 61, 10)
    weights, moments, step = np.zeros(4), np.zeros((2, 4)), 0
    for _ in range(200):
        step = descend(weights, moments, step, features, labels, offsets, SIGMA, CUTOFF, np.arange(6), 3, 0.05)
    scores = (features @ weights).reshape(6, 10)
    before, after = (
        sum(cost(at, pair_weights(at, grade)) for at, grade in zip(rows, labels.reshape(6, 10), strict=True))
        for rows in (np.zeros_like(scores), scores)
    )
    assert after < 0.05 * before
