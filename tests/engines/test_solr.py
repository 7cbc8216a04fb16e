"""A real Solr with its learning-to-rank module: features out of it, a model into it, and its ranking is that of the model."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.engines.any_model import AnyModel
from tests.engines.running import HERE, Java, Refused, ask
from tests.engines.shop import N_PRODUCTS, QUERIES, learned_model, products
from tests.export import test_curves as curves
from tests.export import test_engines as lines

from duelrank.export import LinearModel, export
from duelrank.export.pinned import PinnedDocument, PinnedQuery, export_pinned
from duelrank.representation import Fixed, MinMax, Standard, Unscaled

pytestmark = pytest.mark.engines

FEATURES = ("titleMatch", "descriptionMatch", "price", "rating")
MATCHES = {"titleMatch": "{!dismax qf=title}${text}", "descriptionMatch": "{!dismax qf=description}${text}"}
SCALINGS = Fixed((MinMax(0.0, 6.5), Standard(1.5, 0.7), MinMax(2.0, 300.0), Unscaled()))
#: Documents of two queries; the second one finds nothing else, and has characters that XML writes in another way.
PINNED = {"red shoe": ["p007", "p123"], 'grün & "<teuer>"': ["p042"]}


class Core:
    """A core of Solr, over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, text: str, **parameters: object) -> list[dict]:
        """Return the products that have one of the words."""
        options = {"q": "{!dismax qf='title description' v=$text}", "text": text, "rows": N_PRODUCTS}
        return ask(f"{self.url}/query", **{**options, **parameters})["response"]["docs"]

    def features(self, text: str) -> dict[str, list[float]]:
        """Return the features of the products that match, by their ids."""
        found = {}
        for each in self.query(text, fl="id,[features efi.text=$text]"):
            pairs = dict(pair.split("=") for pair in each["[features]"].split(","))
            found[each["id"]] = [float(np.float32(pairs[name])) for name in FEATURES]
        return found

    def define(self, features: bytes) -> None:
        ask(f"{self.url}/schema/feature-store", features, "PUT")

    def upload(self, model: bytes) -> None:
        ask(f"{self.url}/schema/model-store", model, "PUT")

    def reranked(self, text: str, model: str, depth: int = N_PRODUCTS) -> dict[str, float]:
        """Return the scores of the products, best first."""
        rerank = f"{{!ltr model={model} reRankDocs={depth} efi.text=$text}}"
        return {each["id"]: each["score"] for each in self.query(text, rq=rerank, fl="id,score")}


@pytest.fixture(scope="module")
def core(java: Callable[[str], Java], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """A Solr with the products and the features."""
    folder = tmp_path_factory.mktemp("solr")
    shutil.copytree(HERE / "solr" / "home", folder / "home")
    chosen = [PinnedQuery(text, 9, [PinnedDocument(id, 9.0, 9.0, 1.0) for id in ids]) for text, ids in PINNED.items()]
    (folder / "home" / "products" / "conf" / "elevate.xml").write_text(export_pinned(chosen, "solr"), "utf-8")
    with java("solr").serve(folder, "Serve.java", folder / "home", options=(f"-Dsolr.log.dir={folder}",)) as server:
        found = Core(server.printed("listening at ") + "/products")
        ask(f"{found.url}/update", products(), commit="true")
        found.define(export(LinearModel("shop", 0, FEATURES, np.zeros(4)), "solr-features", rank_features=MATCHES))
        yield found


@pytest.fixture(scope="module")
def lists(core: Core) -> dict[str, dict[str, list[float]]]:
    """The features of the products of every query."""
    return {text: core.features(text) for text in QUERIES}


def arrays(lists: dict[str, dict[str, list[float]]]) -> dict[str, np.ndarray]:
    return {text: np.array(list(each.values())) for text, each in lists.items()}


def assert_solr_ranks_alike(core: Core, model: LinearModel, lists: dict, same_scores: Callable[..., None]) -> None:
    """For every query: the scores are those of the model but for rounding, and the order is that of the scores."""
    for text, features in lists.items():
        found = core.reranked(text, model.versioned_name)
        assert set(found) == set(features)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        same_scores(np.array([found[product] for product in features]), model, np.array(list(features.values())))


def test_the_features_are_those_of_the_products(lists: dict[str, dict[str, list[float]]]) -> None:
    values = {each["id"]: (each["price"], each.get("rating", 0.0)) for each in products()}
    assert min(map(len, lists.values())) > 50
    for features in lists.values():
        assert {product: tuple(row[2:]) for product, row in features.items()} == {
            product: values[product] for product in features
        }
        matches = np.array(list(features.values()))[:, :2]
        assert (matches >= 0.0).all()
        assert (matches.max(axis=1) > 0.0).all()
        assert len(np.unique(matches)) > 30


@pytest.mark.parametrize(
    ("name", "algorithm", "before"),
    [
        ("raw", "mgd-dsp", None),
        ("fixed", "mgd-dsp", SCALINGS),
        ("pdgd", "pdgd", SCALINGS),
    ],
)
def test_a_linear_model(core: Core, lists, name: str, algorithm: str, before: Fixed | None) -> None:
    model = learned_model(name, algorithm, arrays(lists), FEATURES, before)
    assert model.is_linear
    assert np.abs(model.weights).min() > 0.0
    core.upload(export(model, "solr"))
    assert_solr_ranks_alike(core, model, lists, lambda *args: lines.assert_same_scores(*args, lines.SINGLE))


def test_steps_are_exact(core: Core, lists) -> None:
    model = learned_model("steps", "steps >> mgd-dsp", arrays(lists), FEATURES)
    assert len(np.unique(model.weights)) > 10
    core.upload(export(model, "solr"))
    assert_solr_ranks_alike(core, model, lists, lambda *args: curves.assert_same_scores(*args, curves.SINGLE))


@pytest.mark.parametrize("max_error", [0.1, 0.001])
def test_curves_are_within_their_error(core: Core, lists, max_error: float) -> None:
    model = learned_model(f"curves-{max_error}", "curves >> mgd-dsp", arrays(lists), FEATURES)
    core.upload(export(model, "solr", max_error=max_error))
    more = len(FEATURES) * max_error
    assert_solr_ranks_alike(core, model, lists, lambda *args: curves.assert_same_scores(*args, curves.SINGLE, more))


def test_the_page_about_engines(core: Core) -> None:
    """The Python of docs/engines.md, with users who want cheap products that have their words in the title."""
    page = (HERE.parents[1] / "docs" / "engines.md").read_text()
    code = page.split("## Solr")[1].split("```python\n")[1].split("```")[0]
    shop: dict[str, Any] = {}
    ask(f"{core.url}/schema/feature-store/_DEFAULT_", method="DELETE")
    exec(code.replace("http://localhost:8983/solr/products", core.url), shop)
    titles = {each["id"]: each["title"].split() for each in products() if each["price"] < 40.0}
    for text in QUERIES * 4:
        wanted = {product for product, title in titles.items() if set(text.split()) & set(title)}
        shop["clicked"](*shop["search"](text), wanted)
    name = shop["publish"]()
    before, after = [], []
    for text in QUERIES:
        wanted = {product for product, title in titles.items() if set(text.split()) & set(title)}
        before.append(np.mean([each["id"] in wanted for each in core.query(text)[:10]]))
        after.append(np.mean([each in wanted for each in shop["search_in_solr"](text, name)[:10]]))
    shop["solr"].close()
    assert np.mean(after) > np.mean(before) + 0.2


# --- Numbers of all sizes -------------------------------------------------------------------------------------------

_versions = itertools.count(1)


@pytest.fixture(scope="module")
def value_by_value(core: Core) -> Callable[..., np.ndarray]:
    """What scores documents by features that come with the request: the model as a function of any values."""

    def score(model: LinearModel, documents: np.ndarray, **options: object) -> np.ndarray:
        model = replace(model, name="values", version=next(_versions))
        store = f"store{model.version}"
        places = [f"v{place}" for place in range(len(model.features))]
        values = {name: f"${{{place}}}" for name, place in zip(model.features, places, strict=True)}
        core.define(export(model, "solr-features", store=store, rank_features=values))
        core.upload(export(model, "solr", store=store, **options))
        found = []
        for row in documents.tolist():
            values = " ".join(f"efi.{place}='{value!r}'" for place, value in zip(places, row, strict=True))
            rerank = f"{{!ltr model={model.versioned_name} reRankDocs=1 {values}}}"
            (best,) = core.query("", q="id:p001", rq=rerank, fl="score")
            found.append(best["score"])
        return np.array(found)

    return score


class TestAnyModel(AnyModel):
    pass


# --- What Solr keeps and what it refuses ----------------------------------------------------------------------------


def test_models_outlive_a_reload(core: Core, lists) -> None:
    text, features = next(iter(lists.items()))
    model = LinearModel("kept.over-reloads", 12, FEATURES, [0.1, -0.2, 1e-5, 0.3], SCALINGS)
    core.upload(export(model, "solr"))
    ask(f"{core.url.removesuffix('/products')}/admin/cores", action="RELOAD", core="products")
    assert_solr_ranks_alike(core, model, {text: features}, lambda *args: lines.assert_same_scores(*args, lines.SINGLE))


def test_beyond_its_depth_the_query_ranks(core: Core) -> None:
    model = LinearModel("shallow", 1, FEATURES, [0.0, 0.0, -1.0, 0.0])
    core.upload(export(model, "solr"))
    before = core.query(QUERIES[0], fl="id,price,score")
    found = core.reranked(QUERIES[0], model.versioned_name, depth=20)
    best = sorted(before[:20], key=lambda each: each["price"])
    assert list(found) == [each["id"] for each in best + before[20:]]
    assert list(found.values())[20:] == [each["score"] for each in before[20:]]


def test_the_score_of_the_query_is_a_feature(core: Core) -> None:
    model = LinearModel("original", 1, ("bm25", "price"), [1.0, 1e-3])
    core.define(export(model, "solr-features", store="original", rank_features={"bm25": "score"}))
    core.upload(export(model, "solr", store="original"))
    text = QUERIES[0]
    shown = core.query(text, fl="id,score,price")
    documents = np.array([[each["score"], each["price"]] for each in shown])
    documents = documents.astype(np.float32).astype(np.float64)
    found = core.reranked(text, model.versioned_name)
    scores = np.array([found[each["id"]] for each in shown])
    lines.assert_same_scores(scores, model, documents, lines.SINGLE)


def test_a_number_that_the_request_lacks_is_an_error(core: Core) -> None:
    model = LinearModel("lonely", 1, ("age",), [1.0])
    core.define(export(model, "solr-features", store="lonely", rank_features={"age": "${age}"}))
    core.upload(export(model, "solr", store="lonely"))
    with pytest.raises(Refused, match="age"):
        core.query(QUERIES[0], rq="{!ltr model=lonely_000001}")


def test_a_name_that_exists_is_refused(core: Core) -> None:
    model = LinearModel("twice", 1, FEATURES, [1.0, 2.0, 3.0, 4.0])
    core.upload(export(model, "solr"))
    with pytest.raises(Refused, match="twice_000001") as refused:
        core.upload(export(model, "solr"))
    assert refused.value.status == 400


def test_a_feature_that_exists_is_refused(core: Core) -> None:
    with pytest.raises(Refused, match="price already contained in the store") as refused:
        core.define(export(LinearModel("again", 1, ("price",), [1.0]), "solr-features"))
    assert refused.value.status == 500


def test_a_feature_that_the_store_lacks_is_refused(core: Core) -> None:
    with pytest.raises(Refused, match="colour") as refused:
        core.upload(export(LinearModel("lacking", 1, ("price", "colour"), [1.0, 2.0]), "solr"))
    assert refused.value.status == 400


def test_pinned_documents_come_first(core: Core) -> None:
    def found(text: str) -> list[tuple[str, bool]]:
        asked = {"q": text, "defType": "edismax", "qf": "title", "fl": "id,[elevated]"}
        answer = ask(f"{core.url}/elevated", **asked)["response"]["docs"]
        return [(each["id"], each["[elevated]"]) for each in answer]

    for text, ids in PINNED.items():
        for asked in (text, text.upper()):
            pinned = [(id, True) for id in ids]
            assert found(asked)[: len(ids)] == pinned
            assert [each for each in found(asked) if each[1]] == pinned
    assert {pinned for _, pinned in found("blue shoe")} == {False}
