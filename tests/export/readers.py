"""Readers of the engines' formats, written from the engines' documentation and sources alone; no code of the exporters.

They compute as the engines do: Solr, Elasticsearch-LTR, OpenSearch LTR and RankLib's trees in single precision, RankLib's linear
rankers and Vespa in double.
"""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np


def by_name(model, documents):
    return [dict(zip(model.features, row, strict=True)) for row in documents.tolist()]


class Solr:
    """`LinearModel` and `MultipleAdditiveTreesModel` with their normalisers, as Solr loads and computes them."""

    def __init__(self, body, feature_store):
        self.model = json.loads(body)
        assert set(self.model) <= {"store", "name", "class", "features", "params"}
        assert re.fullmatch(r"\w+_\d{6,}", self.model["name"])
        self.names = [feature["name"] for feature in self.model["features"]]
        assert len(set(self.names)) == len(self.names)
        assert set(self.names) <= set(feature_store), "a feature that is not in the store"
        self.norms = [self.normaliser(feature.get("norm")) for feature in self.model["features"]]

        self.kind = self.model["class"].removeprefix("org.apache.solr.ltr.model.")
        if self.kind == "LinearModel":
            weights = self.model["params"]["weights"]
            assert set(self.names) <= set(weights), "lacks weight(s)"
            self.weights = [np.float32(weights[name]) for name in self.names]
        else:
            assert self.kind == "MultipleAdditiveTreesModel"
            assert all(set(tree) == {"weight", "root"} for tree in self.model["params"]["trees"])

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
        pairs = zip(self.names, self.norms, strict=True)
        with np.errstate(over="ignore"):
            values = {name: norm(np.float32(document[name])) for name, norm in pairs}
        total = np.float32(0)
        if self.kind == "LinearModel":
            for name, weight in zip(self.names, self.weights, strict=True):
                total = total + values[name] * weight
            return total
        for tree in self.model["params"]["trees"]:
            total = total + np.float32(tree["weight"]) * self.descend(tree["root"], values)
        return total

    def descend(self, node, values):
        while "feature" in node:
            assert set(node) == {"feature", "threshold", "left", "right"}
            threshold = np.float32(node["threshold"]) + np.float32(1e-6)  # Solr's slack
            node = node["left"] if values[node["feature"]] <= threshold else node["right"]
        assert set(node) == {"value"}
        return np.float32(node["value"])


class Elasticsearch:
    """`model/linear` with its normalisers and `model/xgboost+json`, as the plug-in computes them for a feature set."""

    def __init__(self, body, feature_set):
        content = json.loads(body)
        assert set(content) == {"model"}
        self.name = content["model"]["name"]
        definition = content["model"]["model"]
        assert set(content["model"]) == {"name", "model"}
        assert set(definition) <= {"type", "definition", "feature_normalizers"}
        assert isinstance(definition["definition"], str)
        self.order, self.kind = list(feature_set), definition["type"]
        content = json.loads(definition["definition"])
        if self.kind == "model/xgboost+json":
            assert "feature_normalizers" not in definition
            self.trees = content
            for tree in self.trees:
                self.check(tree)
            return
        assert self.kind == "model/linear"
        assert set(content) <= set(feature_set), "Feature is unknown"
        assert all(type(weight) is float for weight in content.values())
        self.weights = [np.float32(content.get(name, 0.0)) for name in self.order]
        self.norms = {name: self.normaliser(each) for name, each in definition["feature_normalizers"].items()}
        assert set(self.norms) <= set(feature_set)

    def check(self, node):
        if "leaf" in node:
            assert set(node) == {"nodeid", "leaf"}
            return
        assert set(node) == {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children"}
        assert node["split"] in self.order, "Unknown feature"
        assert [node["yes"], node["no"]] == [child["nodeid"] for child in node["children"]]
        assert node["missing"] in (node["yes"], node["no"])
        for child in node["children"]:
            self.check(child)

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
        if self.kind == "model/xgboost+json":
            for tree in self.trees:
                total = total + self.descend(tree, document)
            return total
        for name, weight in zip(self.order, self.weights, strict=True):
            value = np.float32(document.get(name, 0.0))  # a missing one is 0 before it is normalised
            total = total + weight * self.norms.get(name, lambda value: value)(value)
        return total

    @staticmethod
    def descend(node, document):
        while "leaf" not in node:
            value = document.get(node["split"])
            if value is None:  # missing: newer versions follow the way that the split names
                way = node["missing"]
            else:
                way = node["yes"] if np.float32(node["split_condition"]) > np.float32(value) else node["no"]
            (node,) = [child for child in node["children"] if child["nodeid"] == way]
        return np.float32(node["leaf"])


class RankLib:
    """`Coordinate Ascent`, `Linear Regression` and `LambdaMART`, as RankLib's own loaders read them."""

    def __init__(self, text):
        lines = text.decode().splitlines()
        self.ranker = {"## Coordinate Ascent": "ca", "## Linear Regression": "lr", "## LambdaMART": "trees"}[lines[0]]
        self.about = dict(
            line.removeprefix("## ").split(" = ", 1) for line in lines if " = " in line and line[0] == "#"
        )
        if self.ranker == "trees":
            text = "".join(line.strip() for line in lines if not line.startswith("##"))  # so it loads an ensemble
            self.trees = [(float(tree.attrib["weight"]), tree[0]) for tree in ET.fromstring(text).iter("tree")]
            return
        (line,) = [line for line in lines if line.strip() and not line.strip().startswith("##")]
        assert "#" not in line
        pairs = [pair.split(":") for pair in line.split(" ")]
        self.weights = {int(key): float(value) for key, value in pairs}
        assert len(self.weights) == len(pairs)
        self.bias = self.weights.pop(0) if self.ranker == "lr" else 0.0
        assert list(self.weights) == list(range(1, len(self.weights) + 1))

    def score(self, values):
        """Of values in the order of the feature set, which RankLib counts from 1."""
        if self.ranker == "trees":
            total = np.float32(0)
            for weight, root in self.trees:
                total = np.float32(total + float(self.descend(root, values)) * weight)
            return total
        return self.bias + sum(weight * values[number - 1] for number, weight in self.weights.items())

    @staticmethod
    def descend(node, values):
        while node[0].tag == "feature":
            feature, threshold, left, right = node
            assert (left.attrib["pos"], right.attrib["pos"]) == ("left", "right")
            value = np.float32(values[int(feature.text) - 1])
            node = left if value <= np.float32(threshold.text) else right
        (output,) = node
        assert output.tag == "output"
        return np.float32(output.text)


IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
TOKEN = re.compile(
    rf"\s*(?:(\d+\.\d+)|((?:min|max|if)(?=\s*\()|{IDENTIFIER}\((?:[^()]|\([^()]*\))*\)(?:\.{IDENTIFIER})?|{IDENTIFIER})|([-+*/(),>]))"
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
        if reference in ("min", "max", "if"):
            return self.call(reference, tokens)
        if reference:
            return self.refer(reference)
        if symbol == "-":
            return -self.atom(tokens)
        assert symbol == "("
        value = self.sum(tokens)
        assert tokens.pop(0)[3] == ")"
        return value

    def call(self, function, tokens):
        """Of min(a, b), max(a, b) and if (a > b, c, d)."""
        values = []
        for opening in "(>,," if function == "if" else "(,":
            assert tokens.pop(0)[3] == opening
            values.append(self.sum(tokens))
        assert tokens.pop(0)[3] == ")"
        if function == "if":
            left, right, then, otherwise = values
            return np.where(np.asarray(left) > right, then, otherwise)
        return {"min": np.minimum, "max": np.maximum}[function](*values)

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
