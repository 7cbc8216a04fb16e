"""A small shop: products, what people search for in it, and a ranker that learns from simulated clicks on features of an engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank import Dataset, Learner, simulate
from duelrank.datasets import Preparation
from duelrank.export import LinearModel
from duelrank.representation import Representation

WORDS = ("red", "blue", "green", "light", "warm", "rain", "trail", "city", "winter", "summer", "kids", "sport")
THINGS = ("shoe", "jacket", "hat", "sock", "bag")
#: Two words each: every product matches some of them.
QUERIES = tuple(f"{word} {thing}" for word in WORDS[:8] for thing in THINGS[:3])
N_PRODUCTS = 300


def products() -> list[dict[str, Any]]:
    """Return 300 products with texts and numbers; every tenth has no rating yet."""
    rng = np.random.default_rng(7)
    found = []
    for number in range(N_PRODUCTS):
        title = [*rng.choice(WORDS, rng.integers(1, 4), replace=False), rng.choice(THINGS)]
        product = {
            "id": f"p{number:03d}",
            "title": " ".join(title),
            "description": " ".join(rng.choice(WORDS + THINGS, rng.integers(5, 30))),
            "price": float(np.float32(rng.lognormal(3.5, 0.8))),
            "rating": float(np.float32(rng.uniform(1.0, 5.0))),
        }
        if number % 10 == 0:
            del product["rating"]
        found.append(product)
    return found


def learn(algorithm: str, lists: dict[str, np.ndarray]) -> Learner:
    """Return what an algorithm learned from 500 lists of a simulated user.

    Parameters
    ----------
    algorithm
        A recipe.
    lists
        Features of the documents of each query.
    """
    features = np.concatenate(list(lists.values()))
    queries = np.repeat(np.arange(len(lists)), [len(each) for each in lists.values()])
    spread = features.std(axis=0)
    utility = (features - features.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    utility = utility @ np.resize([1.0, 0.6, -0.8, 0.7], features.shape[1])
    labels = np.searchsorted(np.quantile(utility, [0.6, 0.9]), utility, side="right")
    untouched = Preparation(drop_constant=False, scale="none", drop_irrelevant_test=False)
    shop = Dataset.from_arrays(features, labels, queries, name="shop", preparation=untouched)
    return simulate(algorithm, shop, "perfect", impressions=500, seed=3).learner


def learned_model(
    name: str,
    algorithm: str,
    lists: dict[str, np.ndarray],
    features: tuple[str, ...],
    before: Representation | None = None,
) -> LinearModel:
    """Return the model of what was learned; ``before`` is applied to the features before the learner sees them."""
    seen = {query: before.apply(each, {}) for query, each in lists.items()} if before else lists
    return LinearModel.from_snapshot(learn(algorithm, seen).snapshot(), name, features, before)
