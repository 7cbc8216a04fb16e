"""An OpenSearch with learning to rank and hybrid search: features out of it, weights into it, its ranking is that of the model.

The server has to run already: Maven Central has OpenSearch, but neither of the two plug-ins.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.engines.any_model import AnyModel
from tests.engines.running import HERE, Refused, ask
from tests.engines.shop import N_PRODUCTS, QUERIES, learned_model, products
from tests.export import test_curves as curves
from tests.export import test_engines as lines
from tests.export import test_hybrid as hybrid

from duelrank.adapters.hybrid import RECIPE, table
from duelrank.export import LinearModel, export
from duelrank.representation import Fixed, MinMax, QueryScaled, Standard, Unscaled

pytestmark = pytest.mark.engines


class OpenSearch:
    """An index of products, over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url

    def put(self, path: str, body: object = None) -> None:
        ask(f"{self.url}/{path}", b"" if body is None else body, "PUT")

    def search(self, body: dict[str, Any], **parameters: object) -> list[dict[str, Any]]:
        """Return all hits."""
        body = {"size": N_PRODUCTS, "_source": False, **body}
        answer = ask(f"{self.url}/products/_search", body, **parameters)
        assert answer["_shards"]["failed"] == 0
        return answer["hits"]["hits"]

    def features(self, text: str) -> dict[str, list[float]]:
        """Return the features of the products that match, by their ids: what the plug-in logs."""
        logged = {"sltr": {"_name": "logged", "featureset": "products", "params": {"text": text}}}
        specs = {"name": "features", "named_query": "logged", "missing_as_zero": True}
        hits = self.search(
            {
                "query": {"bool": {"must": match(text), "filter": [logged]}},
                "ext": {"ltr_log": {"log_specs": specs}},
            }
        )
        found = {}
        for hit in hits:
            (entry,) = hit["fields"]["_ltrlog"]
            values = {each["name"]: each["value"] for each in entry["features"]}
            found[hit["_id"]] = [float(np.float32(values[name])) for name in FEATURES]
        return found

    def upload(self, model: bytes, features: str = "products") -> None:
        ask(f"{self.url}/_ltr/_featureset/{features}/_createmodel", model, "POST")

    def reranked(self, text: str, model: str, window: int = N_PRODUCTS) -> dict[str, float]:
        """Return the scores of the products, best first."""
        by_model = {"sltr": {"model": model, "params": {"text": text}}}
        rescore = {"window_size": window, "query": {"query_weight": 0, "rescore_query": by_model}}
        return {hit["_id"]: hit["_score"] for hit in self.search({"query": match(text), "rescore": rescore})}


def match(text: str) -> dict[str, Any]:
    return {"multi_match": {"query": text, "fields": ["title", "description"]}}


FEATURES = ("title_match", "description_match", "price", "rating")
MATCHES = {
    "title_match": '{"match": {"title": "{{text}}"}}',
    "description_match": '{"match": {"description": "{{text}}"}}',
}
SCALINGS = Fixed((MinMax(0.0, 6.5), Standard(1.5, 0.7), MinMax(2.0, 300.0), Unscaled()))


@pytest.fixture(scope="module")
def opensearch() -> Iterator[OpenSearch]:
    """An OpenSearch with the products and the features."""
    url = os.environ.get("DUELRANK_OPENSEARCH")
    if not url:
        pytest.skip(
            "its plug-ins are not in Maven Central: set DUELRANK_OPENSEARCH to the address of a server with opensearch-ltr and "
            "neural-search, which is there for tests alone"
        )
    found = OpenSearch(url.rstrip("/"))
    try:
        fill(found)
        yield found
    finally:
        for path in ("products", "_ltr", "_search/pipeline/*"):
            with suppress(Refused):  # it may not have come so far
                ask(f"{found.url}/{path}", method="DELETE")


def fill(opensearch: OpenSearch) -> None:
    """Index the products, and say how their features are computed."""
    texts, numbers = {name: {"type": "text"} for name in ("title", "description")}, {"type": "float"}
    mappings = {"properties": {**texts, "price": numbers, "rating": numbers}}
    opensearch.put("products", {"settings": {"number_of_shards": 1}, "mappings": mappings})
    lines = [json.dumps(each) for product in products() for each in ({"index": {"_id": product["id"]}}, product)]
    assert not ask(f"{opensearch.url}/products/_bulk", "\n".join(lines) + "\n", "POST", refresh="true")["errors"]
    opensearch.put("_ltr")
    model = LinearModel("shop", 0, FEATURES, np.zeros(4))
    given = {"rank_features": MATCHES, "offset_feature": "always_one"}
    opensearch.put("_ltr/_featureset/products", export(model, "opensearch-features", **given))


@pytest.fixture(scope="module")
def lists(opensearch: OpenSearch) -> dict[str, dict[str, list[float]]]:
    """The features of the products of every query."""
    return {text: opensearch.features(text) for text in QUERIES}


def arrays(lists: dict[str, dict[str, list[float]]]) -> dict[str, np.ndarray]:
    return {text: np.array(list(each.values())) for text, each in lists.items()}


def test_the_features_are_those_of_the_products(lists: dict[str, dict[str, list[float]]]) -> None:
    values = {each["id"]: (each["price"], each.get("rating", 0.0)) for each in products()}
    assert min(map(len, lists.values())) > 50
    for features in lists.values():
        assert {product: tuple(row[2:]) for product, row in features.items()} == {
            product: values[product] for product in features
        }
        matches = np.array(list(features.values()))[:, :2]
        assert (matches.max(axis=1) > 0.0).all()
        assert len(np.unique(matches)) > 30


# --- Learning to rank -----------------------------------------------------------------------------------------------


def assert_opensearch_ranks_alike(
    opensearch: OpenSearch, model: LinearModel, lists: dict, same_scores: Callable[..., None], lifted: float = 0.0
) -> None:
    """For every query: the scores are those of the model but for rounding, and the order is that of the scores."""
    for text, features in lists.items():
        found = opensearch.reranked(text, model.versioned_name)
        assert set(found) == set(features)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert min(found.values()) >= 0.0
        scores = np.array([found[product] for product in features]) - lifted
        same_scores(scores, model, np.array(list(features.values())))


def rounded(offset: float) -> float:
    """What single precision loses of scores that an offset lifts: half a unit in the last place for each sum."""
    return 8.0 * lines.SINGLE * offset


def same_but_for(more: float) -> Callable[..., None]:
    """Compare the scores of linear models, which may be off by some more than their own rounding."""

    def compare(found: np.ndarray, model: LinearModel, documents: np.ndarray) -> None:
        truth, off = model.score(documents), lines.slack(model, documents, lines.SINGLE) + more
        assert (np.abs(found - truth) <= off).all(), (found - truth, off)
        lines.assert_same_order(found, truth, off)

    return compare


@pytest.mark.parametrize(
    ("name", "algorithm", "before", "offset"),
    [
        ("raw", "mgd-dsp", None, 1024.0),
        ("fixed", "mgd-dsp", SCALINGS, 64.0),
        ("pdgd", "pdgd", SCALINGS, 64.0),
    ],
)
def test_a_linear_model_and_its_offset(
    opensearch: OpenSearch, lists, name: str, algorithm: str, before: Fixed | None, offset: float
) -> None:
    model = learned_model(name, algorithm, arrays(lists), FEATURES, before)
    assert model.score(np.concatenate(list(arrays(lists).values()))).min() < 0.0
    opensearch.upload(export(model, "opensearch", offset_feature="always_one", offset=offset))
    assert_opensearch_ranks_alike(opensearch, model, lists, same_but_for(rounded(offset)), lifted=offset)


def test_the_smallest_offset_keeps_all_scores_at_0_or_above(opensearch: OpenSearch, lists) -> None:
    every = np.concatenate(list(arrays(lists).values()))
    ranges = Fixed(tuple(map(MinMax, every.min(axis=0).tolist(), every.max(axis=0).tolist())))
    model = learned_model("within", "mgd-dsp", arrays(lists), FEATURES, ranges)
    body = export(model, "opensearch", offset_feature="always_one")
    offset = json.loads(json.loads(body)["model"]["model"]["definition"])["always_one"]
    assert offset > 0.0
    opensearch.upload(body)
    assert_opensearch_ranks_alike(opensearch, model, lists, same_but_for(rounded(offset)), lifted=offset)


def test_steps_are_exact(opensearch: OpenSearch, lists) -> None:
    model = learned_model("steps", "steps >> mgd-dsp", arrays(lists), FEATURES)
    assert len(np.unique(model.weights)) > 10
    opensearch.upload(export(model, "opensearch"))
    lifted = sum(-min(curve.heights) for curve in model.curves)
    assert_opensearch_ranks_alike(
        opensearch, model, lists, lambda *args: curves.assert_same_scores(*args, curves.SINGLE, rounded(lifted)), lifted
    )


@pytest.mark.parametrize("max_error", [0.1, 0.001])
def test_curves_are_within_their_error(opensearch: OpenSearch, lists, max_error: float) -> None:
    model = learned_model(f"curves-{max_error}", "curves >> mgd-dsp", arrays(lists), FEATURES)
    opensearch.upload(export(model, "opensearch", max_error=max_error))
    more = 2 * len(FEATURES) * max_error  # the lift is the least level, which may be off as well
    lifted = sum(-min(curve.heights) for curve in model.curves)
    more += rounded(lifted)
    assert_opensearch_ranks_alike(
        opensearch, model, lists, lambda *args: curves.assert_same_scores(*args, curves.SINGLE, more), lifted
    )


@pytest.mark.parametrize("algorithm", ["mgd-dsp", "steps >> mgd-dsp"])
def test_a_file_of_ranklib(opensearch: OpenSearch, lists, algorithm: str) -> None:
    """The order of the features is that of the feature set; a constant keeps the scores of a linear model above 0."""
    model = learned_model(f"ranklib-{algorithm[:5]}", algorithm, arrays(lists), FEATURES)
    offset = 1024.0
    text = export(model, "ranklib", offset=offset).decode()
    opensearch.upload(in_ranklib(model, text))
    same = same_but_for(rounded(offset)) if model.is_linear else curves_but_for(rounded(offset))
    assert_opensearch_ranks_alike(opensearch, model, lists, same, lifted=offset)


def curves_but_for(more: float) -> Callable[..., None]:
    return lambda *args: curves.assert_same_scores(*args, curves.SINGLE, more)


def in_ranklib(model: LinearModel, text: str) -> str:
    definition = {"type": "model/ranklib", "definition": text}
    return json.dumps({"model": {"name": model.versioned_name, "model": definition}})


# --- Numbers of all sizes -------------------------------------------------------------------------------------------

_versions = itertools.count(1)


@pytest.fixture(scope="module")
def value_by_value(opensearch: OpenSearch) -> Callable[..., np.ndarray]:
    """What scores documents by features that come with the request: the model as a function of any values."""

    def score(model: LinearModel, documents: np.ndarray, **options: object) -> np.ndarray:
        model = replace(model, name="values", version=next(_versions))
        places = [f"v{place}" for place in range(len(model.features))]
        definitions = [
            {"name": name, "params": [place], "template_language": "derived_expression", "template": place}
            for name, place in zip(model.features, places, strict=True)
        ]
        opensearch.put(f"_ltr/_featureset/{model.versioned_name}", {"featureset": {"features": definitions}})
        opensearch.upload(export(model, "opensearch", allow_negative=True, **options), model.versioned_name)
        found = []
        for row in documents.tolist():
            by_model = {"sltr": {"model": model.versioned_name, "params": dict(zip(places, row, strict=True))}}
            rescore = {"window_size": 1, "query": {"query_weight": 0, "rescore_query": by_model}}
            (best,) = opensearch.search({"query": {"ids": {"values": ["p001"]}}, "rescore": rescore})
            found.append(best["_score"])
        return np.array(found)

    return score


class TestAnyModel(AnyModel):
    pass


# --- What OpenSearch refuses ----------------------------------------------------------------------------------------


def test_a_name_that_exists_is_refused(opensearch: OpenSearch) -> None:
    model = LinearModel("twice", 1, FEATURES, [1.0, 2.0, 3.0, 4.0])
    opensearch.upload(export(model, "opensearch", allow_negative=True))
    with pytest.raises(Refused, match=r"Element of type \[model\] are not updatable.*twice_000001") as refused:
        opensearch.upload(export(model, "opensearch", allow_negative=True))
    assert refused.value.status == 405


def test_the_store_exists_already(opensearch: OpenSearch) -> None:
    with pytest.raises(Refused, match="already exists") as refused:
        opensearch.put("_ltr")
    assert refused.value.status == 400


def test_a_model_keeps_the_features_that_it_came_with(opensearch: OpenSearch) -> None:
    features = LinearModel("kept", 1, ("price",), [1.0])
    opensearch.put("_ltr/_featureset/kept", export(features, "opensearch-features"))
    opensearch.upload(export(features, "opensearch", allow_negative=True), "kept")
    before = opensearch.reranked(QUERIES[0], "kept_000001")
    changed = export(features, "opensearch-features", rank_features={"price": "rating"})
    with pytest.raises(Refused, match="already exists"):
        opensearch.put("_ltr/_featureset/kept", changed)
    ask(f"{opensearch.url}/_ltr/_featureset/kept", changed, "POST")  # it replaces what is there
    assert opensearch.reranked(QUERIES[0], "kept_000001") == before


def test_a_field_below_0_is_refused(opensearch: OpenSearch) -> None:
    negative = {"field_value_factor": {"field": "price", "factor": -1}, "boost_mode": "replace"}
    with pytest.raises(Refused, match="negative") as refused:
        opensearch.search({"query": {"function_score": negative}})
    assert refused.value.status == 400


def test_a_feature_that_the_set_lacks_is_refused(opensearch: OpenSearch) -> None:
    with pytest.raises(Refused, match="colour"):
        opensearch.upload(
            export(LinearModel("lacking", 1, ("price", "colour"), [1.0, 2.0]), "opensearch", allow_negative=True)
        )


# --- Scores below 0 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lifted", [True, False])
def test_documents_beyond_the_window_count_0(opensearch: OpenSearch, lists, lifted: bool) -> None:
    """So they come before all documents whose scores the model has below 0, unless an offset lifts those."""
    text, features = next(iter(lists.items()))
    model = LinearModel("lifted" if lifted else "below-0", 1, FEATURES, [-1.0, -2.0, -0.01, -4.0])
    options = {"offset_feature": "always_one", "offset": 200.0} if lifted else {"allow_negative": True}
    opensearch.upload(export(model, "opensearch", **options))
    scores = list(opensearch.reranked(text, model.versioned_name, window=20).values())
    assert len(scores) == len(features) > 100
    assert np.count_nonzero(scores) == 20
    assert all(scores[:20]) if lifted else all(scores[-20:])


# --- Hybrid search --------------------------------------------------------------------------------------------------

SUB_QUERIES = ("title", "description", "price", "rating")


def sub_query(name: str, text: str) -> dict[str, Any]:
    """A match in a text, or the number of those products that match; not every product has one."""
    if name in ("title", "description"):
        return {"match": {name: text}}
    found = {"bool": {"filter": [match(text), {"exists": {"field": name}}]}}
    factor = {"query": found, "field_value_factor": {"field": name}, "boost_mode": "replace"}
    return {"function_score": factor}


@pytest.fixture(scope="module")
def sub_query_hits(opensearch: OpenSearch) -> dict[str, dict[str, dict[str, float]]]:
    """By query and sub-query, the scores of the products that it returns."""
    return {
        text: {
            name: {hit["_id"]: hit["_score"] for hit in opensearch.search({"query": sub_query(name, text)})}
            for name in SUB_QUERIES
        }
        for text in QUERIES
    }


def assert_hybrid_search_ranks_alike(opensearch: OpenSearch, model: LinearModel, sub_query_hits: dict) -> None:
    """The scores are those of our model of the engine's arithmetic, the order is that of the ranker but for a thousandth."""
    body = export(model, "opensearch-hybrid")
    opensearch.put(f"_search/pipeline/{model.versioned_name}", body)
    for text, hits in sub_query_hits.items():
        query = {"hybrid": {"queries": [sub_query(name, text) for name in SUB_QUERIES]}}
        answer = opensearch.search({"query": query}, search_pipeline=model.versioned_name)
        found = {hit["_id"]: hit["_score"] for hit in answer}
        single = [{product: np.float32(score) for product, score in each.items()} for each in hits.values()]
        assert found == pytest.approx(hybrid.OpenSearch(body, len(SUB_QUERIES)).scores(single), rel=1e-6)
        documents, features = table(hits)
        assert set(documents) == set(found)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        truth = model.score(features) / model.weights.sum()
        scores = np.array([found[each] for each in documents])
        lines.assert_same_order(scores, truth, np.full(len(documents), 0.0005 + 1e-6))


def test_learned_weights_of_hybrid_search(opensearch: OpenSearch, sub_query_hits) -> None:
    lists = {text: table(hits)[1] for text, hits in sub_query_hits.items()}
    model = learned_model("learned-hybrid", RECIPE, lists, SUB_QUERIES)
    assert (model.weights >= 0.0).all()
    assert np.count_nonzero(model.weights) > 1
    assert_hybrid_search_ranks_alike(opensearch, model, sub_query_hits)


@pytest.mark.parametrize("weights", [[1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 4.0, 8.0], [0.1, 0.7, 1e-6, 123.0]])
def test_weights_of_hybrid_search(opensearch: OpenSearch, sub_query_hits, weights: list[float]) -> None:
    model = LinearModel("hybrid", next(_versions), SUB_QUERIES, weights, QueryScaled())
    assert_hybrid_search_ranks_alike(opensearch, model, sub_query_hits)


# --- The page about engines -----------------------------------------------------------------------------------------


def on_the_page(title: str, opensearch: OpenSearch) -> dict[str, Any]:
    """Run the Python of a part of docs/engines.md, and return what it defines."""
    page = (HERE.parents[1] / "docs" / "engines.md").read_text()
    code = page.split(f"## {title}\n")[1].split("```python\n")[1].split("```")[0]
    defined: dict[str, Any] = {}
    exec(code.replace("http://localhost:9200", opensearch.url), defined)
    return defined


@cache
def wanted(text: str) -> set[str]:
    """Users want products with good ratings that have one of their words in the title."""
    good = {each["id"]: each["title"].split() for each in products() if each.get("rating", 0.0) > 3.5}
    return {product for product, title in good.items() if set(text.split()) & set(title)}


def precision(order: Callable[[str], list[str]]) -> float:
    return float(np.mean([[each in wanted(text) for each in order(text)[:10]] for text in QUERIES]))


def test_learning_to_rank_on_the_page(opensearch: OpenSearch) -> None:
    shop = on_the_page("OpenSearch, learning to rank", opensearch)
    for text in QUERIES * 8:
        shop["clicked"](*shop["search"](text), wanted(text))
    name = shop["publish"]()
    before = precision(lambda text: [hit["_id"] for hit in opensearch.search({"query": match(text)})])
    assert precision(lambda text: shop["search_in_opensearch"](text, name)) > before + 0.2
    shop["opensearch"].close()


def test_hybrid_search_on_the_page(opensearch: OpenSearch) -> None:
    shop = on_the_page("OpenSearch, hybrid search", opensearch)
    for text in QUERIES * 8:
        shop["clicked"](*shop["search"](text), wanted(text))
        if text == QUERIES[12]:
            shop["publish"]()  # later weights replace these
    shop["publish"]()
    before = precision(lambda text: [hit["_id"] for hit in opensearch.search({"query": match(text)})])
    assert precision(shop["search_in_opensearch"]) > before + 0.2
    shop["opensearch"].close()
