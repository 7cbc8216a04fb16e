"""Models of documents that lack values: the same scores in JSON and ONNX; other engines take a number, or refuse."""

import numpy as np
import onnxruntime
import pytest

from duelrank import Feedback, Learner
from duelrank.core.errors import InvalidValue
from duelrank.export import LinearModel, Model, export, supported_formats
from duelrank.representation import Fixed, MinMax, Missing, QueryScaled, Raw, Unscaled
from duelrank.representation.base import with_missing

NAN = np.nan
VALUES = ("neutral", 35.0, "never")
DOCUMENTS = np.array([[1.0, 20.0, 3.0], [NAN, NAN, 1.0], [3.0, 90.0, 2.0], [8.0, NAN, 2.0]])


def taught(recipe):
    """Return the model of a learner that has seen documents with missing values."""
    learner, draws = Learner(recipe, n_features=3, seed=1), np.random.default_rng(0)
    for _ in range(64):
        table = np.where(draws.random((8, 3)) < [0.3, 0.3, 0.0], NAN, draws.lognormal(2.0, 1.0, (8, 3)))
        shown = learner.rank(table)
        learner.learn(shown, Feedback(np.nan_to_num(table[shown.ranking, 0]) > 8.0))
    return Model.from_snapshot(learner.snapshot(), "shop", ("bm25", "price", "age"))


RECIPES = [
    "{} >> mgd",
    "{} >> query-scaled >> mgd",
    "{} >> query-ranks >> mgd",
    "{} >> curves >> mgd",
    "{} >> steps >> mgd",
]


@pytest.mark.parametrize("recipe", [*RECIPES, "{} >> query-scaled >> curves >> mgd", "{} >> query-scaled >> mlp-pdgd"])
@pytest.mark.parametrize("missing", ["missing", f"missing(values={VALUES})"])
def test_onnx_and_json_compute_the_scores_of_the_learner(recipe, missing):
    model = taught(recipe.format(missing))
    session = onnxruntime.InferenceSession(export(model, "onnx"))
    for documents in (DOCUMENTS, DOCUMENTS[1:2], np.nan_to_num(DOCUMENTS)):
        [found] = session.run(None, {"features": documents.astype(np.float32)})
        np.testing.assert_allclose(found.ravel(), model.score(documents), rtol=1e-4, atol=1e-4)
    if isinstance(model, LinearModel):
        again = LinearModel.from_json(export(model, "json"))
        assert again == model
        np.testing.assert_array_equal(again.score(DOCUMENTS), model.score(DOCUMENTS))


@pytest.mark.parametrize("format", ["solr", "elasticsearch", "opensearch", "ranklib", "vespa"])
def test_engines_without_averages_need_numbers(format):
    neutral = LinearModel("shop", 7, ("bm25", "price", "age"), [0.5, -0.25, 0.1], Missing(VALUES))
    with pytest.raises(InvalidValue, match="cannot compute a neutral value"):
        export(neutral, format)
    assert format in supported_formats(Missing(VALUES))[1]
    given = LinearModel("shop", 7, ("bm25", "price", "age"), [0.5, -0.25, 0.1], Missing((1.0, 35.0, "never")))
    features = {"rank_features": {name: f"attribute({name})" for name in given.features}} if format == "vespa" else {}
    options = {"allow_negative": True} if format in ("elasticsearch", "opensearch") else {}
    text = export(given, format, **features, **options).decode()
    assert ("if (isNan(attribute(price)), 35.0, attribute(price))" in text) == (format == "vespa")
    assert format in supported_formats(given.representation)[0]


def test_missing_values_come_before_fixed_scalings():
    scaled = with_missing(Missing(VALUES), Fixed((Unscaled(), MinMax(0.0, 70.0), Unscaled())))
    model = LinearModel("shop", 7, ("bm25", "price", "age"), [0.0, 1.0, 0.0], scaled)
    assert model.score(DOCUMENTS)[1] == 0.5
    [found] = onnxruntime.InferenceSession(export(model, "onnx")).run(None, {"features": DOCUMENTS.astype(np.float32)})
    assert found[1, 0] == 0.5
    assert supported_formats(with_missing(Missing(), QueryScaled()))[0] == ("json", "onnx")
    assert supported_formats(with_missing(Missing(), Raw()))[0] == ("json", "onnx")
