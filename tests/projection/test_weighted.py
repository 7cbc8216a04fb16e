"""The projection by weights: a threshold, a ridge, and documents centred on their mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from duelrank.core.errors import InvalidRecipe
from duelrank.core.grammar import parse
from duelrank.core.types import Feedback, Impression, Query
from duelrank.projection import DocumentSpace, Examination
from duelrank.testing import CHECKS, play

D = 5
DOCUMENTS = hnp.arrays(np.float64, st.tuples(st.integers(1, 8), st.just(D)), elements=st.integers(-2, 2).map(float))
RIDGES = st.sampled_from([1e-6, 0.01, 1.0, 100.0])


@dataclass(frozen=True, repr=False)
class Given(Examination):
    """Positions have the weights that they are given."""

    values: tuple[float, ...] = ()

    def weights(self, memory, impression, feedback):
        return np.array(self.values)


def projector(documents, weights, **options) -> np.ndarray:
    """A, column by column."""
    documents = np.asarray(documents, float)
    projection = DocumentSpace(Given(tuple(weights)), remembered=0, rescale="none", **options)
    impression = Impression(Query("q", documents), np.arange(len(documents)))
    clicks = Feedback(np.ones(len(documents), bool))
    return np.array([projection.project(unit, {}, impression, clicks)[0] for unit in np.eye(documents.shape[1])]).T


def with_weights(elements):
    return DOCUMENTS.flatmap(lambda x: st.tuples(st.just(x), st.lists(elements, min_size=len(x), max_size=len(x))))


class TestThreshold:
    @given(with_weights(st.floats(0, 1)), st.floats(0, 1))
    def test_documents_above_it_span_the_space(self, case, threshold):
        documents, weights = case
        kept = documents[np.array(weights) > threshold]
        expected = np.linalg.pinv(kept, rcond=1e-10) @ kept if len(kept) else np.zeros((D, D))
        np.testing.assert_allclose(projector(documents, weights, threshold=threshold), expected, atol=1e-9)

    def test_it_matters_with_a_click_model_and_cannot_without(self):
        for examination, matters in (("LastClick()", False), ("DynamicBayesian()", True)):
            recipes = (f"mgd-dsp(examination={examination}, threshold={level})" for level in (0.1, 0.6))
            one, other = (play(parse(recipe), 100).weights for recipe in recipes)
            assert np.allclose(one, other) != matters

    def test_tolerance_matters_without_a_ridge_and_cannot_with(self):
        for ridge, matters in ((None, True), (0.1, False)):
            recipes = (f"mgd-dsp(ridge={ridge}, tolerance={tolerance})" for tolerance in (None, 0.5))
            one, other = (play(parse(recipe), 100).weights for recipe in recipes)
            assert np.allclose(one, other) != matters


class TestRidge:
    @given(with_weights(st.floats(0, 1)), RIDGES)
    def test_the_formula(self, case, ridge):
        """If no weight is so small that its square root vanishes in a sum with the others."""
        documents, weights = case
        x = np.sqrt(weights)[:, np.newaxis] * documents
        expected = x.T @ np.linalg.solve(x @ x.T + ridge * np.eye(len(x)), x)
        # Rounding of XXᵀ, at most some 64 · eps, is amplified by 1/ridge at most.
        np.testing.assert_allclose(projector(documents, weights, ridge=ridge), expected, atol=1e-13 / ridge + 1e-12)

    @given(with_weights(st.floats(0, 1)), RIDGES)
    def test_it_is_symmetric_and_shrinks(self, case, ridge):
        a = projector(*case, ridge=ridge)
        np.testing.assert_allclose(a, a.T, atol=1e-13 / ridge + 1e-12)
        values = np.linalg.eigvalsh((a + a.T) / 2)
        assert values.min() >= -1e-9
        assert values.max() <= 1 + 1e-9

    @given(with_weights(st.sampled_from([0.0, 1.0])))
    def test_a_tiny_ridge_and_weights_of_zero_and_one_are_the_full_projection(self, case):
        """Each direction is shrunk by ridge/(σ² + ridge); whole numbers up to 2 have no σ² under 1e-4 but zero."""
        np.testing.assert_allclose(projector(*case, ridge=1e-10), projector(*case), atol=1e-5)

    @given(with_weights(st.floats(0, 1)), RIDGES, st.integers(0, 7))
    def test_a_weight_of_zero_is_no_influence(self, case, ridge, index):
        documents, weights = case
        index %= len(documents)
        weights[index] = 0.0
        other = documents.copy()
        other[index] = 7.0
        assert np.array_equal(projector(documents, weights, ridge=ridge), projector(other, weights, ridge=ridge))
        if len(documents) > 1:
            rest = projector(np.delete(documents, index, 0), np.delete(weights, index), ridge=ridge)
            assert np.array_equal(projector(documents, weights, ridge=ridge), rest)

    @given(with_weights(st.floats(0, 0.999)), st.sampled_from([0.01, 1.0]), st.booleans())
    def test_a_little_more_weight_changes_little(self, case, ridge, centred):
        """A = f(S) with f(s) = s/(s + ridge), whose slope is 1/ridge at most, and S = Σ w(x − m)(x − m)ᵀ, m = 0 if not centred.

        dS/dw = (x − m)(x − m)ᵀ also where m is the weighted mean (S is least there), and |x − m| ≤ 2 · max |x|.
        """
        documents, weights = case
        step = 1e-6
        more = [weight + step for weight in weights]
        before, after = (projector(documents, w, ridge=ridge, centred=centred) for w in (weights, more))
        moved = step * len(documents) * 4 * np.max(np.sum(documents**2, axis=1))
        assert np.linalg.norm(after - before) <= (moved + 1e-12) / ridge

    def test_more_ridge_keeps_less(self):
        documents = np.random.default_rng(0).random((4, D))
        traces = [np.trace(projector(documents, [1.0] * 4, ridge=ridge)) for ridge in (1e-12, 1e-3, 1.0, 1e6)]
        assert traces == sorted(traces, reverse=True)
        assert traces[0] == pytest.approx(4, abs=1e-6)
        assert traces[-1] < 1e-3

    @pytest.mark.parametrize("copies", [2, 10])
    def test_duplicates_and_the_least_ridge_are_no_problem(self, copies):
        base = np.random.default_rng(0).random((2, D))
        a = projector(np.repeat(base, copies, axis=0), [1.0] * 2 * copies, ridge=1e-12)
        np.testing.assert_allclose(a, projector(base, [1.0, 1.0]), atol=1e-6)

    @pytest.mark.parametrize("scale", [1e-160, 1e-100, 1e100, 1e160])
    def test_no_unit_of_the_features_breaks_it(self, scale):
        """Against a ridge of 1, huge documents are projected on fully and tiny ones count for nothing."""
        documents = np.random.default_rng(0).random((3, D))
        expected = projector(documents, [1.0] * 3) if scale > 1 else np.zeros((D, D))
        np.testing.assert_allclose(projector(documents * scale, [1.0] * 3, ridge=1.0), expected, atol=1e-9)

    def test_nothing_seen_keeps_nothing(self):
        assert not projector(np.ones((2, D)), [0.0, 0.0], ridge=0.1).any()
        assert not projector(np.zeros((2, D)), [1.0, 1.0], ridge=0.1).any()

    def test_remembered_documents_keep_their_weight(self):
        projection = DocumentSpace(Given((1.0, 0.25)), remembered=5, rescale="none", ridge=0.1)
        impression = Impression(Query("q", np.eye(4)[:2]), np.arange(2))
        _, memory = projection.project(np.zeros(4), {}, impression, Feedback([True, False]))
        assert np.array_equal(memory["examined"], [[1, 0, 0, 0], [0, 0.5, 0, 0]])
        later = Impression(Query("q", np.eye(4)[2:]), np.arange(2))
        found, _ = projection.project(np.ones(4), memory, later, Feedback([True, False]))
        np.testing.assert_allclose(found, np.array([1, 0.25, 1, 0.25]) / (np.array([1, 0.25, 1, 0.25]) + 0.1))

    @pytest.mark.parametrize("ridge", [0.0, -1.0, 1e7])
    def test_ridge_has_bounds(self, ridge):
        with pytest.raises(InvalidRecipe, match="or None"):
            DocumentSpace(ridge=ridge)


class TestCentred:
    @given(DOCUMENTS)
    def test_it_is_the_span_of_the_differences(self, documents):
        differences = documents - documents[0]
        expected = np.linalg.pinv(differences, rcond=1e-10) @ differences
        np.testing.assert_allclose(projector(documents, [1.0] * len(documents), centred=True), expected, atol=1e-9)

    @given(with_weights(st.floats(0.01, 1)))
    def test_with_a_ridge_the_mean_is_weighted(self, case):
        documents, weights = case
        centred = documents - np.average(documents, axis=0, weights=weights)
        expected = projector(centred, weights, ridge=0.1)
        np.testing.assert_allclose(projector(documents, weights, ridge=0.1, centred=True), expected, atol=1e-9)

    @pytest.mark.parametrize("ridge", [None, 1e-12])
    @pytest.mark.parametrize("n", [1, 3, 7])
    def test_documents_that_are_all_alike_tell_nothing(self, n, ridge):
        documents = np.repeat(np.random.default_rng(0).random((1, D)), n, axis=0)
        assert not projector(documents, [1.0] * n, centred=True, ridge=ridge).any()

    def test_moving_all_documents_of_a_list_changes_nothing(self):
        documents = np.random.default_rng(0).random((3, D))
        one, other = (projector(documents + shift, [1.0] * 3, centred=True) for shift in (0.0, 1000.0))
        np.testing.assert_allclose(one, other, atol=1e-9)
        assert np.trace(one) == pytest.approx(2)

    def test_nothing_seen_is_no_mean(self):
        assert not projector(np.ones((2, D)), [0.0, 0.0], centred=True).any()


RECIPES = [
    "mgd-dsp(examination=DynamicBayesian(), ridge=0.1)",
    "mgd-dsp(examination=DynamicBayesian(forgetting=0.99), ridge=0.1, remembered=2)",
    "mgd-dsp(examination=DynamicBayesian(forgetting=0.99), threshold=0.5)",
    "mgd-dsp(examination=DependentClick(after_skip=0.9), ridge=0.1)",
    "mgd-dsp(examination=DependentClick(forgetting=0.99, after_skip=0.9), threshold=0.5)",
    "mgd-dsp(examination=PositionBased(), ridge=0.1)",
    "dbgd-dsp(examination=PositionBased(forgetting=0.99), threshold=0.5)",
    "mgd-dsp(examination=AdaptiveLastClick())",
    "nsgd-dsp(examination=AdaptiveLastClick(), ridge=0.1)",
    "mgd-dsp(ridge=0.1, centred=True)",
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_keep_the_conventions(recipe, check):
    check(parse(recipe))
