"""Compares the first lists of guarded rankers that start from nothing: two ladders, with and without imitation of the baseline.

Each row has means over folds, one run each: nDCG@10 of the first lists, and of all, minus that of the baseline on the same queries;
the median number of lists until the ranker had half and all of the lists that are not guard lists, with the number of runs that got
there; the number of alarms; and nDCG@10 of the final weights on test queries.
"""

from __future__ import annotations

import argparse
from statistics import median

import numpy as np

import duelrank.experiments  # noqa: F401  # registers Skyline
from duelrank import simulate
from duelrank.adapters import backfill
from duelrank.simulation import Guarded, Record

USERS, FIRST = ("perfect", "navigational", "informational"), (300, 1_000, 5_000)
GUARDS = {
    "ladder .1 .5 1, g .1": "share=0.1, promote=(0.1, 0.5, 1.0), imitate=0",
    "ladder .1 .5 1, g .1, imitates": "share=0.1, promote=(0.1, 0.5, 1.0)",
    "ladder .5 1, g .2": "imitate=0",
    "ladder .5 1, g .2, imitates": "",
}
ALONE = "share=1e-9, promote=(1e-9,), imitate=0"


def run(guard: str, user: str, fold: int, options: argparse.Namespace) -> Record:
    """Return a run under a guard."""
    settings = f"Guarded({options.baseline}, {guard})"
    return simulate(
        options.algorithm, options.dataset, user, impressions=options.impressions, fold=fold, guard=settings
    )


def reached(runs: list[Record], share: float) -> str:
    """Return the median number of lists until the ranker decided this share, and the number of runs in which it did."""
    found = []
    for record in runs:
        assert isinstance(record.spec.guard, Guarded)
        assert record.guard is not None
        rung = next(place for place, each in enumerate(record.spec.guard.promote) if each >= share)
        if rung <= len(record.guard.promotions):
            found.append(record.guard.promotions[rung - 1] if rung else record.guard.imitated)
    return f"{median(found):,.0f} ({len(found)} of {len(runs)})" if found else "–"


def row(runs: list[Record], alone: list[Record]) -> str:
    """Return the cells of a row."""
    gains = np.array([record.online - other.online for record, other in zip(runs, alone, strict=True)])
    cells = [f"{gains[:, :n].mean():+.4f}".replace("-", "−") for n in (*FIRST, gains.shape[1])]
    cells += [reached(runs, 0.5), reached(runs, 1.0)]
    alarms = sum(len(record.guard.alarms) for record in runs if record.guard is not None)
    return " | ".join((*cells, str(alarms), f"{np.mean([record.offline_performance for record in runs]):.4f}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="mq2007")
    parser.add_argument("--baseline", default="BestFeature()", help="such as Skyline()")
    parser.add_argument("--algorithm", default="wmgd-dsp")
    parser.add_argument("--impressions", type=int, default=20_000)
    parser.add_argument("--folds", type=int, default=5, help="runs per row")
    parser.add_argument("--users", nargs="+", default=USERS)
    parser.add_argument("--guards", nargs="+", default=tuple(GUARDS), choices=GUARDS)
    parser.add_argument(
        "--imitate", nargs="+", type=int, default=(), help="further rows: the last guard with these numbers of lists"
    )
    parser.add_argument(
        "--worth", type=int, default=backfill.IMITATED_WORTH, help="IMITATED_WORTH, which sets the norm"
    )
    options = parser.parse_args()
    backfill.IMITATED_WORTH = options.worth
    guards = {label: GUARDS[label] for label in options.guards}
    guards |= {f"ladder .5 1, g .2, imitates {n:,}": f"imitate={n}" for n in options.imitate}
    heads = [f"first {n:,}" for n in FIRST] + ["all", "half", "all traffic", "alarms", "final weights"]
    print(f"| user | guard | {' | '.join(heads)} |\n|---|---|{'---:|' * len(heads)}")
    folds = range(1, options.folds + 1)
    for user in options.users:
        alone = [run(ALONE, user, fold, options) for fold in folds]
        for label, guard in guards.items():
            runs = [run(guard, user, fold, options) for fold in folds]
            print(f"| {user} | {label} | {row(runs, alone)} |", flush=True)


if __name__ == "__main__":
    main()
