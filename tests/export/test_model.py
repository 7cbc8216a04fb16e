"""The model: what is computed, what is refused, and that JSON keeps every bit."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank import Feedback, Learner, Query
from duelrank.core.errors import DataFormatError, InvalidValue, ShapeMismatch
from duelrank.export import LinearModel
from duelrank.representation import (
    BentLines,
    Distribution,
    Fixed,
    MinMax,
    QueryRanks,
    QueryScaled,
    Ramps,
    Raw,
    Standard,
    Steps,
    Unscaled,
)
from duelrank.representation.base import with_knots

MODEL = LinearModel("shop", 7, ("bm25", "price", "age"), np.array([0.5, -0.25, 2.0]))
FIXED = Fixed((Unscaled(), MinMax(100.0, 900.0), Standard(30.0, 12.0)))
BENT = LinearModel(
    "shop", 7, ("a", "b"), [1.0, 0.25, -0.5, 0.5], Ramps(pieces=2), [[0.0, 20.0, 100.0], [3.0, 3.0, 4.0]]
)
KNOTTED = [Ramps(pieces=7), BentLines(bend=0.1), Distribution(sample=50), Steps(pieces=3), QueryScaled() >> Ramps()]


anything = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def ranges(draw):
    low, high = sorted((draw(anything), draw(anything)))
    return MinMax(low, high) if np.isfinite(high - low) else Standard(low, abs(high))


@st.composite
def any_models(draw):
    names = draw(
        st.lists(
            st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(str.strip),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    scaling = st.one_of(st.just(Unscaled()), ranges())
    fixed = st.lists(scaling, min_size=len(names), max_size=len(names)).map(lambda each: Fixed(tuple(each)))
    plain = st.sampled_from([Raw(), QueryScaled(), QueryRanks(), QueryScaled() >> QueryRanks()])
    representation = draw(st.one_of(plain, fixed, st.sampled_from(KNOTTED), fixed.map(lambda each: each >> Steps())))
    knots = None
    if representation.learns and draw(st.booleans()):
        row = st.lists(st.floats(-1e38, 1e38), min_size=4, max_size=4).map(sorted)
        knots = np.array(draw(st.lists(row, min_size=len(names), max_size=len(names))))
    start = representation.start(len(names))
    n_columns = representation.n_columns(len(names), with_knots(start, knots))
    weights = draw(st.lists(anything, min_size=n_columns, max_size=n_columns))
    return LinearModel("a-b.c", draw(st.integers(0, 2**70)), tuple(names), np.array(weights), representation, knots)


class TestScores:
    documents = np.array([[2.0, 500.0, 42.0], [1.0, 100.0, 30.0]])

    def test_unnormalised(self):
        expected = [0.5 * 2 - 0.25 * 500 + 2 * 42, 0.5 * 1 - 0.25 * 100 + 2 * 30]
        np.testing.assert_array_equal(MODEL.score(self.documents), expected)

    def test_fixed(self):
        model = replace(MODEL, representation=FIXED)
        expected = [0.5 * 2 - 0.25 * (500 - 100) / 800 + 2 * (42 - 30) / 12, 0.5]
        np.testing.assert_array_equal(model.score(self.documents), expected)

    def test_per_query(self):
        model = replace(MODEL, representation=QueryScaled())
        np.testing.assert_array_equal(model.score(self.documents), [0.5 - 0.25 + 2.0, 0.0])
        np.testing.assert_array_equal(model.score(self.documents[:1]), [0.0])  # alone, every feature is constant

    def test_curves(self):
        np.testing.assert_array_equal(BENT.score([[10.0, 3.0], [20.0, 3.5], [60.0, 9.0]]), [0.5, 1.25, 1.25])
        assert not BENT.is_linear
        assert BENT.domain == "value"
        assert [curve.shape for curve in BENT.curves] == ["ramps", "ramps"]
        assert BENT.memory["knots"] is BENT.knots

    @pytest.mark.parametrize("representation", [Raw(), FIXED, QueryScaled(), QueryRanks()])
    def test_lines(self, representation):
        model = replace(MODEL, representation=representation)
        assert model.is_linear
        assert model.knots is None
        assert model.domain == representation.domain

    def test_knots_that_a_representation_starts_with(self):
        model = LinearModel("shop", 1, ("a", "b"), [1.0, 2.0], QueryScaled() >> Ramps())
        assert model.knots.tolist() == [[0.0, 1.0]] * 2
        assert model == replace(model, knots=[[0.0, 1.0]] * 2)
        assert model != replace(model, knots=[[0.0, 2.0]] * 2)
        before = LinearModel("shop", 1, ("a",), [1.0], Ramps())
        assert not before.has_knots
        assert before == replace(before, knots=[[np.nan, np.nan]])
        assert before != replace(before, knots=[[0.0, 1.0]])
        np.testing.assert_array_equal(before.score([[5.0], [7.0], [6.0]]), [0.0, 1.0, 0.5])

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
            ({"features": ("a", "b", " ")}, "non-empty"),
            ({"features": ("a", "b", 3)}, "got 3"),
            ({"features": ("a", "b", "\ud800")}, "Unicode"),
            ({"features": ("a", "b")}, "2 features need 2 weights"),
            ({"weights": [1.0, 2.0, np.inf]}, "finite"),
            ({"weights": [1.0, 2.0, None]}, "numbers"),
            ({"weights": ["a", "b", "c"]}, "numbers"),
            ({"weights": [[1.0, 2.0, 3.0]]}, "shape (1, 3)"),
            ({"representation": "query-scaled"}, "'query-scaled'"),
            ({"representation": Fixed((Unscaled(),))}, "1 feature do not fit 3"),
            ({"representation": Fixed((Unscaled(),)) >> Ramps()}, "1 feature do not fit 3"),
            ({"knots": [[0.0, 1.0]] * 3}, "Raw() has no knots"),
            ({"representation": Ramps(), "knots": [[0.0, 1.0]]}, "shape (1, 2)"),
            ({"representation": Ramps(), "knots": [[0.0]] * 3}, "at least two columns"),
            ({"representation": Ramps(), "knots": [[1.0, 0.0]] * 3}, "ascending order"),
            ({"representation": Ramps(), "knots": [[0.0, np.nan]] * 3}, "finite"),
            ({"representation": Ramps(), "knots": [[0.0, 1e39]] * 3}, "within ±1e+38"),
            ({"representation": Ramps(), "knots": [[np.nan] * 3] * 3}, "finite"),
            ({"representation": QueryScaled() >> Ramps(), "knots": [[np.nan] * 2] * 3}, "finite"),
            ({"representation": Ramps(), "knots": "abc"}, "knots must be numbers"),
            ({"representation": Ramps(), "knots": [[0.0, 1.0, 2.0]] * 3}, "3 features need 6 weights"),
        ],
    )
    def test_models(self, change, hint):
        with pytest.raises((InvalidValue, ShapeMismatch)) as caught:
            replace(MODEL, **change)
        assert hint in str(caught.value)

    def test_weights_are_the_models_own(self):
        weights = np.array([1.0, 2.0, 3.0])
        model = replace(MODEL, weights=weights)
        weights[0] = 9.0
        assert model.weights[0] == 1.0
        with pytest.raises(ValueError, match="read-only"):
            model.weights[0] = 9.0

    def test_equal_models(self):
        assert replace(MODEL, weights=[0.5, -0.25, 2.0]) == MODEL
        for change in ({"weights": [0.5, -0.25, 2.1]}, {"version": 8}, {"representation": FIXED}):
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
        np.testing.assert_array_equal(model.score(documents), learner.score(documents))
        named = LinearModel.from_snapshot(learner.snapshot(), "shop", ["a", "b", "c"], QueryScaled(), 3)
        assert named == LinearModel("shop", 3, ("a", "b", "c"), learner.weights, QueryScaled())

    def test_a_wrong_number_of_names(self):
        with pytest.raises(ShapeMismatch, match="3 features, got 2 names"):
            LinearModel.from_snapshot(Learner("mgd", 3).snapshot(), features=["a", "b"])


class TestJson:
    @given(any_models())
    def test_every_bit_comes_back(self, model):
        for text in (model.to_json(), model.to_json().encode()):
            back = LinearModel.from_json(text)
            assert back == model
            assert back.weights.tobytes() == model.weights.tobytes()  # the sign of 0 too
            assert repr(back.representation) == repr(model.representation)
            assert (back.knots is None) == (model.knots is None)
            assert model.knots is None or back.knots.tobytes() == model.knots.tobytes()

    def test_it_says_what_it_is(self):
        content = json.loads(replace(MODEL, representation=FIXED).to_json())
        assert content["kind"] == "duelrank linear model"
        assert content["format"] == 2
        assert content["features"][1] == {"name": "price", "weights": [-0.25]}
        assert content["representation"]["features"] == {
            "price": {"min_max": {"minimum": 100.0, "maximum": 900.0}},
            "age": {"standard": {"mean": 30.0, "standard_deviation": 12.0}},
        }
        assert "higher is better" in content["meaning"]
        content = json.loads(BENT.to_json())
        assert content["representation"] == "ramps(pieces=2)"
        assert content["features"][0] == {"name": "a", "weights": [1.0, -0.5], "knots": [0.0, 20.0, 100.0]}

    @pytest.mark.parametrize(
        ("change", "hint"),
        [
            (lambda c: c.pop("name"), "lacks 'name'"),
            (lambda c: c.pop("features"), "lacks 'features'"),
            (lambda c: c.pop("representation"), "lacks 'representation'"),
            (lambda c: c.update(kind="other"), '"kind"'),
            (lambda c: c.update(format=3), "has format 3; this duelrank reads 2"),
            (lambda c: c.update(features={}), "list of objects"),
            (lambda c: c.update(features=[{"name": "a"}]), "lacks 'weights'"),
            (lambda c: c.update(features=[{"name": "a", "weights": [1], "more": 1}]), "list of objects"),
            (lambda c: c.update(features=[{"weights": [1]}]), "lacks 'name'"),
            (lambda c: c.update(features=[], representation="raw"), "at least one"),
            (lambda c: c["features"][0].update(weights=["1"]), "got '1'"),
            (lambda c: c["features"][0].update(weights=[True]), "got True"),
            (lambda c: c["features"][0].update(weights=1.0), "must be a list"),
            (lambda c: c["features"][1].update(weights=[1.0, 2.0]), "same length as those of the other"),
            (lambda c: c["features"][0].update(weights=[float("nan")]), "finite"),
            (lambda c: c["features"][0].update(weights=[10**400]), "largest float"),
            (lambda c: c["features"][0].update(knots=[1.0, 2.0]), "lacks 'knots'"),
            (lambda c: c["features"][0].update(name="price"), "two features"),
            (lambda c: c["features"][0].update(name=["a"]), "['a']"),
            (lambda c: c.update(version="7"), "got '7'"),
            (lambda c: c.update(representation="query-scald"), "did you mean query-scaled"),
            (lambda c: c.update(representation="ramps >> mgd"), "the JSON of a model is wrong"),
            (lambda c: c.update(representation={"kind": "fixed"}), "features"),
            (lambda c: c["representation"]["features"].update(prise={}), "did you mean price"),
        ],
    )
    def test_what_is_wrong_is_said(self, change, hint):
        content = json.loads(replace(MODEL, representation=FIXED).to_json())
        change(content)
        with pytest.raises(DataFormatError) as caught:
            LinearModel.from_json(json.dumps(content))
        assert hint in str(caught.value)

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, b"\xff\xfe\xfa", '{"kind": 1}'])
    def test_what_is_no_model(self, text):
        with pytest.raises(DataFormatError):
            LinearModel.from_json(text)
