"""Document space projection: exact identities of the projector, its options, and its memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.types import Feedback, Impression, Query
from duelrank.learner import Learner
from duelrank.projection import DocumentSpace, LastClick, Observed, WholeList

PLAIN = DocumentSpace(WholeList(), remembered=0, rescale="none")
BASES = ["qr", "svd"]
D = 5

# Small whole numbers: rank-deficient sets, duplicates and zero documents come by themselves, and exactly.
DOCUMENTS = hnp.arrays(np.float64, st.tuples(st.integers(1, 8), st.just(D)), elements=st.integers(-2, 2).map(float))
GRADIENTS = hnp.arrays(np.float64, D, elements=st.floats(-3, 3).filter(lambda x: x == 0 or abs(x) > 1e-3)).filter(
    np.any
)


def project(projection, gradient, documents, memory=None, clicks=None, examined=None):
    query = Query("q", documents)
    n = query.n_documents
    feedback = Feedback(np.ones(n, bool) if clicks is None else clicks, examined)
    return projection.project(np.asarray(gradient, float), memory or {}, Impression(query, np.arange(n)), feedback)


def projector(documents, basis="qr", **options) -> np.ndarray:
    """A, column by column."""
    projection = DocumentSpace(WholeList(), remembered=0, rescale="none", basis=basis, **options)
    return np.array([project(projection, unit, documents)[0] for unit in np.eye(np.shape(documents)[1])]).T


def orthogonal_projector(documents) -> np.ndarray:
    """The textbook's X⁺X."""
    return np.linalg.pinv(documents, rcond=1e-10) @ documents


@pytest.mark.parametrize("basis", BASES)
class TestIdentities:
    @given(DOCUMENTS)
    def test_it_is_the_orthogonal_projector(self, basis, documents):
        a = projector(documents, basis)
        np.testing.assert_allclose(a @ a, a, atol=1e-12)
        np.testing.assert_allclose(a, a.T, atol=1e-12)
        np.testing.assert_allclose(a, orthogonal_projector(documents), atol=1e-9)
        assert np.trace(a) == pytest.approx(np.linalg.matrix_rank(documents), abs=1e-9)

    @given(DOCUMENTS)
    def test_every_examined_document_stays(self, basis, documents):
        np.testing.assert_allclose(projector(documents, basis) @ documents.T, documents.T, atol=1e-9)

    @given(DOCUMENTS, GRADIENTS, hnp.arrays(np.float64, D, elements=st.floats(-3, 3)), st.floats(0.1, 10))
    def test_examined_documents_score_the_same_under_both_moves(self, basis, documents, u, w, delta):
        g, _ = project(DocumentSpace(WholeList(), 0, "none", basis=basis), u, documents)
        np.testing.assert_allclose(documents @ (w + delta * g), documents @ (w + delta * u), atol=1e-8)

    @given(DOCUMENTS, GRADIENTS)
    def test_a_projection_never_lengthens(self, basis, documents, u):
        g, _ = project(DocumentSpace(WholeList(), 0, "none", basis=basis), u, documents)
        assert np.linalg.norm(g) <= np.linalg.norm(u) * (1 + 1e-12)
        assert g @ u == pytest.approx(g @ g, abs=1e-9)

    def test_full_rank_keeps_everything(self, basis):
        np.testing.assert_allclose(projector(np.random.default_rng(0).random((12, D)), basis), np.eye(D), atol=1e-12)

    def test_documents_of_zeros_keep_nothing(self, basis):
        assert not projector(np.zeros((3, D)), basis).any()

    @pytest.mark.parametrize("scale", [1e-100, 1e-8, 1e8, 1e100])
    def test_the_unit_of_the_features_does_not_matter(self, basis, scale):
        documents = np.random.default_rng(1).random((3, D))
        np.testing.assert_allclose(projector(documents * scale, basis), projector(documents, basis), atol=1e-9)


class TestQrAndSvdAgree:
    @given(DOCUMENTS)
    def test_on_any_set(self, documents):
        np.testing.assert_allclose(projector(documents, "qr"), projector(documents, "svd"), atol=1e-9)

    @pytest.mark.parametrize(
        "rows",
        [
            lambda x: x[:1],
            lambda x: np.repeat(x[:2], 4, axis=0),
            lambda x: np.vstack((x[:2], x[0] + x[1], x[0] - 2 * x[1])),
            lambda x: np.vstack((x[:3], x[:3] / 3)),
            lambda x: np.vstack((x, x, x)),
            lambda x: np.vstack((np.zeros(D), x[:2])),
            lambda x: np.vstack((x[0], x[0] * 1e-5)),
        ],
        ids=["one", "duplicates", "dependent", "multiples", "more-than-features", "with-zero", "tiny-multiple"],
    )
    @pytest.mark.parametrize("seed", range(5))
    def test_on_special_sets(self, rows, seed):
        documents = rows(np.random.default_rng(seed).random((D, D)))
        qr, svd = projector(documents, "qr"), projector(documents, "svd")
        np.testing.assert_allclose(qr, svd, atol=1e-9)
        assert np.trace(qr) == pytest.approx(np.linalg.matrix_rank(documents))

    @pytest.mark.parametrize("noise", [1e-3, 1e-5, 1e-6])
    @pytest.mark.parametrize("seed", range(5))
    def test_nearly_dependent_documents_span_what_they_span(self, noise, seed):
        """The direction of a difference of size noise is known to eps/noise, so both must agree to a little more than that."""
        rng = np.random.default_rng(seed)
        base = rng.random((2, D))
        documents = np.vstack((base, base[0] + noise * rng.random(D), base[1] + noise * rng.random(D)))
        qr, svd = projector(documents, "qr"), projector(documents, "svd")
        assert np.trace(qr) == pytest.approx(4)
        np.testing.assert_allclose(qr, svd, atol=1e-13 / noise)
        np.testing.assert_allclose(qr @ qr, qr, atol=1e-12)

    @pytest.mark.parametrize("seed", range(5))
    def test_differences_under_the_tolerance_are_dropped_by_both(self, seed):
        rng = np.random.default_rng(seed)
        base = rng.random((2, D))
        documents = np.vstack((base, base + 1e-12 * rng.random((2, D))))
        for basis in BASES:
            np.testing.assert_allclose(projector(documents, basis, tolerance=1e-9), projector(base), atol=1e-9)

    @pytest.mark.parametrize("basis", BASES)
    def test_differences_of_rounding_are_dropped_by_default(self, basis):
        base = np.random.default_rng(0).random((2, D))
        documents = np.vstack((base, base * 3 / 3, base[0] * 0.1 + base[1] * 0.7))
        assert np.trace(projector(documents, basis)) == pytest.approx(2)


class TestStrengthAndRescale:
    @given(DOCUMENTS, GRADIENTS, st.sampled_from(["none", "unit", "preserve"]), st.floats(0, 1))
    def test_the_formula(self, documents, u, rescale, strength):
        g = orthogonal_projector(documents) @ u
        length = np.linalg.norm(g)
        assume(length == 0 or length > 1e-6 * np.linalg.norm(u))
        factor = {
            "none": 1.0,
            "unit": 1 / length if length else 0,
            "preserve": np.linalg.norm(u) / length if length else 0,
        }
        expected = strength * factor[rescale] * g + (1 - strength) * u
        found, _ = project(DocumentSpace(WholeList(), 0, rescale, strength), u, documents)
        np.testing.assert_allclose(found, expected, atol=1e-7)

    @given(DOCUMENTS, GRADIENTS, st.sampled_from(["none", "unit", "preserve"]))
    def test_strength_zero_is_the_base_to_the_bit(self, documents, u, rescale):
        found, _ = project(DocumentSpace(WholeList(), 0, rescale, 0.0), u, documents)
        assert np.array_equal(found, u)

    @pytest.mark.parametrize("base", ["dbgd", "mgd", "nsgd"])
    def test_a_run_with_strength_zero_is_a_run_of_the_base_to_the_bit(self, base):
        plain, projected = Learner(base, D, seed=3), Learner(f"{base}-dsp(strength=0)", D, seed=3)
        rng = np.random.default_rng(0)
        for number in range(60):
            query = Query("q", rng.random((8, D)))
            one, other = plain.rank(query), projected.rank(query)
            assert np.array_equal(one.ranking, other.ranking)
            clicks = np.random.default_rng(number).random(8) < 0.3
            plain.learn(one, Feedback(clicks))
            projected.learn(other, Feedback(clicks))
        assert np.array_equal(plain.weights, projected.weights)
        assert plain.state.updates == projected.state.updates > 0

    @given(DOCUMENTS, GRADIENTS)
    def test_lengths(self, documents, u):
        g, _ = project(PLAIN, u, documents)
        assume(np.linalg.norm(g) > 1e-6)
        unit, _ = project(DocumentSpace(WholeList(), 0, "unit"), u, documents)
        preserved, _ = project(DocumentSpace(WholeList(), 0, "preserve"), u, documents)
        assert np.linalg.norm(unit) == pytest.approx(1.0)
        assert np.linalg.norm(preserved) == pytest.approx(np.linalg.norm(u))
        assert unit @ g == pytest.approx(np.linalg.norm(g))

    @pytest.mark.parametrize("rescale", ["none", "unit", "preserve"])
    @pytest.mark.parametrize("seed", range(5))
    def test_what_is_orthogonal_to_the_documents_is_not_blown_up(self, rescale, seed):
        documents = np.random.default_rng(seed).random((2, D))
        u = np.linalg.svd(documents)[2][-1]
        found, _ = project(DocumentSpace(WholeList(), 0, rescale), u, documents)
        assert np.linalg.norm(found) < 1e-12

    @pytest.mark.parametrize(
        ("bad", "wanted"),
        [
            ({"strength": 1.5}, "from 0 to 1"),
            ({"strength": -0.1}, "from 0 to 1"),
            ({"rescale": "long"}, "'none' or 'unit' or 'preserve'"),
            ({"basis": "lu"}, "'qr' or 'svd'"),
            ({"remembered": -1}, "a whole number from 0"),
            ({"tolerance": 2}, "from 0 to 1 or None"),
            ({"examination": 3}, "an examination"),
        ],
    )
    def test_bad_options_list_the_possible_ones(self, bad, wanted):
        with pytest.raises(InvalidRecipe, match=wanted):
            DocumentSpace(**bad)


def document(*ones: int) -> np.ndarray:
    """A document with some features set, of eight."""
    return np.isin(np.arange(8), ones).astype(float)


class TestExaminedOnly:
    @given(st.lists(st.booleans(), min_size=6, max_size=6), st.integers(0, 4))
    def test_only_seen_positions_span_the_space(self, clicks, beyond):
        documents = np.eye(8)[:6]
        examination = LastClick(beyond)
        seen = examination.weights({}, Impression(Query("q", documents), np.arange(6)), Feedback(clicks)) > 0
        found, _ = project(DocumentSpace(examination, 0, "none"), np.ones(8), documents, clicks=clicks)
        expected = np.append(seen.astype(float), [0.0, 0.0]) if any(clicks) else np.zeros(8)
        np.testing.assert_allclose(found, expected, atol=1e-15)

    def test_positions_are_those_of_the_list_not_of_the_query(self):
        query = Query("q", np.eye(4))
        impression = Impression(query, np.array([2, 0]))
        found, _ = PLAIN.project(np.ones(4), {}, impression, Feedback([True, False]))
        assert found.tolist() == [1.0, 0.0, 1.0, 0.0]

    def test_the_oracle_uses_what_was_observed(self):
        found, _ = project(
            DocumentSpace(Observed(), 0, "none"), np.ones(4), np.eye(4), clicks=[True, False, False, False], examined=3
        )
        assert found.tolist() == [1.0, 1.0, 1.0, 0.0]

    def test_the_oracle_without_an_observation_says_so(self):
        with pytest.raises(InvalidValue, match="examined="):
            project(DocumentSpace(Observed()), np.ones(4), np.eye(4), clicks=[True, False, False, False])


class TestMemory:
    CLICK = (True,)

    def test_documents_are_first_in_first_out(self):
        projection, memory = DocumentSpace(WholeList(), remembered=3), {}
        for number in range(6):
            _, memory = project(projection, np.zeros(8), [document(number)], memory, self.CLICK)
            expected = [document(kept) for kept in range(max(0, number - 2), number + 1)]
            assert np.array_equal(memory["examined"], expected)

    def test_a_long_list_leaves_its_last_documents(self):
        projection = DocumentSpace(WholeList(), remembered=3)
        _, memory = project(projection, np.zeros(8), np.eye(8), clicks=[True] * 8)
        assert np.array_equal(memory["examined"], np.eye(8)[-3:])

    def test_it_joins_the_span_from_the_next_impression_on(self):
        projection, u = DocumentSpace(WholeList(), remembered=2, rescale="none"), np.ones(8)
        first, memory = project(projection, u, [document(0)], clicks=self.CLICK)
        second, memory = project(projection, u, [document(1)], memory, self.CLICK)
        third, memory = project(projection, u, [document(2)], memory, self.CLICK)
        fourth, _ = project(projection, u, [document(3)], memory, self.CLICK)
        for found, features in ((first, [0]), (second, [0, 1]), (third, [0, 1, 2]), (fourth, [1, 2, 3])):
            np.testing.assert_allclose(found, document(*features), atol=1e-15)

    def test_a_clicked_impression_without_a_winner_is_remembered_too(self):
        gradient, memory = project(DocumentSpace(), np.zeros(8), [document(0)], clicks=self.CLICK)
        assert not gradient.any()
        assert np.array_equal(memory["examined"], [document(0)])

    def test_an_impression_without_a_click_leaves_the_memory_alone(self):
        before = {"examined": np.array([document(0)]), "other": np.zeros(1)}
        for examination in (WholeList(), LastClick()):
            _, memory = project(DocumentSpace(examination), np.zeros(8), [document(1)], before, clicks=[False])
            assert memory is before

    def test_no_memory_is_kept_where_none_is_wanted(self):
        _, memory = project(DocumentSpace(remembered=0), np.ones(8), [document(0)], clicks=self.CLICK)
        assert memory == {}

    def test_nothing_is_written_to(self):
        before = {"examined": np.array([document(5)])}
        _, memory = project(DocumentSpace(remembered=1), np.ones(8), [document(0)], before, self.CLICK)
        assert np.array_equal(memory["examined"], [document(0)])
        assert np.array_equal(before["examined"], [document(5)])

    def test_only_seen_documents_are_remembered(self):
        clicks = [False, True, False, False, False]
        _, memory = project(DocumentSpace(LastClick(beyond=1)), np.zeros(8), np.eye(8)[:5], clicks=clicks)
        assert np.array_equal(memory["examined"], np.eye(8)[:3])

    def test_a_learner_remembers_across_impressions(self):
        learner = Learner("mgd-dsp(remembered=4)", D, seed=1)
        rng, shown = np.random.default_rng(0), []
        for _ in range(5):
            query = Query("q", rng.random((2, D)))
            impression = learner.rank(query)
            learner.learn(impression, Feedback([False, True]))
            shown += [query.features[index] for index in impression.ranking]
            assert np.array_equal(learner.state.memory["projection"]["examined"], shown[-4:])
