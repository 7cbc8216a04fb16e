"""The linear model and its normalisations: what is computed, what is refused, and that JSON keeps every bit."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank import Feedback, Learner, Query
from duelrank.errors import DataFormatError, InvalidValue, ShapeMismatch, UnknownName
from duelrank.export import Fixed, LinearModel, MinMax, NoNormalisation, Normalisation, PerQuery, Standard
from duelrank.kernels.preparation import scale_queries

MODEL = LinearModel("shop", 7, ("bm25", "price", "age"), np.array([0.5, -0.25, 2.0]))
FIXED = Fixed((None, MinMax(100.0, 900.0), Standard(30.0, 12.0)))

anything = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def ranges(draw):
    low, high = sorted((draw(anything), draw(anything)))
    return MinMax(low, high) if np.isfinite(high - low) else Standard(low, abs(high))


@st.composite
def any_models(draw):
    names = draw(
        st.lists(
            st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(str.strip), min_size=1, unique=True
        )
    )
    scaling = st.one_of(st.none(), ranges())
    fixed = st.builds(Fixed, st.lists(scaling, min_size=len(names), max_size=len(names)))
    weights = draw(st.lists(anything, min_size=len(names), max_size=len(names)))
    normalisation = draw(st.one_of(st.just(NoNormalisation()), st.just(PerQuery()), fixed))
    return LinearModel("a-b.c", draw(st.integers(0, 2**70)), tuple(names), np.array(weights), normalisation)


class TestScores:
    documents = np.array([[2.0, 500.0, 42.0], [1.0, 100.0, 30.0]])

    def test_unnormalised(self):
        expected = [0.5 * 2 - 0.25 * 500 + 2 * 42, 0.5 * 1 - 0.25 * 100 + 2 * 30]
        np.testing.assert_array_equal(MODEL.score(self.documents), expected)

    def test_fixed(self):
        model = replace(MODEL, normalisation=FIXED)
        expected = [0.5 * 2 - 0.25 * (500 - 100) / 800 + 2 * (42 - 30) / 12, 0.5]
        np.testing.assert_array_equal(model.score(self.documents), expected)

    def test_fixed_does_not_clip(self):
        np.testing.assert_array_equal(Fixed((MinMax(0.0, 50.0),)).apply(np.array([[-5.0], [55.0]])), [[-0.1], [1.1]])

    def test_a_constant_feature_is_0_whatever_its_value(self):
        normalisation = Fixed((MinMax(3.0, 3.0), Standard(3.0, 0.0), None))
        np.testing.assert_array_equal(normalisation.apply(np.array([[9.0, 9.0, 9.0]])), [[0.0, 0.0, 9.0]])

    def test_per_query(self):
        model = replace(MODEL, normalisation=PerQuery())
        np.testing.assert_array_equal(model.score(self.documents), [0.5 - 0.25 + 2.0, 0.0])
        np.testing.assert_array_equal(model.score(self.documents[:1]), [0.0])  # alone, every feature is constant

    @given(st.integers(1, 6), st.integers(1, 4), st.data())
    def test_per_query_is_what_training_does_to_the_bit(self, n, d, data):
        rows = data.draw(st.lists(st.lists(anything, min_size=d, max_size=d), min_size=n, max_size=n))
        features, trained = np.array(rows), np.empty((n, d))
        scale_queries(features, np.array([0, n]), np.arange(d), trained)
        np.testing.assert_array_equal(PerQuery().apply(features), trained)

    @pytest.mark.parametrize("bad", [[1.0, 2.0, 3.0], [[1.0, 2.0]], [[1.0, np.nan, 2.0]], [["a", "b", "c"]], []])
    def test_documents_that_do_not_fit(self, bad):
        with pytest.raises((ShapeMismatch, InvalidValue)):
            MODEL.score(bad)


class TestChecks:
    @pytest.mark.parametrize(
        ("change", "hint"),
        [
            ({"name": ""}, "letters, digits"),
            ({"name": "a/b"}, "'a/b'"),
            ({"name": "x" * 101}, "at most 100"),
            ({"version": -1}, "from 0 up"),
            ({"version": True}, "True"),
            ({"version": 1.0}, "1.0"),
            ({"features": ()}, "at least one"),
            ({"features": ("a", "b", "a")}, "two features are called 'a'"),
            ({"features": ("a", "b", " ")}, "not empty"),
            ({"features": ("a", "b", 3)}, "got 3"),
            ({"features": ("a", "b", "\ud800")}, "Unicode"),
            ({"features": ("a", "b")}, "2 features need 2 weights"),
            ({"weights": [1.0, 2.0, np.inf]}, "finite"),
            ({"weights": [1.0, 2.0, None]}, "numbers"),
            ({"weights": ["a", "b", "c"]}, "numbers"),
            ({"weights": [[1.0, 2.0, 3.0]]}, "shape (1, 3)"),
            ({"normalisation": "per query"}, "'per query'"),
            ({"normalisation": Fixed((None,))}, "1 features does not fit 3"),
        ],
    )
    def test_models(self, change, hint):
        with pytest.raises((InvalidValue, ShapeMismatch)) as caught:
            replace(MODEL, **change)
        assert hint in str(caught.value)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: MinMax(2.0, 1.0),
            lambda: MinMax(-1e308, 1e308),
            lambda: MinMax(0.0, np.nan),
            lambda: MinMax("0", 1.0),
            lambda: MinMax(False, 1.0),
            lambda: Standard(0.0, -1.0),
            lambda: Standard(np.inf, 1.0),
            lambda: Fixed((3.0,)),
        ],
    )
    def test_normalisations(self, make):
        with pytest.raises(InvalidValue):
            make()

    def test_weights_are_the_models_own(self):
        weights = np.array([1.0, 2.0, 3.0])
        model = replace(MODEL, weights=weights)
        weights[0] = 9.0
        assert model.weights[0] == 1.0
        with pytest.raises(ValueError, match="read-only"):
            model.weights[0] = 9.0

    def test_numbers_of_any_type(self):
        assert MinMax(np.float32(0.5), np.int64(3)) == MinMax(0.5, 3.0)
        assert type(MinMax(0, 1).minimum) is float

    def test_equal_models(self):
        assert replace(MODEL, weights=[0.5, -0.25, 2.0]) == MODEL
        for change in ({"weights": [0.5, -0.25, 2.1]}, {"version": 8}, {"normalisation": FIXED}):
            assert replace(MODEL, **change) != MODEL


class TestSnapshots:
    def test_a_learner_becomes_a_model(self):
        learner = Learner("mgd-dsp", 3, seed=1)
        documents = np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.5], [0.3, 0.3, 1.0]])
        for _ in range(20):
            learner.learn(learner.rank(Query("q", documents)), Feedback([False, True, False]))
        model = LinearModel.from_snapshot(learner.snapshot())
        assert (model.name, model.version) == ("duelrank", learner.state.updates)
        assert model.features == ("f1", "f2", "f3")
        np.testing.assert_array_equal(model.score(documents), documents @ learner.weights)
        named = LinearModel.from_snapshot(learner.snapshot(), "shop", ["a", "b", "c"], PerQuery(), 3)
        assert named == LinearModel("shop", 3, ("a", "b", "c"), learner.weights, PerQuery())

    def test_a_wrong_number_of_names(self):
        with pytest.raises(ShapeMismatch, match="2 features need 2 weights"):
            LinearModel.from_snapshot(Learner("mgd", 3).snapshot(), features=["a", "b"])


class TestJson:
    @given(any_models())
    def test_every_bit_comes_back(self, model):
        for text in (model.to_json(), model.to_json().encode()):
            back = LinearModel.from_json(text)
            assert back == model
            assert back.weights.tobytes() == model.weights.tobytes()  # the sign of 0 too
            assert repr(back.normalisation) == repr(model.normalisation)

    def test_it_says_what_it_is(self):
        content = json.loads(replace(MODEL, normalisation=FIXED).to_json())
        assert content["kind"] == "duelrank linear model"
        assert content["features"][1] == {"name": "price", "weight": -0.25}
        assert content["normalisation"]["features"] == {
            "price": {"min_max": {"minimum": 100.0, "maximum": 900.0}},
            "age": {"standard": {"mean": 30.0, "standard_deviation": 12.0}},
        }
        assert "higher is better" in content["meaning"]

    @pytest.mark.parametrize(
        ("change", "hint"),
        [
            (lambda c: c.pop("name"), "lacks 'name'"),
            (lambda c: c.pop("features"), "lacks 'features'"),
            (lambda c: c.pop("normalisation"), "lacks 'normalisation'"),
            (lambda c: c.update(kind="other"), '"kind"'),
            (lambda c: c.update(format=2), "has format 2"),
            (lambda c: c.update(features={}), "list of"),
            (lambda c: c.update(features=[{"name": "a"}]), "list of"),
            (lambda c: c.update(features=[{"nom": "a", "weight": 1}]), "lacks 'name'"),
            (lambda c: c["features"][0].update(weight="1"), "got '1'"),
            (lambda c: c["features"][0].update(weight=True), "got True"),
            (lambda c: c["features"][0].update(weight=float("nan")), "finite"),
            (lambda c: c["features"][0].update(weight=10**400), "largest float"),
            (lambda c: c["features"][0].update(name="price"), "two features"),
            (lambda c: c["features"][0].update(name=["a"]), "['a']"),
            (lambda c: c.update(version="7"), "got '7'"),
            (lambda c: c.update(normalisation="none"), "got 'none'"),
            (lambda c: c.update(normalisation={"kind": "none", "more": 1}), "per_query"),
            (lambda c: c.update(normalisation={"kind": "fixed"}), "features"),
            (lambda c: c["normalisation"]["features"].update(prise={}), "did you mean price"),
            (lambda c: c["normalisation"]["features"].update(bm25={"max": 1}), "'bm25'"),
            (lambda c: c["normalisation"]["features"].update(bm25={"min_max": {"minimum": 1}}), "'bm25'"),
            (
                lambda c: c["normalisation"]["features"].update(
                    bm25={"standard": {"mean": 1, "standard_deviation": None}}
                ),
                "None",
            ),
            (
                lambda c: c["normalisation"]["features"]["price"]["min_max"].update(maximum=1),
                "must not exceed its maximum",
            ),
        ],
    )
    def test_what_is_wrong_is_said(self, change, hint):
        content = json.loads(replace(MODEL, normalisation=FIXED).to_json())
        change(content)
        with pytest.raises(DataFormatError) as caught:
            LinearModel.from_json(json.dumps(content))
        assert hint in str(caught.value)

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, b"\xff\xfe\xfa", '{"kind": 1}'])
    def test_what_is_no_model(self, text):
        with pytest.raises(DataFormatError):
            LinearModel.from_json(text)

    def test_a_normalisation_may_leave_features_out(self):
        given = {"kind": "fixed", "features": {"b": {"min_max": {"minimum": 0, "maximum": 2}}, "c": None}}
        assert Normalisation.from_dict(given, ["a", "b", "c"]) == Fixed((None, MinMax(0.0, 2.0), None))
        with pytest.raises(UnknownName):
            Normalisation.from_dict(given, ["a"])
