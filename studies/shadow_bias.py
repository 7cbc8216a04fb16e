"""Measures what a shadow learns from lists in the order of production, when users look at the top first.

By default two features are equally useful, four are noise, and production sorts by the first of the useful ones. A learner that
only watches should give both the same weight. With ``--dataset`` production sorts by the single feature with the best nDCG on the
training queries. Weights are shown after scaling them to length 1; nDCG@10 is of the learned ranker on other queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank import Learner, Query
from duelrank.core.grammar import as_part
from duelrank.core.randomness import stream
from duelrank.datasets import Dataset, Split
from duelrank.metrics import offline_performance
from duelrank.users import User

N_DOCUMENTS, N_FEATURES, LENGTH, METRIC = 20, 6, 10, "nDCG@10"
#: The first sees the whole list; "decay 1" and "decay 2" see position r with probability 1 / r and 1 / r²; two more scan it.
USERS = {
    "perfect": "perfect",
    "decay 1": "pbm(like=navigational)",
    "decay 2": "pbm(like=navigational, decay=2)",
    "navigational": "navigational",
    "informational": "informational",
}
CORRECTED = "pdgd(observed=DependentClick(forgetting=1.0))"
ALGORITHMS = ("mgd-dsp", "dbgd-dsp", "wmgd-dsp", "pairrank", "pdgd", CORRECTED)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """Queries to learn from and to judge by, and the feature that production sorts by."""

    train: Split
    test: Split
    n_grades: int
    sorted_by: int

    def production(self) -> Floats:
        """Return the weights of production."""
        weights: Floats = np.eye(self.train.n_features)[self.sorted_by]
        return weights

    def ndcg(self, weights: Floats) -> float:
        """Return the quality of a ranker; zero weights are a random order."""
        return offline_performance(np.ascontiguousarray(weights), self.test, METRIC, stream(1, "evaluation"))


def two_features(seed: int = 1) -> World:
    """Make queries whose documents are graded 0, 1 or 2 by the sum of the first two features and noise."""
    rng = np.random.default_rng(seed)

    def split(n: int) -> Split:
        features = rng.random((n * N_DOCUMENTS, N_FEATURES))
        hidden = features[:, :2].sum(axis=1) + rng.normal(0.0, 0.1, len(features))
        offsets = np.arange(0, len(features) + 1, N_DOCUMENTS)
        return Split(features, np.digitize(hidden, (1.1, 1.5)), offsets, [f"q{number}" for number in range(n)])

    return World(split(3000), split(500), 3, 0)


def of_dataset(name: str) -> World:
    """Take a fold of a data set; production sorts by its best single feature."""
    fold = as_part(name, Dataset).fold(1)
    alone = [offline_performance(row, fold.train, METRIC, stream(1, "alone")) for row in np.eye(fold.n_features)]
    return World(fold.train, fold.test, fold.n_grades, int(np.argmax(alone)))


def swapped(share: float) -> Callable[[Ints, np.random.Generator], Ints]:
    """Return what swaps neighbours in a share of the lists, each pair with probability ½."""

    def order(ranking: Ints, rng: np.random.Generator) -> Ints:
        shown = ranking.copy()
        for upper in range(int(rng.integers(2)), len(shown) - 1, 2):
            if rng.random() < 0.5 * share:
                shown[[upper, upper + 1]] = shown[[upper + 1, upper]]
        return shown

    return order


def learned(world: World, algorithm: str, user: str, lists: int, seed: int, shadow: bool, swaps: float) -> Floats:
    """Return the weights after some lists: those of production, or the learner's own, which starts as production."""
    rng, clicks, order = np.random.default_rng(seed), stream(seed, "user"), swapped(swaps)
    chosen = as_part(user, User).for_grades(world.n_grades)
    start = None if shadow else world.production()
    learner = Learner(algorithm, world.train.n_features, seed, LENGTH, weights=start)
    for index in rng.integers(len(world.train), size=lists).tolist():
        query, labels = world.train.query(index), world.train.judgements(index)
        impression = learner.observe(query, order(sort(query, world.sorted_by), rng)) if shadow else learner.rank(query)
        learner.learn(impression, chosen.click(labels[impression.ranking], clicks))
    return learner.weights


def sort(query: Query, feature: int) -> Ints:
    """Return the list that production shows."""
    return np.argsort(-query.features[:, feature], kind="stable")[:LENGTH]


def row(world: World, algorithm: str, user: str, options: argparse.Namespace, shadow: bool = True) -> str:
    """Return a row of the table: means over the seeds."""
    found = []
    for seed in range(1, options.seeds + 1):
        weights = learned(world, algorithm, USERS[user], options.lists, seed, shadow, options.swaps)
        unit = weights / max(float(np.linalg.norm(weights)), 1e-12)
        found.append([unit[world.sorted_by], unit[1] if options.dataset is None else np.nan, world.ndcg(weights)])
    own, other, quality = np.mean(found, axis=0)
    name = f"`{algorithm}`" + ("" if shadow else ", its own lists")
    return f"| {user} | {name} | {own:.2f} | {'' if options.dataset else f'{other:.2f}'} | {quality:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=3000, help="lists that are watched")
    parser.add_argument("--seeds", type=int, default=3, help="runs per row")
    parser.add_argument(
        "--swaps", type=float, default=0.0, help="share of the lists in which neighbours are swapped at random"
    )
    parser.add_argument("--users", default=",".join(USERS), help="users, out of " + ", ".join(USERS))
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    parser.add_argument("--dataset", help="such as mq2007, instead of two equal features")
    options = parser.parse_args()
    world = two_features() if options.dataset is None else of_dataset(options.dataset)
    production, zero = world.production(), np.zeros(world.train.n_features)
    print(f"nDCG@10 of production {world.ndcg(production):.3f}, of a random order {world.ndcg(zero):.3f}", end="")
    print("" if options.dataset else f", of both features {world.ndcg(production + np.eye(N_FEATURES)[1]):.3f}")
    print("\n| user | algorithm | weight of production's feature | of its equal | nDCG@10 |\n|---|---|---|---|---|")
    for user in options.users.split(","):
        for algorithm in options.algorithms:
            print(row(world, algorithm, user, options), flush=True)
        print(row(world, "pdgd", user, options, shadow=False), flush=True)


if __name__ == "__main__":
    main()
