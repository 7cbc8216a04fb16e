"""Every export, read back by a reader written from the engine's rules alone, ranks as the model does.

Here are linear models; `test_curves` has the others.
"""

import json
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.export.readers import Elasticsearch, RankLib, Solr, Vespa, by_name, in_vespa

from duelrank.export import FORMATS, LinearModel, export
from duelrank.representation import Fixed, MinMax, QueryScaled, Raw, Standard, Unscaled

SINGLE, DOUBLE = 2.0**-24, 2.0**-53  # the unit roundoffs
ODD = [
    '"',
    "\\",
    "a b",
    "#",
    "{",
    "}",
    "é",
    "\n",
    "日本",
    "1",
    "w_1",
    "a(b)",
    "a_b",
    "a-b",
    "price",
    "bm25(title)",
    "0:1",
]


# --- Models and documents -------------------------------------------------------------------------------------------

numbers = st.floats(-1e3, 1e3).map(lambda x: 0.0 if abs(x) < 1e-6 else x)
spans = st.floats(1e-2, 1e3)
scalings = st.one_of(
    st.just(Unscaled()),
    st.builds(lambda low, span: MinMax(low, low + span), numbers, spans),
    st.builds(lambda low: MinMax(low, low), numbers),
    st.builds(Standard, numbers, spans),
    st.builds(lambda mean: Standard(mean, 0.0), numbers),
)
names = st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8))
name_lists = st.lists(names.filter(str.strip), min_size=1, max_size=6, unique=True).map(tuple)


@st.composite
def models(draw, kinds=("raw", "fixed")):
    features = draw(name_lists)
    n = len(features)
    kind = draw(st.sampled_from(kinds))
    made = {"raw": Raw(), "query-scaled": QueryScaled()}.get(kind)
    if made is None:
        made = Fixed(tuple(draw(st.lists(scalings, min_size=n, max_size=n))))
    weights = np.array(draw(st.lists(numbers, min_size=n, max_size=n)))
    return LinearModel("shop", draw(st.integers(0, 10**7)), features, weights, made)


@st.composite
def cases(draw, kinds=("raw", "fixed")):
    """A model, and documents whose values single precision holds exactly, some of them 0 or all alike."""
    model = draw(models(kinds))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (draw(st.integers(1, 8)), len(model.features))
    documents = rng.uniform(-1e3, 1e3, shape) * rng.choice([1.0, 1e-3], shape[1]) * (rng.random(shape) < 0.8)
    documents[:, rng.random(shape[1]) < 0.2] = rng.choice([0.0, 3.5])
    return model, documents.astype(np.float32).astype(np.float64)


def slack(model, documents, unit):
    """How far the score of each document may be off in arithmetic of this unit roundoff u.

    A scaled value v = (x − a)/(b − a), each number rounded before and each operation after, is off by at most about uκ(2 + 3|v|),
    κ = (|x| + |a| + |b|)/(b − a); with the mean for a and the deviation for b − a by less. Folded into the weight, x/(b − a) and
    a/(b − a) are rounded, at most uκ each. A sum of d products adds (d + 2)u times their sizes, and |v| ≤ κ. Together no more than
    (d + 6)uκ(1 + |v|)|w| per feature, without κ and v but with |x| where nothing is scaled.
    """
    size = np.abs(documents)
    if isinstance(model.representation, QueryScaled):
        bounds = [MinMax(low, high) for low, high in zip(documents.min(axis=0), documents.max(axis=0), strict=True)]
        size = sizes(documents, bounds)
        size[:, [each.minimum == each.maximum for each in bounds]] = 1.0  # Vespa gives a constant feature 0.5
    elif isinstance(model.representation, Fixed):
        size = sizes(documents, model.representation.scalings)
    d = len(model.features)
    return (d + 6) * unit * size @ np.abs(model.weights) + d * 2.0**-148


def sizes(documents, scalings):
    size = np.abs(documents)
    for column, each in enumerate(scalings):
        if isinstance(each, MinMax):
            a, b = each.minimum, each.maximum
            scale, others = b - a, abs(a) + abs(b)
        elif isinstance(each, Standard):
            a, scale, others = each.mean, each.deviation, abs(each.mean)
        else:
            continue
        v = (documents[:, column] - a) / scale if scale else 0.0 * documents[:, column]
        kappa = (np.abs(documents[:, column]) + others) / scale if scale else 0.0
        size[:, column] = kappa * (1.0 + np.abs(v))
    return size


def assert_same_scores(found, model, documents, unit):
    truth, off = model.score(documents), slack(model, documents, unit)
    assert np.shape(found) == truth.shape
    assert (np.abs(found - truth) <= off).all()
    assert_same_order(found, truth, off)


def assert_same_up_to_a_constant(found, model, documents, unit):
    truth, off = model.score(documents), slack(model, documents, unit)
    assert (np.abs((found - found[0]) - (truth - truth[0])) <= off + off[0]).all()
    assert_same_order(found, truth, off)


def assert_same_order(found, truth, off):
    """No two documents whose scores differ by more than rounding have changed places."""
    apart = truth[:, None] - truth[None, :] > off[:, None] + off[None, :]
    assert (found[:, None] > found[None, :])[apart].all()


# --- Solr -----------------------------------------------------------------------------------------------------------


@given(cases())
def test_solr(case):
    model, documents = case
    engine = Solr(export(model, "solr"), model.features)
    assert_same_scores(np.array([engine.score(d) for d in by_name(model, documents)], float), model, documents, SINGLE)


def test_solr_names_are_new_for_each_version_and_may_name_a_store():
    model = LinearModel("shop", 123, ("a",), [1.0])
    assert Solr(export(model, "solr"), ["a"]).model["name"] == "shop_000123"
    assert Solr(export(replace(model, version=124), "solr", store="v3"), ["a"]).model["name"] == "shop_000124"
    assert Solr(export(model, "solr", store="v3"), ["a"]).model["store"] == "v3"


# --- Elasticsearch-LTR, OpenSearch LTR ------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["elasticsearch", "opensearch"])
@given(cases())
def test_elasticsearch_and_opensearch(format, case):
    model, documents = case
    engine = Elasticsearch(export(model, format, allow_negative=True), model.features)
    assert engine.name == model.versioned_name
    assert_same_scores(np.array([engine.score(d) for d in by_name(model, documents)], float), model, documents, SINGLE)


@given(cases(), st.floats(0.0, 1e3))
def test_an_offset_moves_all_scores_alike(case, offset):
    model, documents = case
    assume("always one" not in model.features)
    body = export(model, "elasticsearch", offset_feature="always one", offset=offset, allow_negative=True)
    engine = Elasticsearch(body, [*model.features, "always one"])
    found = np.array([engine.score({**d, "always one": 1.0}) for d in by_name(model, documents)], float)
    off = slack(model, documents, SINGLE) + (len(model.features) + 2) * SINGLE * offset
    assert (np.abs(found - offset - model.score(documents)) <= off).all()


ranges = st.builds(lambda low, span: MinMax(low, low + span), numbers, spans)
bounded = name_lists.filter(lambda names: "one" not in names).flatmap(
    lambda features: st.builds(
        lambda weights, each: LinearModel("shop", 1, features, np.array(weights), Fixed(tuple(each))),
        st.lists(numbers, min_size=len(features), max_size=len(features)),
        st.lists(ranges, min_size=len(features), max_size=len(features)),
    )
)


@given(bounded, st.integers(0, 2**32))
def test_the_computed_offset_is_sufficient_and_no_larger_than_rounding_needs(model, seed):
    body = export(model, "opensearch", offset_feature="one")
    engine = Elasticsearch(body, [*model.features, "one"])
    rng, documents = np.random.default_rng(seed), []
    for _ in range(20):  # within the ranges, at their ends, and missing
        documents.append({"one": 1.0})
        for name, each in zip(model.features, model.representation.scalings, strict=True):
            candidates = [each.minimum, each.maximum, rng.uniform(each.minimum, each.maximum), 0.0]
            documents[-1][name] = candidates[rng.integers(4)]
    worst = {"one": 1.0}
    for name, weight, each in zip(model.features, model.weights, model.representation.scalings, strict=True):
        worst[name] = min((each.minimum, each.maximum, 0.0), key=lambda x, w=weight, e=each: w * (x - e.minimum))
    assert min(engine.score(document) for document in [*documents, worst]) >= 0
    # The smallest: the worst document is lifted to 0 and a few roundings of the summands, no further.
    values = [[document[name] for name in model.features] for document in [*documents, worst]]
    lift = float(engine.weights[-1])
    rounding = slack(model, np.array(values), SINGLE).max() + (len(model.features) + 8) * SINGLE * lift
    assert engine.score(worst) <= 4.0 * rounding


@pytest.mark.parametrize("k", range(3, 30))
def test_the_offset_outweighs_the_rounding_of_long_sums(k):
    """Three hundred times −1/k in single precision is not −300/k, and may well be less."""
    names = tuple(f"f{i}" for i in range(300))
    model = LinearModel("shop", 1, names, np.full(300, -1.0 / k), Fixed((MinMax(0.0, 1.0),) * 300))
    body = export(model, "elasticsearch", offset_feature="one")
    for order in ([*names, "one"], ["one", *names]):
        assert Elasticsearch(body, order).score(dict.fromkeys(order, 1.0)) >= 0


# --- RankLib --------------------------------------------------------------------------------------------------------


@given(cases())
def test_ranklib_without_bias_is_exact_up_to_a_constant(case):
    model, documents = case
    engine = RankLib(export(model, "ranklib"))
    assert engine.ranker == "ca"
    assert_same_up_to_a_constant(np.array([engine.score(row) for row in documents]), model, documents, DOUBLE)


@given(cases())
def test_ranklib_with_bias_has_the_scores_of_the_model(case):
    model, documents = case
    engine = RankLib(export(model, "ranklib", offset=0.0))
    assert engine.ranker == "lr"
    assert_same_scores(np.array([engine.score(row) for row in documents]), model, documents, DOUBLE)


# --- Vespa ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["inputs", "constants"])
@given(cases())
def test_vespa(weights, case):
    model, documents = case
    rank_features, columns = in_vespa(model, documents)
    engine = Vespa(export(model, "vespa", rank_features=rank_features, weights=weights), columns)
    assert (engine.phase, engine.rerank_count) == ("first-phase", None)
    assert_same_scores(engine.scores(), model, documents, DOUBLE)
    logged = np.column_stack([engine.refer(name) for name in engine.logged])
    np.testing.assert_array_equal(logged, documents)


@given(cases(["query-scaled"]))
def test_vespa_normalises_per_query_in_its_global_phase(case):
    model, documents = case
    rank_features, columns = in_vespa(model, documents)
    engine = Vespa(export(model, "vespa", rank_features=rank_features, rerank_count=200), columns)
    assert (engine.phase, engine.rerank_count) == ("global-phase", 200)
    assert_same_up_to_a_constant(engine.scores(), model, documents, DOUBLE)


def test_vespa_takes_no_name_of_its_own():
    for name, profile in {"default": "duelrank_default", "my-shop.v2": "my_shop_v2", "7": "_7"}.items():
        assert Vespa(export(LinearModel(name, 1, ("nativeRank",), [1.0]), "vespa"), {}).name == profile


# --- ONNX -----------------------------------------------------------------------------------------------------------


@given(cases(["raw", "fixed", "query-scaled"]))
def test_onnx(case):
    model, documents = case
    session = onnxruntime.InferenceSession(export(model, "onnx"))
    (taken,), (given,) = session.get_inputs(), session.get_outputs()
    assert (taken.name, taken.type, taken.shape) == ("features", "tensor(float)", ["N", len(model.features)])
    assert (given.name, given.type, given.shape) == ("scores", "tensor(float)", ["N", 1])
    (found,) = session.run(None, {"features": documents.astype(np.float32)})
    assert found.shape == (len(documents), 1)
    assert_same_scores(found[:, 0].astype(float), model, documents, SINGLE)


def test_onnx_says_what_it_is():
    model = LinearModel("shop", 7, ("a", "é"), [1.0, 2.0], QueryScaled())
    about = onnxruntime.InferenceSession(export(model, "onnx")).get_modelmeta()
    assert about.producer_name == "duelrank"
    assert about.graph_name == "shop_000007"
    assert json.loads(about.custom_metadata_map["features"]) == ["a", "é"]
    assert (about.custom_metadata_map["name"], about.custom_metadata_map["version"]) == ("shop", "7")
    assert json.loads(about.custom_metadata_map["representation"]) == "query-scaled"


# --- All ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@given(models())
def test_the_same_model_gives_the_same_bytes(format, model):
    options = {"allow_negative": True} if format in ("elasticsearch", "opensearch") else {}
    if format in ("vespa", "solr-features", "elasticsearch-features", "opensearch-features"):
        options = {"rank_features": dict.fromkeys(model.features, "attribute(a)" if format == "vespa" else "a")}
    if format in ("opensearch-hybrid", "elasticsearch-linear", "qdrant"):  # for the weights that all three take
        options = {} if format == "opensearch-hybrid" else {"sub_queries": dict.fromkeys(model.features, '{"a": 1}')}
        model = replace(model, weights=np.abs(model.weights) + 1.0, representation=Raw())
        if format == "opensearch-hybrid":
            model = replace(model, features=model.features[:5], weights=model.weights[:5], representation=QueryScaled())
    assert export(model, format, **options) == export(model, format, **options)
