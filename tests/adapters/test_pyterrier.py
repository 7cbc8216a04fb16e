"""A learner in a PyTerrier pipeline."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

from duelrank import Feedback, Learner, Query
from duelrank.core.errors import InvalidRecipe, MissingExtra, ShapeMismatch

pt = pytest.importorskip("pyterrier", reason="needs the extra pyterrier")
pd = pytest.importorskip("pandas")


@pytest.fixture
def candidates():
    rng = np.random.default_rng(2)
    qids = ["b", "a", "b", "a", "a", "b"]
    features = list(10.0 * rng.random((6, 3)))
    names = [f"d{number}" for number in range(6)]
    return pd.DataFrame({"qid": qids, "query": qids, "docno": names, "score": 0.0, "features": features})


def order(results, qid) -> list[str]:
    return results[results["qid"] == qid].sort_values("rank")["docno"].tolist()


def test_documents_are_ranked_by_the_current_weights(candidates):
    learner = Learner("pdgd", weights=[1.0, -0.5, 0.0])
    pipeline = pt.Transformer.from_df(candidates) >> learner.to_pyterrier()
    for _ in range(2):
        results = pipeline(candidates[["qid", "query"]].drop_duplicates())
        for qid, group in candidates.groupby("qid"):
            query = Query(qid, np.stack(group["features"].tolist()))
            assert order(results, qid) == group["docno"].iloc[learner.best(query)].tolist()
        learner.learn(learner.observe(query, np.arange(3)), Feedback([False, False, True]))
    assert learner.state.updates == 2


def test_features_are_scaled_where_asked(candidates):
    rows = candidates["qid"] == "a"
    raw = np.stack(candidates.loc[rows, "features"].tolist())
    scaled = (raw - raw.min(axis=0)) / (raw.max(axis=0) - raw.min(axis=0))
    weights = np.array([1.0, 2.0, -1.0])
    found = Learner("mgd", weights=weights).to_pyterrier(scale="query")(candidates)
    np.testing.assert_allclose(found.loc[rows, "score"], scaled @ weights, rtol=1e-12)
    found = Learner("mgd", weights=weights).to_pyterrier()(candidates)
    np.testing.assert_allclose(found.loc[rows, "score"], raw @ weights, rtol=1e-12)


def test_a_representation_in_the_recipe_is_applied(candidates):
    learner = Learner("query-scaled >> mgd", weights=[1.0, 2.0, -1.0])
    scaled = Learner("mgd", weights=[1.0, 2.0, -1.0]).to_pyterrier(scale="query")(candidates)
    assert learner.to_pyterrier()(candidates).equals(scaled)
    assert learner.to_pyterrier(scale="query")(candidates).equals(scaled)  # scaled values stay as they are


def test_learned_curves_score_documents(candidates):
    learner = Learner("ramps(pieces=2) >> pdgd", 3)
    for number, (qid, group) in enumerate(16 * list(candidates.groupby("qid"))):
        query = Query(qid, np.stack(group["features"].tolist()))
        learner.learn(learner.observe(query, np.arange(3)), Feedback([number % 2 == 0, False, True]))
    assert len(learner.weights) == 6
    found = learner.to_pyterrier()(candidates)
    for qid, group in candidates.groupby("qid"):
        query = Query(qid, np.stack(group["features"].tolist()))
        assert order(found, qid) == group["docno"].iloc[learner.best(query)].tolist()


def test_an_experiment_runs(candidates):
    pipeline = pt.Transformer.from_df(candidates) >> Learner("mgd", weights=[0.0, 0.0, 1.0]).to_pyterrier()
    third = candidates["features"].map(lambda row: row[2])
    best = candidates.loc[third.groupby(candidates["qid"]).idxmax()]
    topics = candidates[["qid", "query"]].drop_duplicates()
    table = pt.Experiment([pipeline], topics, best[["qid", "docno"]].assign(label=1), ["recip_rank"], names=["ours"])
    assert table["recip_rank"].tolist() == [1.0]


def test_what_does_not_fit_is_refused(candidates):
    with pytest.raises(ShapeMismatch, match="the ranker has 2 features, query 'a' has 3"):
        Learner("mgd", 2).to_pyterrier()(candidates)
    with pytest.raises(InvalidRecipe, match="a model for each query"):
        Learner("cascade-ucb1", 2).to_pyterrier()


def test_without_pyterrier_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyterrier", None)
    monkeypatch.delitem(sys.modules, "duelrank.adapters.pyterrier", raising=False)
    with pytest.raises(MissingExtra, match=r"duelrank\[pyterrier\]"):
        Learner("mgd", 2).to_pyterrier()
    with pytest.raises(MissingExtra, match=r"duelrank\[pyterrier\]"):
        importlib.import_module("duelrank.adapters.pyterrier")
