"""The scikit-learn interface: lists from a log, parameters, clones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="needs the extra sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from duelrank import Feedback, Learner, Query, parse
from duelrank.adapters.sklearn import ClickRanker
from duelrank.core.errors import InvalidValue, ShapeMismatch


@pytest.fixture
def log() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    features = rng.random((60, 3))
    return {"X": features, "y": features[:, 1] > 0.6, "qid": np.repeat(np.arange(12), 5)}


def test_it_is_learning_list_after_list(log):
    learner = Learner("mgd-dsp", 3, seed=4)
    for start in range(0, 60, 5):
        query = Query(str(start // 5), log["X"][start : start + 5])
        learner.learn(learner.observe(query, np.arange(5)), Feedback(log["y"][start : start + 5]))
    ranker = ClickRanker("mgd-dsp", seed=4).fit(**log)
    assert ranker.learner_.state == learner.state
    np.testing.assert_allclose(ranker.predict(log["X"]), log["X"] @ learner.weights, rtol=1e-12)


def test_partial_fit_goes_on_and_fit_starts_anew(log):
    first, second = ({name: value[rows] for name, value in log.items()} for rows in (slice(30), slice(30, 60)))
    whole = ClickRanker().fit(**log)
    assert ClickRanker().partial_fit(**first).partial_fit(**second).coef_.tolist() == whole.coef_.tolist()
    assert ClickRanker().fit(**first).fit(**log).coef_.tolist() == whole.coef_.tolist()


def test_it_learns_what_is_clicked(log):
    assert np.argmax(ClickRanker().fit(**log).coef_) == 1


def test_without_query_ids_all_rows_are_one_list(log):
    assert ClickRanker().fit(log["X"][:5], log["y"][:5]).learner_.state.step == 1


def test_parameters_and_clones(log):
    ranker = ClickRanker(parse("pdgd(learning_rate=0.05)"), seed=3)
    assert ranker.get_params() == {"algorithm": parse("pdgd(learning_rate=0.05)"), "seed": 3}
    copy = clone(ranker.fit(**log))
    assert not hasattr(copy, "learner_")
    assert copy.fit(**log).coef_.tolist() == ranker.coef_.tolist()
    assert copy.set_params(algorithm="mgd").fit(**log).coef_.tolist() != ranker.coef_.tolist()


def test_names_come_from_a_data_frame(log):
    ranker = ClickRanker().fit(pd.DataFrame(log["X"], columns=["a", "b", "c"]), log["y"], log["qid"])
    assert ranker.feature_names_in_.tolist() == ["a", "b", "c"]
    assert (ranker.n_features_in_, ranker.learner_.feature_names) == (3, ("a", "b", "c"))
    assert not hasattr(ranker.fit(**log), "feature_names_in_")


def test_what_is_wrong_is_refused_and_nothing_learned(log):
    ranker = ClickRanker().fit(**log)
    before = ranker.learner_.state
    wrong = [
        ({"y": log["y"][:-1]}, ShapeMismatch, "X has 60 rows"),
        ({"qid": log["qid"][:-1]}, ShapeMismatch, "X has 60 rows"),
        ({"y": np.r_[np.zeros(59), 2]}, InvalidValue, "clicks must be True or False"),
        ({"X": np.full((60, 3), np.nan)}, InvalidValue, "finite"),
        ({"X": np.ones((60, 4))}, ShapeMismatch, "the ranker has 3 features"),
    ]
    for change, error, match in wrong:
        with pytest.raises(error, match=match):
            ranker.partial_fit(**log | change)
        assert ranker.learner_.state is before
    with pytest.raises(ShapeMismatch, match="X has 2"):
        ranker.predict(np.ones((1, 2)))
    with pytest.raises(NotFittedError):
        ClickRanker().predict(log["X"])


def test_with_a_representation_documents_are_scored_within_their_query(log):
    raw = {**log, "X": log["X"] * [1.0, 1000.0, 0.01]}
    ranker = ClickRanker("query-scaled >> ramps(pieces=2) >> pdgd").fit(**raw)
    scores = ranker.predict(raw["X"], raw["qid"])
    for start in range(0, 60, 5):
        rows = slice(start, start + 5)
        assert scores[rows].tolist() == ranker.learner_.score(Query("q", raw["X"][rows])).tolist()
    assert scores.tolist() != ranker.predict(raw["X"]).tolist()
    with pytest.raises(ShapeMismatch, match="qid has shape"):
        ranker.predict(raw["X"], raw["qid"][:-1])
