"""Measures when a log of production harms: short logs, users who click nearly at random, reversed or mediocre production.

Each cell has nDCG@10 of the first 1,000 live lists, and of the weights after all of them on test queries. Upside down is the best
single feature with its least value first; mediocre is the median of all features by nDCG@10 on validation queries, each in its
better direction.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from duelrank import simulate
from duelrank.core.grammar import as_part
from duelrank.core.randomness import stream
from duelrank.datasets import Dataset
from duelrank.metrics import offline_performance
from duelrank.simulation import Feature, Logged

USERS, ALGORITHMS = ("perfect", "navigational", "informational", "almost-random"), ("wmgd-dsp", "pdgd")


def by_quality(dataset: Dataset) -> list[Feature]:
    """Return every feature in its better direction, the best one last, by nDCG@10 on the validation queries of the first fold."""
    fold = dataset.fold(1)

    def quality(feature: Feature) -> float:
        return offline_performance(feature.weights(dataset, 1), fold.validation, "nDCG@10", stream(0, "baseline"))

    better = [max(Feature(n), Feature(n, rising=True), key=quality) for n in range(fold.n_features)]
    return sorted(better, key=quality)


def logs(dataset: Dataset) -> dict[str, Logged | None]:
    """Return the logs, by the heads of their columns."""
    features = by_quality(dataset)
    others = {
        "upside down": replace(features[-1], rising=not features[-1].rising),
        "mediocre": features[len(features) // 2],
    }
    short: dict[str, Logged | None] = {f"{lists:,} lists": Logged(lists=lists) for lists in (30, 100, 300, 1_000)}
    return (
        {"no log": None}
        | short
        | {
            f"{n:,} lists, {name}": Logged(production, n)
            for name, production in others.items()
            for n in (1_000, 10_000)
        }
    )


def cell(algorithm: str, dataset: str, user: str, log: Logged | None, options: argparse.Namespace) -> str:
    """Return both numbers, means over the runs."""
    found = []
    for fold in range(1, options.seeds + 1):
        record = simulate(algorithm, dataset, user, impressions=options.impressions, log=log, fold=fold)
        found.append([record.row()["online_first"], record.offline_performance])
    first, final = np.mean(found, axis=0)
    return f"{first:.3f} / {final:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="mq2007")
    parser.add_argument("--impressions", type=int, default=2_000, help="live lists")
    parser.add_argument("--seeds", type=int, default=2, help="runs per cell, one per fold")
    parser.add_argument("--users", nargs="+", default=USERS)
    options = parser.parse_args()
    columns = logs(as_part(options.dataset, Dataset))
    print(f"| user | algorithm | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for user in options.users:
        for algorithm in ALGORITHMS:
            cells = [cell(algorithm, options.dataset, user, log, options) for log in columns.values()]
            print(f"| {user} | `{algorithm}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
