"""Analyses bad runs of a recipe: the quality of its weights early on, and what it learns from random clicks.

    python studies/bad_runs.py wmgd-dsp --dataset mq2007 --user informational

The worth of weights is their cosine with the offline reference of the fold, which is trained on all labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from duelrank.experiments.executors import run_all
from duelrank.experiments.reference import reference_for
from duelrank.metrics import DISCOUNT
from duelrank.simulation import Record, RunSpec

#: Clicks on 40% of the documents and leaves after 20%, whatever they are.
AT_RANDOM = "Cascade((0.4, 0.4, 0.4), (0.2, 0.2, 0.2))"
EARLY = 300


def reward(record: Record) -> float:
    return float(record.online @ DISCOUNT ** np.arange(len(record.online)))


def cosine(record: Record, impressions: int) -> float:
    """Return the cosine at the last checkpoint that is not later."""
    reference = reference_for(record.spec.dataset, record.spec.fold)
    place = int(np.searchsorted(record.checkpoints, impressions, side="right")) - 1
    return float(record.cosines(reference.weights)[place])


def show(title: str, records: Sequence[Record], mean: float) -> None:
    early, end = (np.array([cosine(each, when) for each in records]) for when in (EARLY, records[0].spec.impressions))
    lengths = [float(np.linalg.norm(each.trajectory[-1])) for each in records]
    share = np.mean([reward(each) for each in records]) / mean
    print(
        f"{title:24} reward {share:4.0%} of the mean, cosine after {EARLY} impressions {early.min():+.2f} to", end=" "
    )
    print(f"{early.max():+.2f}, median {np.median(early):+.2f}, at the end {np.median(end):+.2f};", end=" ")
    print(f"length of the weights {np.median(lengths):.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--dataset", default="mq2007")
    parser.add_argument("--user", default="informational")
    parser.add_argument("--runs", type=int, default=45)
    options = parser.parse_args()

    def made(user: str, runs: int) -> list[Record]:
        numbers = range(runs)
        specs = [RunSpec(options.recipe, options.dataset, user, n % 5 + 1, n // 5 + 1) for n in numbers]
        return sorted(run_all(specs), key=reward)

    records = made(options.user, options.runs)
    mean, few = float(np.mean([reward(each) for each in records])), options.runs // 10
    show(f"the worst {few}", records[:few], mean)
    show(f"the other {options.runs - few}", records[few:], mean)
    show("clicks at random, 10 runs", made(AT_RANDOM, 10), mean)


if __name__ == "__main__":
    main()
