"""The paper's Lemma 1 and Theorem 1, as statistical tests with fixed seeds.

The setting: d features; X, the examined documents, spans S with projector A. A candidate w + δu, u uniform on the sphere, beats
the current ranker w with probability F(w + δu), where F is smooth and depends on scores of the examined documents only, so that
its gradient lies in S. The estimator is h = A u where the candidate won, else 0.

- Lemma 1: E|h|² ≤ E|A u|² = Rank(A)/d.
- Theorem 1: E[h] = (δ/d) ∇F̂(w), with F̂ the mean of F over the ball of radius δ around w.

Two utilities for which ∇F̂ has a closed form: with x = w' − w and c in S,

- linear: F = (1 + c·x)/2, ∇F̂ = c/2;
- quadratic: F = (2 + c·x + x·Mx)/4 with M = A M A: the even part has no gradient at the centre of a ball, ∇F̂ = c/4.

Both stay within [0, 1] where |δc| ≤ 1 and |δ²M| ≤ 1. All tests ask for agreement within 4 standard errors in every direction of an
orthonormal basis; each component of a mean of N draws has standard error std/√N ≤ 1/√(dN) ≈ 0.0025.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from duelrank.core.randomness import stream
from duelrank.core.types import Feedback, Impression, Query, State
from duelrank.exploration import UniformSphere
from duelrank.projection import DocumentSpace, WholeList

D, N, DELTA = 8, 20_000, 0.9
RNG = np.random.default_rng(0)
DOCUMENTS = np.vstack((RNG.random((3, D)), np.zeros(D)))
DOCUMENTS[3] = DOCUMENTS[0] + DOCUMENTS[1]  # four documents of rank three
OTHERS = RNG.random((3, D))  # the documents of some other query
RANK = 3


def projector(documents: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(documents) @ documents


A = projector(DOCUMENTS)
C = DOCUMENTS[0] - DOCUMENTS[2]
C /= np.linalg.norm(C)
M = A @ np.diag(np.linspace(-1, 1, D)) @ A


def linear(x: np.ndarray) -> np.ndarray:
    return (1 + x @ C) / 2


def quadratic(x: np.ndarray) -> np.ndarray:
    return (2 + x @ C + np.einsum("ni,ij,nj->n", x, M, x)) / 4


UTILITIES = {"linear": (linear, C / 2), "quadratic": (quadratic, C / 4)}


@pytest.fixture(scope="module")
def directions() -> np.ndarray:
    draws, query = stream(1, "theory"), Query("q", DOCUMENTS)
    batches = [UniformSphere(1000).directions(State(np.zeros(D)), query, draws) for _ in range(N // 1000)]
    return np.concatenate(batches)


def projected(vectors: np.ndarray, documents: np.ndarray, rescale: str = "none") -> np.ndarray:
    """Run each vector through the projection as a learner would."""
    projection = DocumentSpace(WholeList(), remembered=0, rescale=rescale)
    impression = Impression(Query("q", documents), np.arange(len(documents)))
    feedback = Feedback(np.ones(len(documents), bool))
    return np.array([projection.project(vector, {}, impression, feedback)[0] for vector in vectors])


def won(directions: np.ndarray, utility) -> np.ndarray:
    chance = utility(DELTA * directions)
    assert chance.min() >= 0.0
    assert chance.max() <= 1.0
    return np.random.default_rng(2).random(len(chance)) < chance


def deviation(samples: np.ndarray, mean: np.ndarray, basis: np.ndarray) -> float:
    """The largest distance of a sample mean from a mean, in standard errors, over the rows of an orthonormal basis."""
    coordinates = (samples - mean) @ basis.T
    return float(np.max(np.abs(coordinates.mean(axis=0)) / (coordinates.std(axis=0) / math.sqrt(len(samples)))))


SPAN = np.linalg.svd(DOCUMENTS)[2][:RANK]


class TestDirections:
    def test_they_are_uniform_on_the_sphere(self, directions):
        """E[u] = 0 and E[u uᵀ] = I/d: what both statements rest on."""
        np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0)
        assert deviation(directions, np.zeros(D), np.eye(D)) < 4
        products = np.einsum("ni,nj->nij", directions, directions).reshape(N, -1)
        assert deviation(products, np.eye(D).ravel() / D, np.eye(D * D)) < 4.5  # of 64 products, of which 36 differ


class TestLemma1:
    def test_the_expected_squared_length_is_rank_over_d(self, directions):
        squares = np.square(projected(directions, DOCUMENTS)).sum(axis=1)
        error = squares.std() / math.sqrt(N)
        assert abs(squares.mean() - RANK / D) < 4 * error

    @pytest.mark.parametrize("utility", UTILITIES)
    def test_a_duel_stays_below_it(self, directions, utility):
        h = projected(directions, DOCUMENTS) * won(directions, UTILITIES[utility][0])[:, None]
        squares = np.square(h).sum(axis=1)
        assert squares.mean() < RANK / D + 4 * squares.std() / math.sqrt(N)

    def test_without_projection_it_is_exceeded(self, directions):
        squares = np.square(directions * won(directions, linear)[:, None]).sum(axis=1)
        assert squares.mean() > RANK / D + 4 * squares.std() / math.sqrt(N)


@pytest.mark.parametrize("utility", UTILITIES)
class TestTheorem1:
    def estimates(self, directions, utility, documents, rescale="none"):
        function, slope = UTILITIES[utility]
        wins = won(directions, function)
        estimates = np.zeros((N, D))
        estimates[wins] = projected(directions[wins], documents, rescale)
        return estimates, DELTA / D * slope

    def test_the_slope_lies_in_the_examined_space(self, utility, directions):
        slope = UTILITIES[utility][1]
        np.testing.assert_allclose(A @ slope, slope, atol=1e-12)

    def test_the_projected_estimator_has_the_right_mean(self, utility, directions):
        estimates, mean = self.estimates(directions, utility, DOCUMENTS)
        assert deviation(estimates, mean, SPAN) < 4
        np.testing.assert_allclose(estimates @ (np.eye(D) - A), 0.0, atol=1e-12)

    def test_so_has_the_unprojected_one_at_a_larger_variance(self, utility, directions):
        plain = directions * won(directions, UTILITIES[utility][0])[:, None]
        estimates, mean = self.estimates(directions, utility, DOCUMENTS)
        assert deviation(plain, mean, np.eye(D)) < 4
        assert estimates.var(axis=0).sum() < plain.var(axis=0).sum() * (RANK / D) * 1.05

    def test_projected_on_another_querys_documents_it_fails(self, utility, directions):
        estimates, mean = self.estimates(directions, utility, OTHERS)
        assert deviation(estimates, mean, np.eye(D)) > 4

    def test_projected_on_too_few_documents_it_fails(self, utility, directions):
        estimates, mean = self.estimates(directions, utility, DOCUMENTS[:1])
        assert deviation(estimates, mean, np.eye(D)) > 4

    def test_rescaled_it_fails(self, utility, directions):
        """Scaling to unit length keeps the direction of the mean and loses its length."""
        estimates, mean = self.estimates(directions, utility, DOCUMENTS, rescale="unit")
        assert deviation(estimates, mean, SPAN) > 4
        found = estimates.mean(axis=0)
        assert found @ mean / (np.linalg.norm(found) * np.linalg.norm(mean)) > 0.95
