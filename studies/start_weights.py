"""Compares the lists of a learner that starts from the weights of production with those of one that starts at zero.

Production is a ranker that knows less than there is to learn: a part of the features, each with the weight that a regression on the
labels of the training queries gives it. The table has the mean nDCG@10 of the lists that users saw, exploration included.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from duelrank import Learner
from duelrank.core.grammar import as_part
from duelrank.core.randomness import stream
from duelrank.datasets import Dataset, Fold, Split
from duelrank.metrics import Metric, offline_performance
from duelrank.users import User

ALGORITHMS, USERS = ("mgd-dsp", "wmgd-dsp", "pdgd"), ("perfect", "navigational", "informational")
SCALES, METRIC, LENGTH = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0), "nDCG@10", 10

Floats = NDArray[np.float64]


def production(split: Split, share: float) -> Floats:
    """Return the unit weights of a regression of the labels on some of the features, within queries."""
    rng = np.random.default_rng(1)
    features, labels = split.features.copy(), split.labels.astype(float)
    for start, stop in zip(split.offsets[:-1], split.offsets[1:], strict=True):
        features[start:stop] -= features[start:stop].mean(axis=0)
        labels[start:stop] -= labels[start:stop].mean()
    known = rng.permutation(split.n_features)[: max(1, round(share * split.n_features))]
    weights = np.zeros(split.n_features)
    ridge = 1e-3 * len(features) * np.eye(len(known))
    weights[known] = np.linalg.solve(features[:, known].T @ features[:, known] + ridge, features[:, known].T @ labels)
    return weights / float(np.linalg.norm(weights))


def seen(fold: Fold, algorithm: str, user: str, start: Floats, impressions: int, seed: int) -> Floats:
    """Return nDCG@10 of each list that a user saw."""
    rng, clicks = np.random.default_rng(seed), stream(seed, "user")
    chosen, metric = as_part(user, User).for_grades(fold.n_grades), as_part(METRIC, Metric)
    learner = Learner(algorithm, fold.n_features, seed, LENGTH, weights=start)
    quality = []
    for index in rng.integers(len(fold.train), size=impressions).tolist():
        labels = fold.train.judgements(index)
        impression = learner.rank(fold.train.query(index))
        shown = labels[impression.ranking]
        quality.append(metric.of(shown, labels))
        learner.learn(impression, chosen.click(shown, clicks))
    return np.array(quality)


def row(fold: Fold, algorithm: str, user: str, start: Floats, name: str, options: argparse.Namespace) -> str:
    """Return a row of the table: the first and the last tenth, and all lists; means over the seeds."""
    n = options.impressions
    runs = np.mean([seen(fold, algorithm, user, start, n, seed) for seed in range(1, options.seeds + 1)], axis=0)
    tenth = n // 10
    figures = (runs[:tenth].mean(), runs[-tenth:].mean(), runs.mean())
    return f"| {user} | `{algorithm}` | {name} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="synthetic", help="such as mq2007")
    parser.add_argument("--impressions", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3, help="runs per row")
    parser.add_argument("--share", type=float, default=0.3, help="share of the features that production uses")
    parser.add_argument("--users", default=",".join(USERS))
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    options = parser.parse_args()
    fold = as_part(options.dataset, Dataset).fold(1)
    unit = production(fold.train, options.share)
    # Users of the simulation ask training queries, so production is judged by these.
    quality, chance = (offline_performance(w, fold.train, METRIC, stream(1, "evaluation")) for w in (unit, 0.0 * unit))
    print(f"nDCG@10 of production {quality:.3f}, of a random order {chance:.3f}\n")
    print(
        "| user | algorithm | length of the start weights | first tenth | last tenth | all |\n|---|---|---|---|---|---|"
    )
    for user in options.users.split(","):
        for algorithm in options.algorithms:
            print(row(fold, algorithm, user, 0.0 * unit, "0", options), flush=True)
            for scale in SCALES:
                print(row(fold, algorithm, user, scale * unit, f"{scale:g}", options), flush=True)


if __name__ == "__main__":
    main()
