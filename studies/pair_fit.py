"""Measures the distance of PairRank's weights from the exact fit to all pairs seen so far, in percent: 100 ‖w − w*‖ / ‖w*‖.

w* minimises Σ log(1 + exp(−w·x)) + ridge/2 ‖w‖² over the differences x of all pairs so far, by Newton's method. Columns are
numbers of lists that taught something; each cell has the largest distance of three users.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from duelrank import Learner
from duelrank.algorithms import PairRank
from duelrank.core.grammar import as_part
from duelrank.core.randomness import stream, stream_key
from duelrank.core.types import Features, Weights
from duelrank.datasets import Dataset
from duelrank.kernels.random import derive
from duelrank.simulation.production import drawn_queries
from duelrank.users import User

RECIPES = ("pairrank", "pairrank(width=0.00194, regularisation=0.005895)", "pairrank(loss='sum')")
USERS, LISTS = ("perfect", "navigational", "informational"), (10, 25, 50, 100, 200, 400, 1_000, 2_000, 4_000)


def run(recipe: PairRank, dataset: Dataset, name: str, impressions: int) -> Iterator[tuple[Features, Weights]]:
    """Return the new pairs and the weights after each list that taught something."""
    fold = dataset.fold(1)
    user, key = as_part(name, User).for_grades(fold.n_grades), stream_key(1, "user")
    learner, known = Learner(recipe, fold.n_features, 1), 0
    for t, index in enumerate(drawn_queries(fold, impressions, stream(1, "queries")).tolist()):
        shown = learner.rank(fold.train.query(index))
        learner.learn(shown, user.click(fold.train.judgements(index)[shown.ranking], derive(key, t)))
        before, known = known, int(learner.state.memory["pairs"][0])
        if known > before:
            yield learner.state.memory["differences"][before - known :], learner.weights


def exact_fit(pairs: Features, ridge: float, weights: Weights) -> Weights:
    """Minimise the loss from these weights on; a step of Newton's that would raise it is halved."""

    def loss(w: Weights) -> float:
        return float(np.logaddexp(0.0, -pairs @ w).sum() + ridge / 2.0 * w @ w)

    for _ in range(100):
        chance = 1.0 / (1.0 + np.exp(pairs @ weights))
        curvature = (pairs.T * (chance * (1.0 - chance))) @ pairs + ridge * np.eye(len(weights))
        step = np.linalg.solve(curvature, ridge * weights - chance @ pairs)
        while loss(weights - step) > loss(weights) and np.linalg.norm(step) > 1e-12:
            step /= 2.0
        weights = weights - step
        if np.linalg.norm(step) <= 1e-10 * np.linalg.norm(weights):
            break
    return weights


def distances(recipe: PairRank, dataset: Dataset, user: str, impressions: int) -> dict[int, float]:
    """Return the distances, by the number of lists."""
    pairs, found, best = list[Features](), dict[int, float](), np.zeros(dataset.fold(1).n_features)
    for lists, (new, weights) in enumerate(run(recipe, dataset, user, impressions), 1):
        pairs.append(new)
        if lists in LISTS:
            every = np.concatenate(pairs)
            ridge = recipe.regularisation * (2 * len(every) if recipe.loss == "mean" else 1)
            best = exact_fit(every, ridge, best)
            found[lists] = float(np.linalg.norm(weights - best) / np.linalg.norm(best))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="synthetic,mq2008")
    parser.add_argument("--impressions", type=int, default=5_000)
    options = parser.parse_args()
    print(f"| data set | recipe | {' | '.join(f'{lists:,}' for lists in LISTS)} |\n|---|---|{'---|' * len(LISTS)}")
    for name in options.datasets.split(","):
        for text in RECIPES:
            recipe, dataset = as_part(text, PairRank), as_part(name, Dataset)
            found = [distances(recipe, dataset, user, options.impressions) for user in USERS]
            cells = [[each[lists] for each in found if lists in each] for lists in LISTS]
            row = " | ".join(f"{100 * max(cell):.2f}" if cell else "–" for cell in cells)
            print(f"| {name} | `{text}` | {row} |", flush=True)


if __name__ == "__main__":
    main()
