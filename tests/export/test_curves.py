"""Exports of curves and steps, read back by the same independent readers, score as the model does.

How far a score may be off is worked out, with the unit roundoff u of the engine's arithmetic. Of P pieces with rises r:

* A step is exact: values of single precision are on the side of its threshold that the model has them on. Where its input is the
  place in the query's range, that place is off by δ ≤ 8uκ, κ = (|x| + |least| + |largest|) / (largest − least), and a value that
  is within δ of a threshold may be on either side.
* A ramp from a to b, its ends rounded, is off by at most 6u(|a| + |b|) / (b − a), and by δ / (b − a) where its input is off.
  A fixed scaling (x − s)/c before it is folded into its ends: δ ≤ 8u(|x| + |s| + c(|a| + |b|)) / c.
* The sum of all adds (P + 2)u times the sum of |r|.
"""

import json
from itertools import pairwise

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.export.readers import Elasticsearch, RankLib, Solr, Vespa, by_name, in_vespa

from duelrank import Feedback, Learner, Query
from duelrank.core.errors import InvalidValue
from duelrank.export import LinearModel, export
from duelrank.representation import (
    BentLines,
    Chain,
    Distribution,
    Fixed,
    MinMax,
    QueryRanks,
    QueryScaled,
    Ramps,
    Standard,
    Steps,
    Unscaled,
)

SINGLE, DOUBLE = 2.0**-24, 2.0**-53
KNOTTED = {"ramps": Ramps(), "curves": BentLines(), "distribution": Distribution(), "steps": Steps()}
CURVES = ("ramps", "curves", "distribution")


# --- Models and documents -------------------------------------------------------------------------------------------


@st.composite
def cases(draw, kinds=tuple(KNOTTED), first=("none",)):
    """A model and documents whose values single precision holds: on knots, beside them, between them, far away, all alike."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_features, n_knots = draw(st.integers(1, 4)), draw(st.integers(3, 6))
    kind, before = draw(st.sampled_from(kinds)), draw(st.sampled_from(first))
    representation = KNOTTED[kind]
    if kind != "steps" and draw(st.booleans()):
        n_knots = 2  # one piece
    knots = make_knots(random, n_features, n_knots)
    if before == "query-scaled":
        low, high = knots[:, :1], knots[:, -1:]
        knots = (knots - low) / np.where(high > low, high - low, 1.0)
        representation = QueryScaled() >> representation
    elif before == "fixed":
        scalings = (Unscaled(), MinMax(-3.0, 8.5), Standard(0.1, 7.0), Standard(2.0, 0.0))
        representation = Fixed(tuple(scalings[i] for i in random.integers(4, size=n_features))) >> representation
    names = tuple(f"f{i}" for i in range(n_features))
    n_weights = representation.n_columns(n_features, {"knots": knots})
    weights = random.normal(0.0, 3.0, n_weights) * (random.random(n_weights) < 0.9)
    model = LinearModel("shop", 7, names, weights, representation, knots)
    return model, make_documents(random, model, draw(st.integers(1, 12)))


def make_knots(random, n_features, n_knots):
    """Ascending; some pieces have no width, some features none at all; half of the time single precision holds them."""
    widths = 10.0 ** random.uniform(-2, 3, (n_features, n_knots - 1)) * (random.random((n_features, n_knots - 1)) < 0.8)
    widths[random.random(n_features) < 0.1] = 0.0
    start = random.choice([0.0, 1.0], (n_features, 1)) * random.uniform(-1e3, 1e3, (n_features, 1))
    knots = np.concatenate([start, start + np.cumsum(widths, axis=1)], axis=1)
    return knots.astype(np.float32).astype(np.float64) if random.random() < 0.5 else knots


def make_documents(random, model, n_documents):
    documents = np.empty((n_documents, len(model.features)))
    for column, knots in enumerate(model.knots):
        shift, scale = before(model, column)
        on = (knots * scale + shift).astype(np.float32)
        around = np.concatenate([on, np.nextafter(on, np.float32(-np.inf)), np.nextafter(on, np.float32(np.inf))])
        between = random.uniform(on[0] - 1.0, on[-1] + 1.0, 5)
        documents[:, column] = random.choice([*around, *between, 0.0, -1e6, 1e6], n_documents)
        if random.random() < 0.1:
            documents[:, column] = documents[0, column]
    return documents.astype(np.float32).astype(np.float64)


def before(model, column):
    """The shift and scale of a feature before its curve."""
    if isinstance(model.representation, Chain) and isinstance(model.representation.first, Fixed):
        scaling = model.representation.first.scalings[column]
        return scaling.shift, scaling.scale
    return 0.0, 1.0


def slack(model, documents, unit):
    """How far each score may be off: see the top of this file."""
    per_query = model.domain == "query range"
    inputs = QueryScaled().apply(documents, {}) if per_query else documents
    off, n_pieces, total = np.zeros(len(documents)), 0, 0.0
    for column, curve in enumerate(model.curves):
        x = documents[:, column]
        shift, scale = before(model, column)
        if scale == 0.0:
            continue
        v = inputs[:, column] if per_query else (x - shift) / scale
        span = np.ptp(x)
        delta = 8.0 * unit * (np.abs(x) + np.abs(x).max() * 2.0) / span if per_query and span else 0.0 * x
        rises = np.abs(np.diff(curve.heights))
        n_pieces, total = n_pieces + 2 * len(rises), total + rises.sum()
        ends = [(t, t) for t in curve.values[1:]] if curve.shape == "steps" else pairwise(curve.values)
        for (a, b), rise in zip(ends, rises, strict=True):
            if a == b:
                off += rise * (np.abs(v - a) <= delta) * (delta > 0.0)
            else:
                folded = 8.0 * unit * (np.abs(x) + abs(shift) + scale * (abs(a) + abs(b))) / scale
                within = (v > a - delta - folded) & (v < b + delta + folded)
                scaled = folded if (shift, scale) != (0.0, 1.0) else 0.0
                off += rise * within * (6.0 * unit * (abs(a) + abs(b)) + delta + scaled) / (b - a)
    return off + (n_pieces + 2) * (unit * total + 2.0**-148) + len(model.weights) * DOUBLE * np.abs(model.weights).sum()


def assert_same_scores(found, model, documents, unit, more=0.0):
    """Where a query or a constant stands before the curve, up to what is the same for all documents."""
    truth, off = model.score(documents), slack(model, documents, unit) + more
    if isinstance(model.representation, Chain):
        best = np.argmin(off)
        found, truth, off = found - found[best], truth - truth[best], off + off[best]
    assert np.shape(found) == truth.shape
    assert (np.abs(found - truth) <= off).all(), (found - truth, off)


@given(cases(first=("none", "query-scaled")))
def test_the_sum_of_the_curves_is_the_score(case):
    model, documents = case
    inputs = QueryScaled().apply(documents, {}) if model.domain == "query range" else documents
    total = sum(curve.at(inputs[:, column]) for column, curve in enumerate(model.curves))
    np.testing.assert_allclose(total, model.score(documents), rtol=0, atol=1e-12 * (1.0 + np.abs(model.weights).sum()))


# --- Engines with curves --------------------------------------------------------------------------------------------


@given(cases(first=("none", "fixed", "query-scaled")))
def test_onnx(case):
    model, documents = case
    session = onnxruntime.InferenceSession(export(model, "onnx"))
    (found,) = session.run(None, {"features": documents.astype(np.float32)})
    assert found.shape == (len(documents), 1)
    assert_same_scores(found[:, 0].astype(float), model, documents, SINGLE)


@given(cases(first=("none", "fixed")), st.sampled_from(["inputs", "constants"]))
def test_vespa(case, weights):
    model, documents = case
    rank_features, columns = in_vespa(model, documents)
    engine = Vespa(export(model, "vespa", rank_features=rank_features, weights=weights), columns)
    assert (engine.phase, engine.rerank_count) == ("first-phase", None)
    assert_same_scores(engine.scores(), model, documents, DOUBLE)
    np.testing.assert_array_equal(np.column_stack([engine.refer(name) for name in engine.logged]), documents)


@given(cases(first=("query-scaled",)))
def test_vespa_has_curves_of_places_in_the_query_in_its_global_phase(case):
    model, documents = case
    rank_features, columns = in_vespa(model, documents)
    engine = Vespa(export(model, "vespa", rank_features=rank_features, rerank_count=50), columns)
    assert (engine.phase, engine.rerank_count) == ("global-phase", 50)
    # A feature whose values are all equal is at 0.5 there, not at 0: the same for all documents.
    assert_same_scores(engine.scores(), model, documents, DOUBLE)


# --- Trees ----------------------------------------------------------------------------------------------------------


def solr(model, documents, **options):
    engine = Solr(export(model, "solr", **options), model.features)
    assert engine.kind == "MultipleAdditiveTreesModel"
    return np.array([engine.score(d) for d in by_name(model, documents)], float)


def ranklib(model, documents, **options):
    engine = RankLib(export(model, "ranklib", **options))
    assert engine.ranker == "trees"
    return np.array([engine.score(row) for row in documents], float)


def elasticsearch(model, documents, **options):
    engine = Elasticsearch(export(model, "opensearch", allow_negative=True, **options), model.features)
    assert engine.kind == "model/xgboost+json"
    return np.array([engine.score(d) for d in by_name(model, documents)], float)


TREES = pytest.mark.parametrize("engine", [solr, ranklib, elasticsearch])


@TREES
@given(cases(["steps"], first=("none", "fixed")))
def test_steps_are_trees(engine, case):
    model, documents = case
    assert_same_scores(engine(model, documents), model, documents, SINGLE)


@TREES
@given(cases(CURVES, first=("none", "fixed")), st.sampled_from([0.01, 0.3, 100.0]))
def test_curves_are_trees_within_the_error_that_is_stated(engine, case, max_error):
    model, documents = case
    # Solr refuses a jump at 0 of a curve that goes on: no scale keeps both sides of 0 and other thresholds apart.
    jumps = [np.ptp(row) > 0.0 and np.sum(row == 0.0) > 1 for row in model.knots]
    assume(engine is not solr or not any(jumps))
    n_curved = sum(bool(np.diff(curve.heights).any()) for curve in model.curves)
    # Each feature's part is off by the error and, where a level replaces the whole curve, what was level stays 0.
    found = engine(model, documents, max_error=max_error)
    assert_same_scores(found, model, documents, SINGLE, more=n_curved * max_error * (1.0 + 1e-9))


@given(cases(CURVES), st.floats(0.01, 3.0))
def test_a_tree_has_no_more_leaves_than_its_error_needs(case, max_error):
    model, _ = case
    text = export(model, "ranklib", max_error=max_error)
    most = sum(1 + np.ceil(np.abs(np.diff(curve.heights)) / (2.0 * max_error)).sum() * 2 for curve in model.curves)
    assert text.count(b"<output>") <= most
    reached = RankLib(text).about.get("Error")
    if reached is not None:
        each, total = (float(word) for word in reached.replace(",", "").split() if word[0].isdigit())
        assert each <= max_error * 1.00001  # six digits, rounded up
        assert total <= len(model.features) * max_error * 1.00001


def test_the_fewest_leaves():
    """A rise of 1 within 0.125 needs four levels, 0.125 from either end."""
    model = LinearModel("shop", 1, ("a",), [1.0], Ramps(), [[0.0, 8.0]])
    (tree,) = json.loads(
        json.loads(export(model, "elasticsearch", max_error=0.125, allow_negative=True))["model"]["model"]["definition"]
    )
    assert json.dumps(tree).count("leaf") == 4
    engine = Elasticsearch(export(model, "elasticsearch", max_error=0.125, allow_negative=True), ["a"])
    assert [float(engine.score({"a": x})) for x in (-5.0, 1.0, 2.0, 2.5, 9.0)] == [0.125, 0.125, 0.125, 0.375, 0.875]
    assert b"## Error = at most 0.125 for each feature, 0.125 for a score" in export(model, "ranklib", max_error=0.125)


@given(cases(["steps"]))
def test_lucene_gets_no_negative_score(case):
    model, documents = case
    engine = Elasticsearch(export(model, "elasticsearch"), model.features)
    found = np.array([engine.score(d) for d in by_name(model, documents)], float)
    assert (found >= 0.0).all()
    lifted = sum(np.ptp(curve.heights) for curve in model.curves)
    off = slack(model, documents, SINGLE) + (len(model.features) + 2) * SINGLE * lifted
    truth = model.score(documents)
    assert (np.abs((found - found[0]) - (truth - truth[0])) <= off + off[0]).all()


@given(cases(["steps"]), st.floats(-10.0, 10.0))
def test_an_offset_of_ranklib_is_one_more_tree(case, offset):
    model, documents = case
    more = (len(model.features) + 3) * SINGLE * abs(offset)
    found = ranklib(model, documents, offset=offset)
    assert_same_scores(found - offset, model, documents, SINGLE, more)


def test_a_missing_value_goes_where_0_goes():
    model = LinearModel("shop", 1, ("a", "b"), [1.0, 4.0, 2.0, 8.0], Steps(), [[-3, -1, 5, 9], [-9, -7.0, -6.0, 0]])
    engine = Elasticsearch(export(model, "elasticsearch"), ["a", "b"])
    assert engine.score({}) == engine.score({"a": 0.0, "b": 0.0}) == 1.0 + 4.0 + 8.0


@TREES
@pytest.mark.parametrize("exponent", [-44, -30, -8, -1, 0, 4, 5, 30])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_thresholds_of_any_size(engine, exponent, sign):
    """Solr moves thresholds by 1e-6, single precision has the least numbers near 1e-45."""
    inner = np.sort(sign * 10.0**exponent * np.array([1.0, 1.25, 3.0]).astype(np.float32).astype(np.float64))
    model = LinearModel("shop", 1, ("a",), [1.0, 2.0, 4.0], Steps(), [[inner[0] - 1.0, *inner, inner[-1] + 1.0]])
    on = inner.astype(np.float32)
    values = np.concatenate([on, np.nextafter(on, np.float32(9)), np.nextafter(on, np.float32(-9)), [0.0]])
    documents = values.astype(np.float64)[:, None]
    np.testing.assert_array_equal(engine(model, documents), model.score(documents))


def test_solr_has_a_threshold_at_0():
    model = LinearModel("shop", 1, ("a",), [1.0, 2.0], Steps(), [[-9.0, 0.0, 1e-7, 9.0]])
    documents = np.array([[-1e-9], [-1e-40], [0.0], [1e-40], [1e-9], [9.9e-8], [2e-7], [3.0]]).astype(np.float32)
    np.testing.assert_array_equal(solr(model, documents), model.score(documents))


def test_solr_refuses_thresholds_that_no_scale_keeps_apart():
    model = LinearModel("shop", 1, ("a",), [1.0, 2.0], Steps(), [[0.0, 1e-44, 1e30, 1e31]])
    with pytest.raises(InvalidValue, match="magnitudes differ too much"):
        export(model, "solr")


@TREES
def test_a_feature_that_was_always_0_is_halfway_there(engine):
    model = LinearModel("shop", 1, ("a",), [2.0], Distribution(), [[0.0, 0.0, 0.0]])
    documents = np.array([[-1e-45], [-3.0], [0.0], [1e-45], [3.0]]).astype(np.float32).astype(np.float64)
    assert model.score(documents).tolist() == [0.0, 0.0, 1.0, 2.0, 2.0]
    np.testing.assert_array_equal(engine(model, documents), model.score(documents))


def test_steps_beyond_single_precision_divide_nothing():
    far = Fixed((MinMax(0.0, 1e300),)) >> Steps()
    model = LinearModel("shop", 1, ("a",), [1.0, 2.0, 4.0], far, [[-1.0, -0.1, 5e-300, 0.1, 1.0]])
    documents = np.array([[-1e38], [5.0], [6.0], [1e38]])
    for engine in (solr, ranklib, elasticsearch):
        found = engine(model, documents)
        np.testing.assert_array_equal(found - found[0], [0.0, 0.0, 2.0, 2.0])


@TREES
def test_a_model_without_any_step(engine):
    """Nothing has been learned: one tree with one leaf, as an ensemble may not be empty."""
    model = LinearModel("shop", 1, ("a", "b"), np.zeros(2), Steps(), [[0.0, 1.0, 2.0]] * 2)
    np.testing.assert_array_equal(engine(model, np.ones((2, 2))), [0.0, 0.0])
    assert export(model, "onnx")
    rank_features = {"a": "attribute(a)", "b": "attribute(b)"}
    columns = {"attribute(a)": np.ones(2), "attribute(b)": np.ones(2)}
    np.testing.assert_array_equal(Vespa(export(model, "vespa", rank_features=rank_features), columns).scores(), [0, 0])


# --- Within the query -----------------------------------------------------------------------------------------------

RANKED = [
    QueryRanks(),
    QueryScaled() >> QueryRanks(),
    QueryRanks() >> Steps(),
    Fixed((MinMax(0, 2),) * 3) >> QueryRanks(),
]


@pytest.mark.parametrize("representation", RANKED)
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_onnx_ranks_the_values_of_a_batch(representation, seed, n_documents):
    random = np.random.default_rng(seed)
    model = LinearModel("shop", 1, ("a", "b", "c"), random.normal(size=3), representation)
    documents = random.integers(0, 5, (n_documents, 3)).astype(float)  # with many ties
    (found,) = onnxruntime.InferenceSession(export(model, "onnx")).run(None, {"features": documents.astype(np.float32)})
    # Ranks are sums of halves, exact; they are divided, weighed and added up.
    np.testing.assert_allclose(
        found[:, 0], model.score(documents), rtol=0, atol=8 * SINGLE * np.abs(model.weights).sum()
    )


@pytest.mark.parametrize("representation", KNOTTED.values())
def test_before_the_first_knots_a_model_is_linear_in_the_range_of_the_query(representation):
    model = LinearModel("shop", 1, ("a", "b"), [1.0, -2.0], representation)
    scaled = LinearModel("shop", 1, ("a", "b"), [1.0, -2.0], QueryScaled())
    rank_features = {"a": "attribute(a)", "b": "attribute(b)"}
    assert model.domain == "query range"
    assert model.is_linear
    assert export(model, "vespa", rank_features=rank_features) == export(scaled, "vespa", rank_features=rank_features)
    documents = np.array([[1.0, 5.0], [3.0, -5.0], [2.0, 0.5]])
    (found,) = onnxruntime.InferenceSession(export(model, "onnx")).run(None, {"features": documents.astype(np.float32)})
    np.testing.assert_allclose(found[:, 0], model.score(documents), rtol=0, atol=1e-6)
    with pytest.raises(
        InvalidValue, match=r"not compute this model yet.*differs from query to query.*learned from more"
    ):
        export(model, "solr", max_error=0.1)
    chained = LinearModel("shop", 1, ("a", "b"), [1.0, -2.0], QueryScaled() >> representation)
    with pytest.raises(InvalidValue, match="cannot normalise per query"):
        export(chained, "solr", max_error=0.1)  # knots would not help


# --- What a learner has learned -------------------------------------------------------------------------------------


@pytest.mark.parametrize("representation", ["ramps", "curves", "distribution", "steps"])
@pytest.mark.parametrize("first", ["", "query-scaled >> "])
@pytest.mark.parametrize("lists", [5, 200])
def test_a_learner_becomes_a_model_that_ranks_as_it_does(first, representation, lists):
    learner = Learner(f"{first}{representation} >> mgd-dsp", 3, seed=2)
    random = np.random.default_rng(2)
    scale = np.array([1.0, 1e3, 0.0])  # the last feature is constant
    for _ in range(lists):
        documents = random.exponential(size=(6, 3)) * scale + 2.0
        impression = learner.rank(Query("q", documents))
        learner.learn(impression, Feedback(documents[impression.ranking, 0] > 3.0))
    model = LinearModel.from_snapshot(learner.snapshot(), "shop", ["a", "b", "c"])
    assert LinearModel.from_json(model.to_json()) == model
    query = Query("q", random.exponential(size=(6, 3)) * scale + 2.0)
    scores = model.score(query.features)
    np.testing.assert_array_equal(scores[learner.best(query)], np.sort(scores)[::-1])
    assert model.has_knots == (lists == 200 or bool(first and representation != "steps"))
    assert model.knots is not None
    with pytest.raises(InvalidValue, match="already contains its representation"):
        LinearModel.from_snapshot(learner.snapshot(), representation=QueryScaled())
