"""What documents without a price cost: a missing price as 0, as a neutral value, and as a number.

Users like documents that are cheap and match the query; the price of some documents is not known to the ranker. Prints the mean
usefulness of the first five positions of the last lists, and how often a document without a price is in them.

    python studies/missing_values.py
"""

from __future__ import annotations

import argparse

import numpy as np

from duelrank import Feedback, Learner

LENGTH, TOP, LAST = 10, 5, 500
AVERAGE = 47.5


def run(recipe: str, filling: float, share: float, lists: int, seed: int) -> tuple[float, float]:
    """Return the mean usefulness of the top of the last lists, and the share of documents without a price there."""
    learner, draws = Learner(recipe, n_features=2, seed=seed, length=LENGTH), np.random.default_rng(seed)
    useful, unpriced = [], []
    for _ in range(lists):
        match, price = draws.random(20), draws.uniform(5.0, 90.0, 20)
        worth = 0.5 * match + 0.5 * (90.0 - price) / 85.0
        hidden = draws.random(20) < share
        shown = learner.rank(np.column_stack([match, np.where(hidden, filling, price)]))
        learner.learn(shown, Feedback(draws.random(LENGTH) < np.clip(2.0 * worth[shown.ranking] - 1.0, 0.0, 1.0)))
        best = shown.ranking[:TOP]
        useful.append(worth[best].mean())
        unpriced.append(hidden[best].mean())
    return float(np.mean(useful[-LAST:])), float(np.mean(unpriced[-LAST:]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    print("| a missing price | recipe | usefulness of the top 5 | without a price in the top 5 |\n|---|---|---|---|")
    for base in ("query-scaled >> wmgd-dsp", "curves >> wmgd-dsp", "curves >> thompson-pairs"):
        for name, recipe, filling in (
            ("counts as 0", base, 0.0),
            ("counts as the average price", base, AVERAGE),
            ("is neutral", f"missing >> {base}", float("nan")),
        ):
            found = np.array([run(recipe, filling, 0.3, given.lists, seed) for seed in range(1, given.seeds + 1)])
            spread = found[:, 0].std(ddof=1) if given.seeds > 1 else 0.0
            print(
                f"| {name} | `{base}` | {found[:, 0].mean():.3f} ± {spread:.3f} | {found[:, 1].mean():.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
