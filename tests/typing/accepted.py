"""What users may write under ``mypy --strict``: this file is checked by ``make types``, and never run."""

from __future__ import annotations

import numpy as np

from duelrank import MGD, Dataset, Feedback, Learner, Query, Record, RunSpec, parse, simulate
from duelrank.algorithms import Algorithm
from duelrank.client import AsyncClient, Client, FeedbackEvent, RankAnswer, RankerInfo
from duelrank.core.types import Clicks, Features
from duelrank.datasets import Fold, Split
from duelrank.experiments import Grid
from duelrank.testing.checks import check_algorithm


def values() -> tuple[Features, Clicks]:
    """Plain lists are taken, arrays are kept."""
    query = Query("shoes", [[0.1, 0.9], [1.0, 0.0]])
    Query("shoes", np.ones((2, 3)))
    feedback = Feedback([True, False], examined=2)
    Feedback(np.array([1, 0]), weights=[10, 0])
    return query.features, feedback.clicks


def text_for_parts() -> Record:
    """The text of a part is taken where the part is."""
    spec = RunSpec("mgd", "synthetic", "perfect", metric="nDCG@5")
    algorithm: Algorithm = spec.algorithm
    Grid(["mgd", MGD()], "synthetic", ("perfect",), runs=1)
    check_algorithm("mgd")
    Learner("mgd-dsp", n_features=3)
    simulate(spec, progress=print)
    return simulate(algorithm, parse("synthetic", Dataset), "navigational", seed=3, impressions=10)


def learning() -> None:
    """Weights and names come as lists or by name; lists of others are observed."""
    Learner("pdgd", weights=[0.5, 1], feature_names=["a", "b"])
    learner = Learner("pdgd", weights={"a": 0.5, "b": 1})
    learner.learn(learner.observe(Query("shoes", [[0.1, 0.9]]), [0]), Feedback([True]))
    learner.to_pyterrier(scale="query")


def data() -> Fold:
    """Own data comes as lists, arrays or frames."""
    split = Split([[0.5]], [1], [0, 1], ["q"])
    Fold(split, split, split, 2, popularity=[1.0])
    Dataset.from_arrays([[0.5], [0.7]], [0, 1], ["a", "b"], split=["train", "test"])
    return Dataset.from_arrays(np.ones((3, 2)), np.zeros(3), np.arange(3), split=(1, 1, 1)).fold()


async def service() -> RankAnswer:
    """Both clients have the same methods; those of the second are awaited."""
    with Client("http://127.0.0.1:8000") as client:
        made: RankerInfo = client.create_ranker("shop", "mgd-dsp", ["bm25"], start={"weights": {"bm25": 1.0}}, guard={})
        shown: RankAnswer = client.rank(made.name, (["d1"], np.ones((1, 1))), length=5)
        client.feedback("shop", FeedbackEvent(shown.impression_id, clicks=shown.ids[:1], close=True))
        exported: bytes = client.export("shop", "vespa", rank_features={"bm25": "bm25(title)"})
        client.change_ranker("shop", guard=None, lenght=len(exported))  # type: ignore[call-arg]
    async with AsyncClient("http://127.0.0.1:8000", retries=0) as other:
        return await other.rank("shop", {"d1": [1, 2], "d2": [0.5, 1.0], "d3": {"bm25": 1.0}})
