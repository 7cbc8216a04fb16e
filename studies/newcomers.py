"""Measures how soon a ranker finds a new, perfect document of queries that it knows.

Users ask 100 training queries, in random order, whose best document is missing. After half of the lists it is there. For each
recipe and kind of user: the share of queries in which it is among the first three without exploration after 1, 5, 20 and all lists
of its query, the median number of these lists, and the mean nDCG@10 of all lists in the second half.
"""

from __future__ import annotations

import argparse

import numpy as np

from duelrank import Learner, Query, parse
from duelrank.core.grammar import listed
from duelrank.core.randomness import stream, stream_key
from duelrank.datasets import Dataset, Split
from duelrank.kernels.random import derive, integers
from duelrank.metrics import nDCG
from duelrank.users import User

RECIPES = ("thompson-pairs", "remember >> thompson-pairs", "wmgd-dsp-curves", "remember >> wmgd-dsp-curves")
AFTER = (1, 5, 20)


def chosen(split: Split, n_queries: int) -> list[tuple[int, int]]:
    """Return queries with a document that is better than all others, and that document."""
    found = []
    for index in range(len(split)):
        labels = split.judgements(index)
        if len(labels) > 10 and labels.max() > 0:
            found.append((index, int(labels.argmax())))
    return found[:n_queries]


def run(recipe: str, split: Split, user: User, lists: int, n_queries: int, seed: int) -> tuple[list[float], float]:
    """Return after how many lists of its query each newcomer was in the top three (inf for never), and the mean reward."""
    pairs = chosen(split, n_queries)
    learner = Learner(recipe, split.features.shape[1], seed=seed)
    order = integers(stream(seed, "queries"), len(pairs), lists)
    clicks, metric = stream_key(seed, "clicks"), nDCG(10)
    since, found = np.zeros(len(pairs), int), np.full(len(pairs), np.inf)
    reward = []
    for t, place in enumerate(order.tolist()):
        index, newcomer = pairs[place]
        labels, features = split.judgements(index), split.query(index).features
        rows = np.arange(len(labels)) if t >= lists // 2 else np.delete(np.arange(len(labels)), newcomer)
        query = Query(str(index), features[rows], documents=[str(row) for row in rows])
        shown = learner.rank(query)
        learner.learn(shown, user.click(labels[rows][shown.ranking], derive(clicks, t)))
        if t >= lists // 2:
            reward.append(metric.of(labels[rows][shown.ranking], labels[rows]))
            since[place] += 1
            if np.isinf(found[place]) and newcomer in learner.best(query)[:3]:
                found[place] = since[place]
    return found[since > 0].tolist(), float(np.mean(reward))


def main() -> None:
    """Print a line for each recipe and kind of user."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--dataset", default="mq2007")
    parser.add_argument("--users", default="perfect,navigational,informational")
    parser.add_argument("--lists", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    fold = parse(asked.dataset, Dataset).fold(1)
    print(f"top 3 after {', '.join(map(str, AFTER))} and all lists; median; nDCG of the second half")
    for name in listed(asked.users):
        user = parse(str(name), User).for_grades(fold.n_grades)
        for recipe in asked.recipes:
            runs = [
                run(recipe, fold.train, user, asked.lists, asked.queries, seed) for seed in range(1, asked.seeds + 1)
            ]
            found = np.array([each for newcomers, _ in runs for each in newcomers])
            shares = " ".join(f"{(found <= after).mean():4.0%}" for after in (*AFTER, 1e9))
            median, reward = float(np.median(found)), np.mean([each for _, each in runs])
            print(f"{name:14} {shares}  {median:5g}  {reward:.3f}  {recipe}", flush=True)


if __name__ == "__main__":
    main()
