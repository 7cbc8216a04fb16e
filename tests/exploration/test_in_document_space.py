"""Exploring inside the document space: nothing is lost, and the estimate stays unbiased where the docstring says so.

The setting is that of tests/projection/test_theory.py: a candidate w + δu beats w with probability F = (1 + c·x)/2, x = δu, where
c lies in the span of the query's documents, so that ∇F̂ = c/2 for any smoothing. Means of N draws are compared in standard errors.
"""

import math

import numpy as np
import pytest

from duelrank import Query, State
from duelrank.core.randomness import stream
from duelrank.core.types import NO_BOOSTS
from duelrank.exploration import InDocumentSpace, UniformSphere
from duelrank.kernels.ranking import rankings

D, N, DELTA = 8, 20_000, 0.9
RNG = np.random.default_rng(0)
DOCUMENTS = np.vstack((RNG.random((3, D)), np.zeros(D)))
DOCUMENTS[3] = DOCUMENTS[0] + DOCUMENTS[1]  # four documents of rank three
RANK = 3
QUERY = Query("q", DOCUMENTS)
WEIGHTS = RNG.standard_normal(D)
SPAN = np.linalg.svd(DOCUMENTS)[2][:RANK]
C = (DOCUMENTS[0] - DOCUMENTS[2]) / np.linalg.norm(DOCUMENTS[0] - DOCUMENTS[2])


def drawn(exploration, n=N, weights=WEIGHTS, query=QUERY) -> np.ndarray:
    coins, state = stream(1, "span"), State(weights)
    return np.concatenate([exploration.directions(state, query, coins) for _ in range(n // exploration.n_candidates)])


def winning(directions: np.ndarray) -> np.ndarray:
    """The estimator: a direction where its candidate won, else zero."""
    chance = (1 + DELTA * directions @ C) / 2
    return directions * (np.random.default_rng(2).random(len(chance)) < chance)[:, None]


def deviation(samples: np.ndarray, mean: np.ndarray, basis: np.ndarray = SPAN) -> float:
    """The largest distance of a sample mean from a mean, in standard errors, over the rows of an orthonormal basis."""
    coordinates = (samples - mean) @ basis.T
    return float(np.max(np.abs(coordinates.mean(axis=0)) / (coordinates.std(axis=0) / math.sqrt(len(samples)))))


@pytest.mark.parametrize("reach", ["projected", "unit"])
def test_directions_lie_in_the_span(reach):
    found = drawn(InDocumentSpace(1000, reach=reach), 1000)
    np.testing.assert_allclose(found @ SPAN.T @ SPAN, found, atol=1e-12)
    lengths = np.linalg.norm(found, axis=1)
    if reach == "unit":
        np.testing.assert_allclose(lengths, 1.0)
    else:  # E|Au|² = rank/d
        assert abs((lengths**2).mean() - RANK / D) < 4 * (lengths**2).std() / math.sqrt(1000)


@pytest.mark.parametrize("centred", [False, True])
def test_all_documents_give_the_lists_of_uniform_directions(centred):
    """Coin for coin: what was projected away changes no score, or all of them alike."""
    inside, anywhere = InDocumentSpace(50, centred=centred, reach="projected"), UniformSphere(50)
    lists = [
        rankings(WEIGHTS, drawn(exploration, 50), 1.0, DOCUMENTS, NO_BOOSTS, stream(3, "ties"))
        for exploration in (inside, anywhere)
    ]
    np.testing.assert_array_equal(*lists)


def test_projected_it_is_unbiased_as_uniform_directions_are():
    for exploration in (InDocumentSpace(1000, reach="projected"), UniformSphere(1000)):
        assert deviation(winning(drawn(exploration)), DELTA / D * C / 2) < 4


def test_projected_its_variance_is_the_ranks_share():
    inside, anywhere = (winning(drawn(e)) for e in (InDocumentSpace(1000, reach="projected"), UniformSphere(1000)))
    assert inside.var(axis=0).sum() == pytest.approx(RANK / D * anywhere.var(axis=0).sum(), rel=0.03)


def test_unit_it_weighs_a_query_by_one_over_its_rank():
    found = winning(drawn(InDocumentSpace(1000)))
    assert deviation(found, DELTA / RANK * C / 2) < 4
    assert deviation(found, DELTA / D * C / 2) > 4


def test_with_the_top_documents_only_it_is_biased():
    """The utility depends on the third document, which is not among the best two: a part of the slope is never seen."""
    weights = np.linalg.lstsq(DOCUMENTS, np.array([2.0, 1.0, -3.0, 3.0]), rcond=None)[0]
    found = winning(drawn(InDocumentSpace(1000, top=2, reach="projected"), weights=weights))
    assert deviation(found, DELTA / D * C / 2) > 4
    top = np.linalg.svd(DOCUMENTS[[3, 0]])[2][:2]
    assert deviation(found, DELTA / D * C / 2 @ top.T @ top, top) < 4


def test_documents_that_are_all_alike_leave_nothing_to_explore():
    same = Query("alike", np.full((6, D), 0.1))
    assert not drawn(InDocumentSpace(5, centred=True), 5, query=same).any()
