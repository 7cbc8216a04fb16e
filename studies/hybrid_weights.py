"""Compares recipes with the best weights of a hybrid search, by lists shown: the search of ``examples/hybrid_search.py``.

Prints Markdown tables: recipes, and a third score that says nothing or the wrong thing. Weights below 0 count as 0, as at an
export. Takes about ten minutes on one core.
"""

from __future__ import annotations

import argparse
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from duelrank import Feedback, Learner, parse
from duelrank.adapters.hybrid import RECIPE
from duelrank.core.randomness import stream
from duelrank.datasets import Split
from duelrank.metrics import nDCG
from duelrank.playground.search import read_library
from duelrank.users import User

SEARCH: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "hybrid_search.py"))
USERS = ("perfect", "navigational", "informational")
LOOKS = (200, 1_000, 5_000)
UNBOUNDED = "query-scaled >> wmgd-dsp(step=Step(learning_rate=0.05, slow_down=50.0))"
RECIPES = {
    "`RECIPE`": RECIPE,
    "without `NonNegative`": UNBOUNDED,
    "`wmgd-dsp`": "query-scaled >> wmgd-dsp",
    "`pdgd`": "query-scaled >> pdgd",
    "`mgd-dsp`": "query-scaled >> mgd-dsp",
}


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--queries", type=int, default=500)
    given = options.parse_args()
    index = SEARCH["Index"](read_library().documents)
    train, test = (SEARCH["judged"](index, given.queries, seed) for seed in (11, 12))
    best = max(SEARCH["quality"](np.array([share, 1.0 - share]), test) for share in SEARCH["GRID"])
    lists = " | ".join(f"{number:,}" for number in LOOKS)
    start = SEARCH["quality"](np.array([1.0, 0.0]), train)
    print(f"Below the best of the grid ({best:.4f}) in percent, mean (worst) of {given.seeds} runs")
    print(f"Lists of the start, to compare the first 500 lists with: {start:.4f}\n")
    print(f"| recipe | user | {lists} | first 500 lists shown |\n|---|---|{'---|' * len(LOOKS)}---|")
    for name, recipe in RECIPES.items():
        for user in USERS:
            print(row(f"{name} | {user}", recipe, train, test, user, best, given.seeds), flush=True)
    print(
        f"\n| third score | weights below 0 | user | {lists} | first 500 lists shown |\n|---|---|---|{'---|' * len(LOOKS)}---|"
    )
    for kind in ("noise", "harmful"):
        train_more, test_more = with_third(train, kind, 0), with_third(test, kind, 1)
        for name, recipe in {"never": RECIPE, "set to 0 at the end": UNBOUNDED}.items():
            for user in USERS:
                print(
                    row(f"{kind} | {name} | {user}", recipe, train_more, test_more, user, best, given.seeds), flush=True
                )


def row(name: str, recipe: str, train: Split, test: Split, user: str, best: float, n_seeds: int) -> str:
    """Return a row of a table."""
    runs = [list(run(recipe, train, test, user, seed)) for seed in range(n_seeds)]
    shown = np.mean([values.pop() for values in runs])
    below = 100.0 * (1.0 - np.array(runs) / best)
    numbers = " | ".join(f"{each.mean():.2f} ({each.max():.2f})" for each in below.T)
    return f"| {name} | {numbers} | {shown:.3f} |"


def run(recipe: str, train: Split, test: Split, user: str, seed: int) -> Iterator[float]:
    """Learn; yield nDCG@10 on other queries after each number of lists, then that of the first 500 lists as they were shown."""
    learner = Learner(recipe, weights=[1.0, *np.zeros(train.features.shape[1] - 1)], seed=seed)
    clicking = parse(user, User).for_grades(3)
    metric, shown_first = nDCG @ 10, []
    asked = np.random.default_rng(seed).integers(len(train), size=LOOKS[-1])
    for number, place in enumerate(asked.tolist(), 1):
        impression = learner.rank(train.query(place))
        labels = train.judgements(place)
        shown = labels[impression.ranking]
        learner.learn(impression, Feedback(clicking.click(shown, stream(seed, user, number)).clicks))
        if number <= 500:
            shown_first.append(metric.of(shown, labels))
        if number in LOOKS:
            yield SEARCH["quality"](np.maximum(learner.weights, 0.0), test)
    yield float(np.mean(shown_first))


def with_third(split: Split, kind: str, seed: int) -> Split:
    """Return queries with a third score: drawn at random, and halved for relevant documents where it is harmful."""
    drawn = np.random.default_rng(seed).random(len(split.labels))
    third = np.where(split.labels > 0, 0.5 * drawn, drawn) if kind == "harmful" else drawn
    ids = [str(number) for number in range(len(split))]
    return Split(np.column_stack([split.features, third]), split.labels, split.offsets, ids)


if __name__ == "__main__":
    main()
