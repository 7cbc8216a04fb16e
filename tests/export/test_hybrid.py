"""Hybrid search: models of the engines' arithmetic, written from their documentation and sources, rank as our model does.

A sub-query need not return every document; `duelrank.adapters.hybrid.table` makes the features that a ranker is given then.
"""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.adapters.hybrid import table
from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.export import LinearModel, export
from duelrank.representation import Chain, Fixed, MinMax, QueryRanks, QueryScaled, Ramps, Raw, Standard, Unscaled

HYBRID = ["opensearch-hybrid", "elasticsearch-linear", "qdrant"]
SINGLE = np.float32
MODEL = LinearModel("shop", 7, ("bm25", "vector"), [3.0, 1.0], QueryScaled())
SUB_QUERIES = {"bm25": '{"standard": {"query": {"match": {"title": "{{q}}"}}}}', "vector": '{"knn": {"field": "v"}}'}


class OpenSearch:
    """min_max and arithmetic_mean of the normalization processor, in single precision."""

    def __init__(self, body, n_sub_queries):
        content = json.loads(body)
        assert set(content) == {"description", "phase_results_processors"}
        ((name, processor),) = content["phase_results_processors"][0].items()
        assert name == "normalization-processor"
        assert processor["normalization"] == {"technique": "min_max"}
        assert processor["combination"]["technique"] == "arithmetic_mean"
        weights = processor["combination"]["parameters"]["weights"]
        assert all(type(weight) is float for weight in weights), "it casts each one to Double"
        assert len(weights) == n_sub_queries <= 5
        self.weights = [SINGLE(weight) for weight in weights]
        assert all(0 <= weight <= 1 for weight in self.weights)
        assert abs(sum(self.weights) - 1) <= 0.01

    @staticmethod
    def normalised(hits):
        low, high = min(hits.values()), max(hits.values())
        if low == high:
            return dict.fromkeys(hits, SINGLE(1))
        scaled = {document: (score - low) / (high - low) for document, score in hits.items()}
        return {document: SINGLE(0.001) if score == 0 else score for document, score in scaled.items()}

    def scores(self, sub_queries):
        """Of documents that any sub-query returned; 0 where one did not."""
        normalised = [self.normalised(hits) if hits else {} for hits in sub_queries]
        total = sum(self.weights[1:], start=self.weights[0])
        found = {}
        for document in set().union(*sub_queries):
            combined = SINGLE(0)
            for weight, own in zip(self.weights, normalised, strict=True):
                combined = combined + own.get(document, SINGLE(0)) * weight
            found[document] = combined / total
        return found


class Elasticsearch:
    """The linear retriever with its normalizers minmax and none, in single precision."""

    def __init__(self, body, retrievers):
        content = json.loads(body)
        assert set(content) == {"retriever"}
        linear = content["retriever"]["linear"]
        assert set(linear) == {"retrievers", "rank_window_size"}
        assert [each["retriever"] for each in linear["retrievers"]] == retrievers
        self.window = linear["rank_window_size"]
        self.weights = [SINGLE(each["weight"]) for each in linear["retrievers"]]
        self.normalizers = [each["normalizer"] for each in linear["retrievers"]]
        assert all(weight >= 0 for weight in self.weights), "[weight] must be non-negative"
        assert set(self.normalizers) in ({"minmax"}, {"none"})

    @staticmethod
    def normalised(hits, normalizer):
        if normalizer == "none":
            return hits
        low, high = min(hits.values()), max(hits.values())
        if high - low < 1e-6:
            return dict.fromkeys(hits, SINGLE(1))
        return {document: (score - low) / (high - low) for document, score in hits.items()}

    def scores(self, sub_queries):
        found = dict.fromkeys(set().union(*sub_queries), SINGLE(0))
        for weight, normalizer, hits in zip(self.weights, self.normalizers, sub_queries, strict=True):
            for document, score in (self.normalised(hits, normalizer) if hits else {}).items():
                found[document] = found[document] + weight * score
        return found


class Qdrant:
    """A formula over the scores of prefetches, in single precision; a score that is missing is 0."""

    def __init__(self, body, prefetches):
        content = json.loads(body)
        assert set(content) == {"prefetch", "query"}
        assert content["prefetch"] == prefetches
        self.formula = content["query"]["formula"]

    def value(self, expression, scores):
        if isinstance(expression, float):
            return SINGLE(expression)
        if isinstance(expression, str):
            return scores[int(re.fullmatch(r"\$score\[(\d+)\]", expression)[1])]
        ((operation, parts),) = expression.items()
        values = [self.value(each, scores) for each in parts]
        assert operation in ("sum", "mult")
        return sum(values, start=SINGLE(0)) if operation == "sum" else np.prod(values, dtype=SINGLE)

    def scores(self, sub_queries):
        documents = set().union(*sub_queries)
        return {
            each: self.value(self.formula, [hits.get(each, SINGLE(0)) for hits in sub_queries]) for each in documents
        }


# --- What a model and the engines make of the same hits -------------------------------------------------------------

weights = st.one_of(st.just(0.0), st.floats(1e-3, 10.0))
scores = st.one_of(st.integers(1, 2048).map(lambda n: n / 64.0), st.sampled_from([0.5, 7.25]))
hits = st.dictionaries(st.sampled_from([f"d{n}" for n in range(12)]), scores.map(SINGLE), max_size=12)


UNUSED = st.just(None)


@st.composite
def cases(draw, most=5, scalings=UNUSED, least=0.0):
    """Weights that are not all 0, hits of as many sub-queries with single hits and equal scores among them, and scalings."""
    n = draw(st.integers(1, most))
    drawn = draw(st.lists(st.one_of(weights, weights.map(lambda w: w * least)), min_size=n, max_size=n).filter(any))
    found = draw(st.lists(hits, min_size=n, max_size=n).filter(any))
    return np.array(drawn), found, draw(st.lists(scalings, min_size=n, max_size=n))


def built(case, representation=None):
    drawn, _, scalings = case
    names = tuple(f"f{number}" for number in range(len(drawn)))
    sub_queries = {name: json.dumps({"knn": {"field": name}}) for name in names}
    return LinearModel("shop", 1, names, drawn, representation or Fixed(tuple(scalings))), sub_queries


def ours(model, sub_queries, missing=None):
    documents, features = table(dict(zip(model.features, sub_queries, strict=True)))
    if missing is not None:  # as they are, without a scale
        features = np.array([[hits.get(each, missing) for hits in sub_queries] for each in documents], float)
    return documents, model.score(features)


def assert_same_order(engine, documents, truth, off):
    """Documents whose scores differ by more than what an engine may be off are in the same order."""
    found = np.array([engine[each] for each in documents], float)
    apart = truth[:, None] - truth[None, :] > off
    assert (found[:, None] > found[None, :])[apart].all()
    return found


@given(cases())
def test_opensearch_ranks_as_the_model_but_for_a_thousandth(case):
    model, _ = built(case, QueryScaled())
    documents, truth = ours(model, case[1])
    engine = OpenSearch(export(model, "opensearch-hybrid"), len(case[1]))
    found = assert_same_order(engine.scores(case[1]), documents, truth / model.weights.sum(), 0.001 + 1e-5)
    level = np.array([len(set(hits.values())) == 1 and len(hits) == len(documents) for hits in case[1]])
    constant = model.weights[level].sum() / model.weights.sum()  # 1 for every document, where the model has 0
    above = found - constant - truth / model.weights.sum()
    assert (above <= 0.001 + 1e-5).all()
    assert (above >= -1e-5).all()


def test_opensearch_lifts_the_lowest_hit_of_a_sub_query_above_those_it_did_not_return():
    engine = OpenSearch(export(MODEL, "opensearch-hybrid"), 2)
    hits = [{"a": SINGLE(2), "b": SINGLE(1)}, {"a": SINGLE(2), "c": SINGLE(2)}]
    assert engine.scores(hits) == pytest.approx({"a": 1.0, "b": 0.75 * 0.001, "c": 0.25})
    documents, truth = ours(MODEL, hits)
    assert dict(zip(documents, (truth / 4.0).tolist(), strict=True)) == {"a": 1.0, "b": 0.0, "c": 0.25}


@given(cases(most=8))
def test_elasticsearch_ranks_as_the_model(case):
    model, sub_queries = built(case, QueryScaled())
    body = export(model, "elasticsearch-linear", sub_queries=sub_queries)
    engine = Elasticsearch(body, [json.loads(text) for text in sub_queries.values()])
    documents, truth = ours(model, case[1])
    # Scores within a millionth of each other are equal to it; these are equal or at least 1/64 apart.
    assert_same_order(engine.scores(case[1]), documents, truth / model.weights.sum(), 1e-5)


scalings = st.one_of(
    st.just(Unscaled()),
    st.builds(lambda low, span: MinMax(low, low + span), st.floats(-8.0, 8.0), st.floats(0.5, 8.0)),
    st.builds(Standard, st.floats(-8.0, 8.0), st.floats(0.5, 8.0)),
    st.just(Standard(3.0, 0.0)),
)


@given(cases(most=8, scalings=scalings))
def test_elasticsearch_weighs_scores_that_are_not_scaled_within_the_query(case):
    model, sub_queries = built(case)
    if not any(w and s.scale for w, s in zip(model.weights, model.representation.scalings, strict=True)):
        return
    body = export(model, "elasticsearch-linear", sub_queries=sub_queries)
    engine = Elasticsearch(body, [json.loads(text) for text in sub_queries.values()])
    documents, truth = ours(model, case[1], missing=0.0)
    assert_same_order(engine.scores(case[1]), documents, truth, 1e-4 * model.weights.sum())


@given(cases(most=8, scalings=scalings, least=-1.0))
def test_qdrant_weighs_scores_that_are_not_scaled_within_the_query(case):
    model, sub_queries = built(case)
    engine = Qdrant(
        export(model, "qdrant", sub_queries=sub_queries), [json.loads(each) for each in sub_queries.values()]
    )
    documents, truth = ours(model, case[1], missing=0.0)
    found = assert_same_order(engine.scores(case[1]), documents, truth, 1e-4 * np.abs(model.weights).sum())
    np.testing.assert_allclose(found - found[0], truth - truth[0], atol=2e-4 * np.abs(model.weights).sum())


def test_weights_sum_to_1_in_the_order_of_the_features():
    content = json.loads(export(MODEL, "opensearch-hybrid"))
    parameters = content["phase_results_processors"][0]["normalization-processor"]["combination"]["parameters"]
    assert parameters == {"weights": [0.75, 0.25]}
    assert content["description"].startswith("shop_000007,")
    assert content["description"].endswith('in this order: "bm25", "vector"')
    engine = Elasticsearch(
        export(MODEL, "elasticsearch-linear", sub_queries=SUB_QUERIES, rank_window_size=50),
        [json.loads(text) for text in SUB_QUERIES.values()],
    )
    assert (engine.weights, engine.normalizers, engine.window) == ([0.75, 0.25], ["minmax", "minmax"], 50)


@pytest.mark.parametrize("largest", [1e308, 5e-324])
def test_weights_of_any_size_have_a_sum(largest):
    content = export(replace(MODEL, weights=[largest, largest]), "opensearch-hybrid")
    assert OpenSearch(content, 2).weights == [0.5, 0.5]


def test_scales_around_the_query_scale_change_what_they_should():
    before = Chain(Fixed((MinMax(0.0, 8.0), Standard(1.0, 2.0))), QueryScaled())
    assert OpenSearch(export(replace(MODEL, representation=before), "opensearch-hybrid"), 2).weights == [0.75, 0.25]
    after = Chain(QueryScaled(), Fixed((MinMax(0.0, 3.0), Unscaled())))
    assert OpenSearch(export(replace(MODEL, representation=after), "opensearch-hybrid"), 2).weights == [0.5, 0.5]
    constant = Chain(Fixed((MinMax(2.0, 2.0), Unscaled())), QueryScaled())
    assert OpenSearch(export(replace(MODEL, representation=constant), "opensearch-hybrid"), 2).weights == [0.0, 1.0]


# --- What no engine holds -------------------------------------------------------------------------------------------


def refused(model, format, **options):
    if format != "opensearch-hybrid":
        options = {"sub_queries": SUB_QUERIES, **options}
    with pytest.raises(InvalidValue) as caught:
        export(model, format, **options)
    return str(caught.value)


@pytest.mark.parametrize("format", HYBRID)
def test_what_is_not_a_weighted_sum(format):
    curves = replace(MODEL, representation=Ramps(), knots=np.array([[0.0, 1.0], [0.0, 5.0]]))
    message = refused(curves, format)
    assert "no curves" in message
    assert "vespa, onnx and json" in message
    message = refused(replace(MODEL, representation=QueryRanks()), format)
    assert "cannot rank the values within a query" in message


@pytest.mark.parametrize("format", HYBRID[:2])
def test_weights_that_no_engine_takes(format):
    message = refused(replace(MODEL, weights=[3.0, -0.125]), format)
    assert "'vector' (-0.125)" in message
    assert "step=NonNegative" in message


@pytest.mark.parametrize("format", HYBRID[:2])
@pytest.mark.parametrize(
    ("version", "reason"),
    [(0, "learned from any click"), (1, "learned from any click"), (2, "clicks disagree with every sub-query")],
)
def test_weights_that_are_all_0(format, version, reason):
    message = refused(replace(MODEL, version=version, weights=[0.0, 0.0]), format)
    assert "all are 0" in message
    assert reason in message


@pytest.mark.parametrize("representation", [Raw(), Fixed((MinMax(0.0, 1.0), Unscaled()))])
def test_opensearch_scales_within_each_query(representation):
    message = refused(replace(MODEL, representation=representation), "opensearch-hybrid")
    assert "learn with query-scaled >> ALGORITHM" in message


def test_opensearch_has_five_sub_queries_at_most():
    names = tuple("abcdef")
    assert "at most 5 sub-queries, this ranker has 6" in refused(
        LinearModel("shop", 1, names, np.ones(6), QueryScaled()), "opensearch-hybrid"
    )


def test_qdrant_does_not_scale_within_a_query():
    message = refused(MODEL, "qdrant")
    assert "cannot scale scores within a query" in message
    assert "opensearch-hybrid, elasticsearch-linear, vespa" in message


@pytest.mark.parametrize("format", HYBRID[1:])
class TestSubQueries:
    model = replace(MODEL, representation=Raw())

    def test_one_that_is_missing(self, format):
        message = refused(self.model, format, sub_queries={"bm25": SUB_QUERIES["bm25"]})
        assert "computes 'vector' is missing: give it, such as vector={" in message
        assert "computes 'bm25' is missing" in refused(self.model, format, sub_queries=None)

    def test_one_of_no_feature(self, format):
        with pytest.raises(UnknownName, match="did you mean vector"):
            export(self.model, format, sub_queries={**SUB_QUERIES, "vectro": "{}"})

    @pytest.mark.parametrize("text", ["", "{", "[1]", "{}", "null", '"knn"', "{'a': 1}", '{"a": NaN}', 3])
    def test_one_that_is_no_object_of_json(self, format, text):
        assert "sub-query" in refused(self.model, format, sub_queries={**SUB_QUERIES, "vector": text})


def test_a_window_of_no_documents():
    assert "from 1 up" in refused(MODEL, "elasticsearch-linear", rank_window_size=0)
