"""Measures the CPU time of a representation: its share of an impression, ranked and learned from, with curves of four pieces."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import thread_time

import numpy as np

from duelrank import Feedback, Learner, Query
from duelrank.algorithms import Represented

ROUNDS, IMPRESSIONS, WARM_UP = 7, 300, 100
RECIPES = ["mgd-dsp", "wmgd-dsp", "pdgd"]
REPRESENTATIONS = [
    "query-scaled",
    "query-scaled >> ramps",
    "query-scaled >> curves",
    "curves",
    "query-scaled >> steps",
]


def main() -> None:
    """Print a table: microseconds of an impression, and of its representation (both calls), at 46 features."""
    print("| recipe | documents | an impression | its representation | share |\n|---|---|---|---|---|")
    random = np.random.default_rng(0)
    for n_documents in (20, 100):
        tables = [random.random((n_documents, 46)) for _ in range(50)]
        for name in RECIPES:
            for representation in REPRESENTATIONS:
                whole, part = _times(f"{representation} >> {name}", tables)
                print(
                    f"| {representation} >> {name} | {n_documents} | {whole:.0f} µs | {part:.1f} µs | {part / whole:.0%} |"
                )


def _times(recipe: str, tables: list[np.ndarray]) -> tuple[float, float]:
    learner = Learner(recipe, n_features=46, seed=1)
    queries = [Query(str(number), table) for number, table in enumerate(tables)]
    clicks = Feedback(np.arange(10) == 2)
    _learn(learner, queries, clicks, WARM_UP)
    whole = median(_timed(lambda: _learn(learner, queries, clicks, IMPRESSIONS)) for _ in range(ROUNDS))
    part = median(_timed(lambda: _represent(learner, queries, IMPRESSIONS)) for _ in range(ROUNDS))
    return 1e6 * whole / IMPRESSIONS, 1e6 * part / IMPRESSIONS


def _learn(learner: Learner, queries: list[Query], clicks: Feedback, number: int) -> None:
    for index in range(number):
        learner.learn(learner.rank(queries[index % len(queries)]), clicks)


def _represent(learner: Learner, queries: list[Query], number: int) -> None:
    """Run the work of the representation in an impression: once for the ranking, once for learning."""
    algorithm = learner.algorithm
    assert isinstance(algorithm, Represented)
    representation = algorithm.representation
    memory = learner.state.memory.get("representation", {})
    stream = np.array([1, 2, 3, 4], np.uint64)
    for index in range(number):
        features = queries[index % len(queries)].features
        representation.apply(features, memory)
        representation.observe(memory, features, 4 + 8 * index, stream)


def _timed(work: Callable[[], None]) -> float:
    started = thread_time()
    work()
    return thread_time() - started


if __name__ == "__main__":
    main()
