"""Compares curves with knots from all training documents, computed in advance, with learned ones."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import numpy as np

from duelrank import Dataset, parse, simulate
from duelrank.datasets import Fold, Split
from duelrank.representation import BentLines, QueryScaled
from duelrank.representation.base import Representation
from duelrank.representation.curves import moved

CURVES = BentLines()


def main() -> None:
    """Print online and offline performance, mean over folds, of plain features, learned curves, and curves that looked ahead."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--datasets", default="mq2007,mq2008")
    options.add_argument("--algorithms", default="wmgd-dsp,pdgd")
    options.add_argument("--users", default="perfect,navigational,informational")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--impressions", "-n", type=int, default=10_000)
    given = options.parse_args()
    print(
        "| data set | algorithm | user | min-max | curves, learned | curves, looked ahead |\n|---|---|---|---|---|---|"
    )
    for name in given.datasets.split(","):
        dataset = parse(name, Dataset)
        folds = range(1, dataset.n_folds + 1)
        ahead = {fold: _looked_ahead(dataset.fold(fold), fold) for fold in folds}
        for algorithm in given.algorithms.split(","):
            for user in given.users.split(","):
                arms = [
                    [(algorithm, dataset, fold) for fold in folds],
                    [(f"query-scaled >> curves >> {algorithm}", dataset, fold) for fold in folds],
                    [(algorithm, ahead[fold], 1) for fold in folds],
                ]
                cells = (_cell(arm, user, given.seed, given.impressions) for arm in arms)
                print(f"| {name} | {algorithm} | {user} | {' | '.join(cells)} |", flush=True)


def _cell(runs: Iterable[tuple[str, Dataset, int]], user: str, seed: int, impressions: int) -> str:
    found = [simulate(*run[:2], user, fold=run[2], seed=seed, impressions=impressions) for run in runs]
    online, offline = (
        np.mean([getattr(each, name) for each in found]) for name in ("online_performance", "offline_performance")
    )
    return f"{online:.0f} ({offline:.3f})"


def _looked_ahead(fold: Fold, number: int) -> Dataset:
    """Return a fold with the columns of curves for features; their knots are of 200 documents of the whole training set."""
    representation: Representation = QueryScaled() >> CURVES
    start = CURVES.start(fold.n_features, unit=True)
    rows = np.random.default_rng(number).choice(fold.train.n_documents, CURVES.sample, replace=False)
    sample = np.asarray(fold.train.features[np.sort(rows)], np.float32)
    memory = {**start, "knots": moved(start["knots"], sample, 2, None)}

    def seen(split: Split) -> Split:
        columns = representation.apply_all(np.asarray(split.features), split.offsets, memory)
        return Split(columns, split.labels, split.offsets, split.ids)

    return Dataset.from_splits(
        seen(fold.train), seen(fold.test), seen(fold.validation), name=f"ahead{number}", preparation=None
    )


if __name__ == "__main__":
    main()
