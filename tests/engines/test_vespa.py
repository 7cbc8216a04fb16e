"""Vespa's own code: it compiles a schema with our rank profile as a deployment does, and its scores are those of the model.

Everything but the content node, which is written in C++: the first phase is computed by Vespa's evaluator in Java.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engines.running import Java
from tests.engines.shop import learned_model
from tests.export import test_curves as curves
from tests.export import test_engines as lines
from tests.export.readers import in_vespa

from duelrank.export import LinearModel, export
from duelrank.representation import Fixed, MinMax, QueryScaled, Standard, Unscaled

pytestmark = pytest.mark.engines

FEATURES = ("bm25(title)", "bm25(description)", "price", "rating")
RANK_FEATURES = {"price": "attribute(price)", "rating": "if (isNan(attribute(rating)) == 1, 3.0, attribute(rating))"}
SCALINGS = Fixed((MinMax(0.0, 6.5), Standard(1.5, 0.7), MinMax(2.0, 300.0), Unscaled()))


class Refused(Exception):
    """Vespa does not take a schema."""


class Vespa:
    """A process that compiles schemas and ranks hits."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process

    def rank(self, profile: bytes, columns: Mapping[str, np.ndarray], **inputs: float) -> tuple[list[int], np.ndarray]:
        """Return the order of the hits and their scores.

        Parameters
        ----------
        profile
            What was exported.
        columns
            The values of each rank feature.
        inputs
            Weights of the request, by the names after ``w_``.
        """
        text = profile.decode()
        request = {
            "schema": schema(text),
            "profile": re.match(r"rank-profile (\w+)", text)[1],
            "inputs": {f"query(w_{name})": value for name, value in inputs.items()},
            "hits": [dict(zip(columns, row, strict=True)) for row in np.column_stack([*columns.values()]).tolist()],
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"] + "\n" + text)
        return answer["order"], np.array(answer["scores"])


def schema(profile: str) -> str:
    """A schema with the profile in it and the fields that it reads."""
    texts = sorted({"title", *re.findall(r"bm25\((\w+)\)", profile)})
    numbers = sorted(set(re.findall(r"attribute\((\w+)\)", profile)))
    fields = [f"field {name} type string {{\n indexing: index\n index: enable-bm25\n }}" for name in texts]
    fields += [f"field {name} type double {{\n indexing: attribute\n }}" for name in numbers]
    return "\n".join(["schema product {", "document product {", *fields, "}", profile, "}"])


@pytest.fixture(scope="module")
def vespa(java: Callable[[str], Java], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vespa]:
    with (
        (tmp_path_factory.mktemp("vespa") / "log").open("w") as log,
        subprocess.Popen(
            java("vespa").command("Rank.java"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        yield Vespa(process)
        process.stdin.close()


@pytest.fixture(scope="module")
def lists() -> dict[str, np.ndarray]:
    """What match-features return for some queries."""
    rng = np.random.default_rng(5)
    return {f"query {number}": rng.gamma(2.0, [2.0, 1.0, 40.0, 1.5], (40, 4)) for number in range(20)}


def assert_vespa_ranks_alike(vespa: Vespa, model: LinearModel, lists, same_scores: Callable[..., None]) -> None:
    profile = export(model, "vespa", rank_features=RANK_FEATURES)
    for documents in lists.values():
        columns = ("bm25(title)", "bm25(description)", "attribute(price)", "attribute(rating)")
        order, scores = vespa.rank(profile, dict(zip(columns, documents.T, strict=True)))
        assert sorted(order) == list(range(len(documents)))
        assert scores[order].tolist() == sorted(scores, reverse=True)
        same_scores(scores, model, documents)


@pytest.mark.parametrize(
    ("algorithm", "before", "same"),
    [
        ("mgd-dsp", None, lines.assert_same_scores),
        ("pdgd", SCALINGS, lines.assert_same_scores),
        ("query-scaled >> mgd-dsp", None, lines.assert_same_up_to_a_constant),
        ("steps >> mgd-dsp", None, curves.assert_same_scores),
        ("ramps >> mgd-dsp", None, curves.assert_same_scores),
        ("curves >> mgd-dsp", None, curves.assert_same_scores),
        ("query-scaled >> ramps >> mgd-dsp", None, curves.assert_same_scores),
    ],
)
def test_what_was_learned(vespa: Vespa, lists, algorithm: str, before: Fixed | None, same: Callable[..., None]) -> None:
    model = learned_model("learned", algorithm, lists, FEATURES, before)
    assert len(np.unique(model.weights)) > 3
    assert_vespa_ranks_alike(vespa, model, lists, lambda *args: same(*args, lines.DOUBLE))


few = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
WEIGHTS = st.sampled_from(["inputs", "constants"])


@few
@given(case=lines.cases(), weights=WEIGHTS)
def test_any_linear_model(vespa: Vespa, case, weights: str) -> None:
    """Names with quotes, blanks and brackets; features that were constant; scalings of all kinds."""
    model, documents = case
    rank_features, columns = in_vespa(model, documents)
    _, scores = vespa.rank(export(model, "vespa", rank_features=rank_features, weights=weights), columns)
    lines.assert_same_scores(scores, model, documents, lines.DOUBLE)


@few
@given(case=lines.cases(["query-scaled"]), weights=WEIGHTS)
def test_any_scaling_within_a_query(vespa: Vespa, case, weights: str) -> None:
    model, documents = case
    rank_features, columns = in_vespa(model, documents)
    _, scores = vespa.rank(export(model, "vespa", rank_features=rank_features, weights=weights), columns)
    lines.assert_same_up_to_a_constant(scores, model, documents, lines.DOUBLE)


@few
@given(case=curves.cases(first=("none", "fixed", "query-scaled")), weights=WEIGHTS)
def test_any_curves(vespa: Vespa, case, weights: str) -> None:
    model, documents = case
    rank_features, columns = in_vespa(model, documents)
    _, scores = vespa.rank(export(model, "vespa", rank_features=rank_features, weights=weights), columns)
    curves.assert_same_scores(scores, model, documents, curves.DOUBLE)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_request_brings_weights_of_its_own(vespa: Vespa, scaled: bool) -> None:
    model = LinearModel(
        "shop", 1, ("price", "rating"), [1.0, -2.0], QueryScaled() if scaled else Fixed((Unscaled(),) * 2)
    )
    profile = export(model, "vespa", rank_features={"price": "attribute(price)", "rating": "attribute(rating)"})
    columns = {"attribute(price)": np.array([1.0, 0.0, 0.5]), "attribute(rating)": np.array([0.0, 1.0, 0.75])}
    order, scores = vespa.rank(profile, columns)
    assert (order, scores.tolist()) == ([0, 2, 1], [1.0, -2.0, -1.0])
    order, scores = vespa.rank(profile, columns, rating=4.0)
    assert (order, scores.tolist()) == ([1, 2, 0], [1.0, 4.0, 3.5])


def test_a_feature_that_no_field_has_is_refused(vespa: Vespa) -> None:
    profile = export(LinearModel("shop", 1, ("price",), [1.0]), "vespa", rank_features={"price": "attribute(price)"})
    with pytest.raises(Refused, match="colour"):
        vespa.rank(
            profile.replace(b"attribute(price)", b"if (attribute(price) > colour, 1, 0)"),
            {"attribute(price)": np.ones(1)},
        )
