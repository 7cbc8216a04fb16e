"""Every export, read back by a reader written from the engine's rules alone, ranks as the model does.

The readers below know the formats from the engines' documentation and sources, and share no code with the exporters. They
compute as the engines do: Solr, Elasticsearch-LTR and OpenSearch LTR in single precision, RankLib and Vespa in double.
"""

import json
import re
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duelrank.export import FORMATS, Fixed, LinearModel, MinMax, NoNormalisation, PerQuery, Standard, export

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
    st.none(),
    st.builds(lambda low, span: MinMax(low, low + span), numbers, spans),
    st.builds(lambda low: MinMax(low, low), numbers),
    st.builds(Standard, numbers, spans),
    st.builds(lambda mean: Standard(mean, 0.0), numbers),
)
names = st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8))
name_lists = st.lists(names.filter(str.strip), min_size=1, max_size=6, unique=True).map(tuple)


@st.composite
def models(draw, normalisation=("none", "fixed")):
    features = draw(name_lists)
    n = len(features)
    kind = draw(st.sampled_from(normalisation))
    made = {"none": NoNormalisation(), "per_query": PerQuery()}.get(kind)
    if made is None:
        made = Fixed(draw(st.lists(scalings, min_size=n, max_size=n)))
    weights = np.array(draw(st.lists(numbers, min_size=n, max_size=n)))
    return LinearModel("shop", draw(st.integers(0, 10**7)), features, weights, made)


@st.composite
def cases(draw, normalisation=("none", "fixed")):
    """A model, and documents whose values single precision holds exactly, some of them 0 or all alike."""
    model = draw(models(normalisation))
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
    if isinstance(model.normalisation, PerQuery):
        bounds = [MinMax(low, high) for low, high in zip(documents.min(axis=0), documents.max(axis=0), strict=True)]
        size = sizes(documents, bounds)
        size[:, [each.minimum == each.maximum for each in bounds]] = 1.0  # Vespa gives a constant feature 0.5
    elif isinstance(model.normalisation, Fixed):
        size = sizes(documents, model.normalisation.scalings)
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


class Solr:
    """`LinearModel` with its three normalisers, as Solr loads and computes them."""

    def __init__(self, body, feature_store):
        self.model = json.loads(body)
        assert set(self.model) <= {"store", "name", "class", "features", "params"}
        assert self.model["class"] == "org.apache.solr.ltr.model.LinearModel"
        assert re.fullmatch(r"\w+_\d{6,}", self.model["name"])
        self.names = [feature["name"] for feature in self.model["features"]]
        assert len(set(self.names)) == len(self.names)
        assert set(self.names) <= set(feature_store), "a feature that is not in the store"
        weights = self.model["params"]["weights"]
        assert set(self.names) <= set(weights), "lacks weight(s)"
        self.weights = [np.float32(weights[name]) for name in self.names]
        self.norms = [self.normaliser(feature.get("norm")) for feature in self.model["features"]]

    @staticmethod
    def normaliser(norm):
        if norm is None:
            return lambda value: value
        params = {name: np.float32(text) for name, text in norm["params"].items()}
        assert all(isinstance(text, str) for text in norm["params"].values())
        if norm["class"] == "org.apache.solr.ltr.norm.MinMaxNormalizer":
            assert set(params) == {"min", "max"}
            delta = params["max"] - params["min"]
            assert delta != 0, "MinMax Normalizer delta must not be zero"
            return lambda value: (value - params["min"]) / delta
        assert norm["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
        assert set(params) == {"avg", "std"}
        assert params["std"] > 0, "standard deviation must be positive"
        return lambda value: (value - params["avg"]) / params["std"]

    def score(self, document):
        total = np.float32(0)
        for name, weight, norm in zip(self.names, self.weights, self.norms, strict=True):
            total = total + norm(np.float32(document[name])) * weight
        return total


def by_name(model, documents):
    return [dict(zip(model.features, row, strict=True)) for row in documents.tolist()]


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


class Elasticsearch:
    """`model/linear` with its normalisers, as the plug-in loads and computes it for a feature set."""

    def __init__(self, body, feature_set):
        content = json.loads(body)
        assert set(content) == {"model"}
        self.name = content["model"]["name"]
        definition = content["model"]["model"]
        assert set(content["model"]) == {"name", "model"}
        assert set(definition) <= {"type", "definition", "feature_normalizers"}
        assert definition["type"] == "model/linear"
        assert isinstance(definition["definition"], str)
        weights = json.loads(definition["definition"])
        assert set(weights) <= set(feature_set), "Feature is unknown"
        assert all(type(weight) is float for weight in weights.values())
        self.order = list(feature_set)
        self.weights = [np.float32(weights.get(name, 0.0)) for name in self.order]
        self.norms = {name: self.normaliser(each) for name, each in definition["feature_normalizers"].items()}
        assert set(self.norms) <= set(feature_set)

    @staticmethod
    def normaliser(given):
        ((kind, numbers),) = given.items()
        if kind == "min_max":
            low, high = np.float32(numbers["minimum"]), np.float32(numbers["maximum"])
            assert low < high, "Minimum must be smaller than maximum"
            return lambda value: (value - low) / (high - low)
        assert kind == "standard"
        mean, deviation = np.float32(numbers["mean"]), np.float32(numbers["standard_deviation"])
        assert deviation > 0
        return lambda value: (value - mean) / deviation

    def score(self, document):
        total = np.float32(0)
        for name, weight in zip(self.order, self.weights, strict=True):
            value = np.float32(document.get(name, 0.0))  # a missing one is 0 before it is normalised
            total = total + weight * self.norms.get(name, lambda value: value)(value)
        return total


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
        lambda weights, each: LinearModel("shop", 1, features, np.array(weights), Fixed(each)),
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
        for name, each in zip(model.features, model.normalisation.scalings, strict=True):
            candidates = [each.minimum, each.maximum, rng.uniform(each.minimum, each.maximum), 0.0]
            documents[-1][name] = candidates[rng.integers(4)]
    worst = {"one": 1.0}
    for name, weight, each in zip(model.features, model.weights, model.normalisation.scalings, strict=True):
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


class RankLib:
    """`Coordinate Ascent` and `Linear Regression`, as RankLib's own loaders read them."""

    def __init__(self, text):
        lines = text.decode().splitlines()
        self.ranker = {"## Coordinate Ascent": "ca", "## Linear Regression": "lr"}[lines[0]]
        (line,) = [line for line in lines if line.strip() and not line.strip().startswith("##")]
        assert "#" not in line
        pairs = [pair.split(":") for pair in line.split(" ")]
        self.weights = {int(key): float(value) for key, value in pairs}
        assert len(self.weights) == len(pairs)
        self.bias = self.weights.pop(0) if self.ranker == "lr" else 0.0
        assert list(self.weights) == list(range(1, len(self.weights) + 1))

    def score(self, values):
        """Of values in the order of the feature set, which RankLib counts from 1."""
        return self.bias + sum(weight * values[number - 1] for number, weight in self.weights.items())


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

IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
TOKEN = re.compile(
    rf"\s*(?:(\d+\.\d+)|({IDENTIFIER}\((?:[^()]|\([^()]*\))*\)(?:\.{IDENTIFIER})?|{IDENTIFIER})|([-+*/()]))"
)


class Vespa:
    """A rank profile, read as Vespa's schema grammar has it (numbers have no exponent), computed in double."""

    def __init__(self, text, columns):
        self.columns = columns  # rank feature -> values of the documents
        assert text.startswith(b"rank-profile "), "a file of its own may not begin with a line break"
        lines = [re.sub(r"#.*", "", line).strip() for line in text.decode().splitlines()]
        lines = [line for line in lines if line]
        opening = re.fullmatch(rf"rank-profile ({IDENTIFIER}) inherits default {{", lines[0])
        self.name = opening[1]
        assert lines[-1] == "}"
        self.variables, self.functions, self.rerank_count = {}, {}, None
        rest = lines[1:-1]
        while rest:
            rest = self.element(rest)

    def element(self, lines):
        """Take in one block, and return the lines after it."""
        depths = np.cumsum([line.endswith("{") - (line == "}") for line in lines])
        number = int(np.flatnonzero(depths == 0)[0])
        head, body = lines[0].removesuffix("{").strip(), lines[1:number]
        if head in ("inputs", "constants"):
            kind = {"inputs": "query", "constants": "constant"}[head]
            for line in body:
                found = re.fullmatch(rf"({kind}\({IDENTIFIER}\)) double: (-?\d+\.\d+)", line)
                assert found[1] not in self.variables, "declared twice"
                self.variables[found[1]] = float(found[2])
        elif head.startswith("function "):
            name = re.fullmatch(rf"function ({IDENTIFIER})\(\)", head)[1]
            assert name not in self.functions
            (self.functions[name],) = [line.removeprefix("expression:") for line in body]
        elif head == "match-features":
            self.logged = body
        else:
            self.phase = head
            if body[0].startswith("rerank-count:"):
                self.rerank_count = int(body.pop(0).split(":")[1])
            assert (body[0], body[-1]) == ("expression {", "}")
            self.expression = " ".join(body[1:-1])
        return lines[number + 1 :]

    def scores(self):
        n = len(next(iter(self.columns.values())))
        return self.evaluate(self.expression) + np.zeros(n)

    def evaluate(self, text):
        tokens, position = [], 0
        while text[position:].strip():
            found = TOKEN.match(text, position)
            assert found, text[position:]
            tokens.append(found)
            position = found.end()
        value = self.sum(tokens)
        assert not tokens
        return value

    def sum(self, tokens):
        value = self.product(tokens)
        while tokens and tokens[0][3] in ("+", "-"):
            sign = 1.0 if tokens.pop(0)[3] == "+" else -1.0
            value = value + sign * self.product(tokens)
        return value

    def product(self, tokens):
        value = self.atom(tokens)
        while tokens and tokens[0][3] in ("*", "/"):
            value = value * self.atom(tokens) if tokens.pop(0)[3] == "*" else value / self.atom(tokens)
        return value

    def atom(self, tokens):
        number, reference, symbol = tokens.pop(0).groups()
        if number:
            return float(number)
        if reference:
            return self.refer(reference)
        assert symbol == "("
        value = self.sum(tokens)
        assert tokens.pop(0)[3] == ")"
        return value

    def refer(self, reference):
        if reference in self.functions:
            return self.evaluate(self.functions[reference])
        if reference.startswith("normalize_linear("):
            assert self.phase == "global-phase"
            argument = reference.removeprefix("normalize_linear(").removesuffix(")")
            assert argument in self.functions or argument in self.columns, "needs a feature or a function"
            return self.normalise(self.refer(argument))
        return self.variables[reference] if reference in self.variables else self.columns[reference]

    @staticmethod
    def normalise(values):
        low, high = values.min(), values.max()
        return 0.5 + (1.0 / (high - low)) * (values - 0.5 * (low + high)) if high > low else 0.5 + 0.0 * values


def in_vespa(model, documents):
    """Give each feature a rank feature: itself where it is one, else an attribute, every other one by an expression."""
    rank_features, columns = {}, {}
    for number, name in enumerate(model.features):
        if name == "bm25(title)":
            columns[name] = documents[:, number]
        elif number % 2:
            rank_features[name] = f"2.0 * attribute(h{number})"
            columns[f"attribute(h{number})"] = 0.5 * documents[:, number]
        else:
            rank_features[name] = f"attribute(a{number})"
            columns[f"attribute(a{number})"] = documents[:, number]
    return rank_features, columns


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


@given(cases(["per_query"]))
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


@given(cases(["none", "fixed", "per_query"]))
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
    model = LinearModel("shop", 7, ("a", "é"), [1.0, 2.0], PerQuery())
    about = onnxruntime.InferenceSession(export(model, "onnx")).get_modelmeta()
    assert about.producer_name == "duelrank"
    assert about.graph_name == "shop_000007"
    assert json.loads(about.custom_metadata_map["features"]) == ["a", "é"]
    assert (about.custom_metadata_map["name"], about.custom_metadata_map["version"]) == ("shop", "7")
    assert json.loads(about.custom_metadata_map["normalisation"]) == {"kind": "per_query"}


# --- All ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@given(models(["none", "fixed"]))
def test_the_same_model_gives_the_same_bytes(format, model):
    options = {"allow_negative": True} if format in ("elasticsearch", "opensearch") else {}
    if format == "vespa":
        options = {"rank_features": dict.fromkeys(model.features, "attribute(a)")}
    assert export(model, format, **options) == export(model, format, **options)
