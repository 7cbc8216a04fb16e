"""Scorers that are not linear: their weights, scores, gradients and ONNX graphs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.errors import InvalidValue
from duelrank.core.randomness import stream
from duelrank.scoring import MLP, Scorer

shapes = st.builds(MLP, st.integers(1, 9), st.integers(1, 3))


def case(scorer: Scorer, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights, documents and slopes at which no unit is at its kink."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=scorer.n_weights(n_features))
    return weights, rng.normal(size=(int(rng.integers(1, 12)), n_features)), rng.normal(size=12)


def slow_scores(scorer: MLP, weights: np.ndarray, document: np.ndarray) -> float:
    """Score one document, from the definition."""
    values, rest = list(document), list(weights)
    for _ in range(scorer.layers):
        matrix = [[rest.pop(0) for _ in values] for _ in range(scorer.hidden)]
        biases = [rest.pop(0) for _ in range(scorer.hidden)]
        values = [max(0.0, np.dot(row, values) + bias) for row, bias in zip(matrix, biases, strict=True)]
    assert len(rest) == scorer.hidden
    return float(np.dot(rest, values))


@given(shapes, st.integers(1, 6), st.integers(0, 1000))
def test_scores_are_those_of_the_definition(scorer: MLP, n_features: int, seed: int) -> None:
    weights, documents, _ = case(scorer, n_features, seed)
    expected = [slow_scores(scorer, weights, document) for document in documents]
    np.testing.assert_allclose(scorer.scores(weights, documents), expected, rtol=1e-12, atol=1e-12)


@given(shapes, st.integers(1, 6), st.integers(0, 1000))
def test_the_gradient_is_the_slope_of_the_scores(scorer: MLP, n_features: int, seed: int) -> None:
    """The scores are linear in any one weight, up to kinks, which a step of 1e-7 does not meet."""
    weights, documents, slopes = case(scorer, n_features, seed)
    slopes = slopes[: len(documents)]
    slopes[0] = 0.0
    found = scorer.gradient(weights, documents, slopes)
    for place in np.random.default_rng(seed).integers(0, len(weights), 5):
        step = 1e-7 * np.eye(1, len(weights), place)[0]
        rise = slopes @ (scorer.scores(weights + step, documents) - scorer.scores(weights - step, documents)) / 2e-7
        assert found[place] == pytest.approx(rise, rel=1e-5, abs=1e-5)


def test_a_score_does_not_depend_on_the_other_documents() -> None:
    scorer = MLP(hidden=5, layers=2)
    weights, documents, _ = case(scorer, 4, seed=3)
    together = scorer.scores(weights, documents)
    assert [scorer.scores(weights, row[None])[0] for row in documents] == together.tolist()


def test_it_starts_without_a_preference_and_with_units_that_differ() -> None:
    scorer = MLP(hidden=8, layers=2)
    weights = scorer.start(5, stream(1, "start"))
    assert not scorer.scores(weights, np.random.default_rng(1).random((6, 5))).any()
    assert len(np.unique(weights[: 8 * 5])) == 8 * 5
    assert not np.array_equal(weights, scorer.start(5, stream(2, "start")))


def test_a_scorer_without_a_graph_says_so() -> None:
    with pytest.raises(InvalidValue, match=r"MLP\(hidden=2\) has no ONNX graph: its class does not define onnx"):
        Scorer.onnx(MLP(hidden=2), None, np.zeros(8), 2, "features")
