"""Models that are not linear: the ONNX graph computes their scores, all other formats refuse."""

import numpy as np
import onnxruntime
import pytest
from typer.testing import CliRunner

from duelrank import Learner, parse
from duelrank.cli import app
from duelrank.core.errors import InvalidValue, ShapeMismatch
from duelrank.export import FORMATS, LinearModel, Model, ScorerModel, export
from duelrank.representation import Fixed, MinMax, Representation, Standard, Unscaled
from duelrank.testing import play

FIXED = Fixed((MinMax(0.0, 9.0), Standard(1.0, 2.0), Unscaled(), MinMax(4.0, 4.0)))
RECIPES = ["mlp-pdgd", "mlp-pdgd(hidden=3, layers=3)", "query-scaled >> mlp-pdgd", "query-ranks >> mlp-pdgd"]


def learned(recipe: str, lists: int = 50) -> Learner:
    return play(parse(recipe), lists)


def scored(model: ScorerModel, documents: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(export(model, "onnx"))
    (found,) = session.run(None, {"features": documents.astype(np.float32)})
    assert found.shape == (len(documents), 1)
    return found[:, 0]


@pytest.mark.parametrize("recipe", RECIPES)
def test_onnx_computes_the_scores_of_the_learner(recipe: str) -> None:
    learner = learned(recipe)
    model = ScorerModel.from_snapshot(learner.snapshot(), "shop")
    documents = np.random.default_rng(1).random((30, 20)).astype(np.float32).astype(np.float64)
    expected = learner.score(documents)
    assert np.ptp(expected) > 0.01
    np.testing.assert_array_equal(model.score(documents), expected)
    np.testing.assert_allclose(scored(model, documents), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("before", [FIXED, "fixed >> query-scaled"])
def test_onnx_scales_first_and_a_constant_feature_is_0(before: Representation | str) -> None:
    representation = FIXED if isinstance(before, Fixed) else parse(f"{FIXED!r} >> query-scaled")
    scorer = parse("MLP(hidden=5)")
    weights = np.random.default_rng(2).normal(size=scorer.n_weights(4))
    model = ScorerModel("shop", 1, ("a", "b", "c", "d"), weights, representation, scorer=scorer)
    documents = np.random.default_rng(3).integers(0, 9, (20, 4)).astype(np.float64)
    np.testing.assert_allclose(scored(model, documents), model.score(documents), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("format", sorted(set(FORMATS) - {"onnx"}))
def test_other_formats_refuse(format: str) -> None:
    model = Model.from_snapshot(learned("mlp-pdgd").snapshot(), "shop")
    with pytest.raises(InvalidValue, match=f"{format} cannot represent 'shop', which is not linear; onnx can"):
        export(model, format)


def test_a_snapshot_becomes_the_kind_of_model_that_it_is() -> None:
    linear, other = learned("mgd").snapshot(), learned("mlp-pdgd").snapshot()
    assert isinstance(Model.from_snapshot(linear), LinearModel)
    assert isinstance(Model.from_snapshot(other), ScorerModel)
    assert Model.from_snapshot(other) == ScorerModel.from_snapshot(other) != Model.from_snapshot(linear)
    with pytest.raises(InvalidValue, match=r"is not a LinearModel; Model.from_snapshot accepts both"):
        LinearModel.from_snapshot(other)


def test_a_model_without_a_scorer_says_so() -> None:
    with pytest.raises(InvalidValue, match="'shop' has no scorer, so it cannot be exported"):
        export(ScorerModel("shop", 1, ("a",), np.ones(7)), "onnx")


def test_the_number_of_weights_is_checked() -> None:
    with pytest.raises(ShapeMismatch, match="1 features need 6 weights"):
        ScorerModel("shop", 1, ("a",), np.ones(7), scorer=parse("MLP(hidden=2)"))


def test_the_command_exports_a_snapshot(tmp_path) -> None:
    file, out = tmp_path / "learner.npz", tmp_path / "model.onnx"
    file.write_bytes(learned("mlp-pdgd").snapshot().to_bytes())
    done = CliRunner().invoke(app, ["export", str(file), "--format", "onnx", "--out", str(out), "--name", "shop"])
    assert done.exit_code == 0, done.output
    assert onnxruntime.InferenceSession(out.read_bytes()).get_modelmeta().custom_metadata_map["name"] == "shop"
    refused = CliRunner().invoke(app, ["export", str(file), "--format", "solr"])
    assert refused.exit_code != 0
