"""Likely mistakes either work, where their meaning is clear, or raise an error of ours that says what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import duelrank
from duelrank import (
    MGD,
    Algorithm,
    Dataset,
    Feedback,
    Learner,
    Query,
    RunSpec,
    Synthetic,
    offline_performance,
    parse,
    simulate,
)
from duelrank.core.errors import DuelrankError
from duelrank.core.grammar import listed
from duelrank.core.validation import explained
from duelrank.experiments import compare, reproduce, run_all

FEATURES = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.3]])
QUERY = Query("shoes", FEATURES)
SMALL = "synthetic(n_queries=10)"
FRAME = pd.DataFrame({"qid": [1, 1, 2, 2], "grade": [0, 1, 0, 1], "b": [0.1, 0.2, 0.3, 0.4], "a": [1.0, 2.0, 3.0, 4.0]})


def learner(recipe: str = "mgd") -> Learner:
    return Learner(recipe, 2, seed=1, length=3)


class TestWhatIsClearWorks:
    @pytest.mark.parametrize("table", [FEATURES, FEATURES.tolist(), pd.DataFrame(FEATURES)])
    def test_a_table_is_a_query(self, table):
        one, other = learner(), learner()
        assert np.array_equal(one.rank(table).ranking, other.rank(QUERY).ranking)
        assert np.array_equal(one.best(table), other.best(QUERY))
        assert np.array_equal(one.score(table), other.score(QUERY))

    def test_columns_of_a_frame_are_found_by_name(self):
        named = Learner("mgd", feature_names=["a", "b"])
        assert np.array_equal(named.rank(FRAME).query.features, FRAME[["a", "b"]])

    @pytest.mark.parametrize("clicks", [[0, 1, 0], [False, True, False], pd.Series([0, 1, 0])])
    def test_flags_are_feedback(self, clicks):
        one, other = learner("pdgd"), learner("pdgd")
        one.learn(one.rank(QUERY), clicks)
        other.learn(other.rank(QUERY), Feedback([False, True, False]))
        assert one.state == other.state
        one.backfill([(FEATURES, [0, 1, 2], clicks)])
        other.backfill([(QUERY, [0, 1, 2], Feedback([False, True, False]))])
        assert one.state == other.state

    def test_parameters_of_inner_parts(self):
        assert MGD(n_candidates=np.int64(49)) == parse("MGD(n_candidates=49)") == parse("mgd(n_candidates=49)")
        assert MGD(learning_rate=np.float32(0.5)).step.learning_rate == 0.5

    def test_several_names_in_one_text(self):
        results = duelrank.compare("mgd,dbgd", SMALL, users="perfect,navigational", runs=1, impressions=3, workers=1)
        found = {(row["algorithm"], row["user"]) for row in results.rows()}
        assert found == {(a, user) for a in ("mgd", "dbgd") for user in ("perfect", "navigational")}
        assert listed(MGD()) == [MGD()]
        table = results.table()
        assert results.to_latex() == table.to_latex()
        assert results.to_markdown() == table.to_markdown() == str(table)
        assert "mgd" in table.to_csv()
        assert table.to_html() == table._repr_html_()

    def test_one_run(self):
        assert len(list(run_all(RunSpec("mgd", SMALL, "perfect", impressions=3), workers=1))) == 1

    def test_modules_are_there(self):
        assert duelrank.users.Cascade.__name__ == "Cascade"


MISTAKES = {
    "rank(text)": (lambda: learner().rank("shoes"), "expected a Query, or its features as a table"),
    "rank(document)": (lambda: learner().rank([0.1, 0.9]), "expected a Query, or its features as a table"),
    "rank(frame)": (lambda: Learner("mgd", feature_names=["a", "c"]).rank(FRAME), "no column is called 'c'"),
    "rank(table) per query": (lambda: learner("cascade-ucb1").rank(FEATURES), "give Query"),
    "rank(k=)": (lambda: learner().rank(QUERY, k=3), "no parameter is called 'k'; known: length, query"),
    "learn(positions)": (lambda: learner().learn(learner().rank(QUERY), [2]), "each of the 3 shown positions"),
    "learn(too few)": (lambda: learner().learn(learner().rank(QUERY), [0, 1]), "each of the 3 shown positions"),
    "learn(swapped)": (lambda: learner().learn([0, 1, 0], learner().rank(QUERY)), "the impression that rank"),
    "learn()": (lambda: learner().learn(learner().rank(QUERY)), "missing a required argument: 'feedback'"),
    "backfill(query)": (lambda: learner().backfill([QUERY]), "must be (query, ranking, feedback)"),
    "restore(path)": (lambda: learner().restore("model.npz"), "snapshot must be Snapshot, got str: 'model.npz'"),
    "from_snapshot(bytes)": (lambda: Learner.from_snapshot(b"PK"), "snapshot must be Snapshot, got bytes"),
    "Learner(num_features=)": (lambda: Learner("mgd", num_features=3), "did you mean n_features"),
    "Query(swapped)": (lambda: Query(FEATURES, "shoes"), "id of a query must be a text"),
    "Query(features)": (lambda: Query(FEATURES), "missing a required argument: 'features'"),
    "MGD(typo=)": (lambda: MGD(n_candidate=4), "did you mean n_candidates"),
    "Algorithm()": (lambda: Algorithm(), "does not define explore"),
    "RunSpec(algorithm)": (lambda: RunSpec("mgd"), "needs a value for dataset and user"),
    "simulate(n_impressions=)": (
        lambda: simulate("mgd", SMALL, "perfect", n_impressions=3),
        "did you mean impressions",
    ),
    "from_dataframe(qid=)": (lambda: Dataset.from_dataframe(FRAME, label="grade", qid="qid"), "known: features, frame"),
    "from_dataframe(array)": (lambda: Dataset.from_dataframe(FEATURES, label="a", query="b"), "from_arrays"),
    "from_dataframe(split=)": (
        lambda: Dataset.from_dataframe(FRAME, label="grade", query="qid", split=0.8),
        "split must be three shares",
    ),
    "from_letor(None)": (lambda: Dataset.from_letor(None), "path must be str | Path, got NoneType"),
    "offline_performance(learner)": (
        lambda: offline_performance(learner(), Synthetic(), "nDCG@10", None),
        "weights must be Weights, got Learner",
    ),
    "offline_performance(data set)": (
        lambda: offline_performance(np.ones(46), Synthetic(), "nDCG@10", None),
        "split must be Judged",
    ),
    "compare(datasets=)": (lambda: compare("mgd", datasets=SMALL), "did you mean dataset"),
    "compare(None)": (lambda: compare(None), "expected a list of names"),
    "compare(out=3)": (lambda: compare("mgd", SMALL, out=3), "must be str | Path, got int"),
    "reproduce(suite)": (lambda: reproduce("quick"), "missing a required argument: 'out'"),
    "run_all(texts)": (lambda: list(run_all(["mgd"])), "expected a list of RunSpec"),
    "register(int)": (lambda: duelrank.register(int), "only classes of parts"),
    "alias(number)": (lambda: duelrank.alias("three", 3), "stands for a part"),
    "spell(text)": (lambda: duelrank.spell("mgd"), "part must be Part, got str"),
    "duelrank.tune": (lambda: duelrank.tune, "write `from duelrank.experiments import tune`"),
    "duelrank.Lerner": (lambda: duelrank.Lerner, "did you mean Learner"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_not_clear_is_explained(mistake):
    attempt, sentence = MISTAKES[mistake]
    with pytest.raises(DuelrankError) as caught:
        attempt()
    assert sentence in str(caught.value)


def test_a_missing_name_is_an_attribute_error():
    assert not hasattr(duelrank, "nothing_of_that_name")


def test_errors_inside_of_a_call_that_fits_pass():
    @explained
    def broken(number: float, names: list[str]) -> None:
        raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        broken(np.int64(1), ["a"])
