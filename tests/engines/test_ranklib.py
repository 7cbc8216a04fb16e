"""RankLib reads our files: the scores that it writes are those of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.engines.running import Java
from tests.engines.shop import learned_model
from tests.export import test_curves as curves
from tests.export import test_engines as lines

from duelrank.export import LinearModel, export
from duelrank.representation import Fixed, MinMax, Standard, Unscaled

pytestmark = pytest.mark.engines

FEATURES = ("match", 'text "quoted"', "price", "日本")
SCALINGS = Fixed((MinMax(0.0, 6.5), Standard(1.5, 0.7), MinMax(2.0, 300.0), Unscaled()))


@pytest.fixture(scope="module")
def lists() -> dict[str, np.ndarray]:
    """Queries whose documents have values that single precision holds, some of them missing (0)."""
    rng = np.random.default_rng(3)
    found = {}
    for number in range(20):
        values = rng.lognormal(0.0, 1.0, (20, 4)) * [1.0, 1.0, 50.0, -1.0] * (rng.random((20, 4)) < 0.9)
        found[f"q{number}"] = values.astype(np.float32).astype(np.float64)
    return found


@pytest.fixture(scope="module")  # where Maven fails, it is asked once
def ranklib(java: Callable[[str], Java]) -> Java:
    return java("ranklib")


@pytest.fixture
def scores(ranklib: Java, tmp_path: Path, lists: dict[str, np.ndarray]) -> Callable[..., dict]:
    """What scores documents with RankLib's own command line."""

    def score(model: bytes, lists: dict[str, np.ndarray] = lists) -> dict[str, np.ndarray]:
        rows = (
            f"0 qid:{query} " + " ".join(f"{number}:{value!r}" for number, value in enumerate(row, 1))
            for query, features in lists.items()
            for row in features.tolist()
        )
        (tmp_path / "documents.txt").write_text("\n".join(rows) + "\n")
        (tmp_path / "model.txt").write_bytes(model)
        files = {name: tmp_path / f"{name}.txt" for name in ("documents", "model", "scores")}
        ranklib.run(
            "ciir.umass.edu.eval.Evaluator",
            "-load", files["model"], "-rank", files["documents"], "-score", files["scores"],
        )  # fmt: skip
        found = [line.split("\t") for line in files["scores"].read_text().splitlines()]
        by_query = {query: [float(score) for own, _, score in found if own == query] for query in lists}
        return {query: np.array(each) for query, each in by_query.items()}

    return score


@pytest.mark.parametrize("before", [None, SCALINGS], ids=["raw", "fixed"])
def test_coordinate_ascent(scores, lists, before: Fixed | None) -> None:
    model = learned_model("shop", "mgd-dsp", lists, FEATURES, before)
    assert np.abs(model.weights).min() > 0.0
    text = export(model, "ranklib")
    assert text.startswith(b"## Coordinate Ascent")
    for query, found in scores(text).items():
        lines.assert_same_up_to_a_constant(found, model, lists[query], lines.DOUBLE)


@pytest.mark.parametrize("before", [None, SCALINGS], ids=["raw", "fixed"])
@pytest.mark.parametrize("offset", [0.0, 3.25])
def test_linear_regression(scores, lists, before: Fixed | None, offset: float) -> None:
    model = learned_model("shop", "mgd-dsp", lists, FEATURES, before)
    text = export(model, "ranklib", offset=offset)
    assert text.startswith(b"## Linear Regression")
    for query, found in scores(text).items():
        lines.assert_same_scores(found - offset, model, lists[query], lines.DOUBLE)


@pytest.mark.parametrize("offset", [None, 3.25])
def test_steps(scores, lists, offset: float | None) -> None:
    model = learned_model("shop", "steps >> mgd-dsp", lists, FEATURES)
    text = export(model, "ranklib", offset=offset)
    assert text.startswith(b"## LambdaMART")
    for query, found in scores(text).items():
        more = 0.0 if offset is None else (len(FEATURES) + 3) * curves.SINGLE * offset
        curves.assert_same_scores(found - (offset or 0.0), model, lists[query], curves.SINGLE, more)


@pytest.mark.parametrize("max_error", [0.1, 0.001])
def test_curves_are_within_their_error(scores, lists, max_error: float) -> None:
    model = learned_model("shop", "curves >> mgd-dsp", lists, FEATURES)
    for query, found in scores(export(model, "ranklib", max_error=max_error)).items():
        curves.assert_same_scores(found, model, lists[query], curves.SINGLE, len(FEATURES) * max_error)


@pytest.mark.parametrize("exponent", [-44, -8, 0, 30])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_thresholds_of_any_size(scores, exponent: int, sign: float) -> None:
    def engine(model: LinearModel, documents: np.ndarray) -> np.ndarray:
        return scores(export(model, "ranklib"), {"q": documents})["q"]

    curves.test_thresholds_of_any_size(engine, exponent, sign)


def test_a_model_that_has_learned_nothing(scores) -> None:
    for content in (
        LinearModel("shop", 0, FEATURES, np.zeros(4)),
        LinearModel("shop", 0, FEATURES, np.zeros(4), Fixed((MinMax(3.0, 3.0),) * 4)),
    ):
        assert all((found == 0.0).all() for found in scores(export(content, "ranklib")).values())
