"""Compares settings of Thompson pairs, and some rivals, on the families of data: reward, final weights and bad runs.

Reward and weights are means over users in percent of the best recipe of this table, on validation queries; the last column is the
worst run of all cells in percent of the mean of its cell. Takes five minutes on an accelerator, and many hours without.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

from duelrank import RunSpec
from duelrank.core.grammar import listed
from duelrank.core.registry import spell
from duelrank.experiments.executors import run_all

USERS = ("perfect", "navigational", "informational")
#: bend, prior, width, balance, drift, attraction, after_click; None: without curves.
SETTINGS = (
    (0.34, 46.6, 0.043, 0.06, 1.9e-5, 0.71, 0.08),
    (1.02, 14.7, 0.11, 0.4, 1e-5, 0.62, 0.063),
    (1.17, 19.25, 0.115, 0.24, 1.8e-5, 0.52, 0.1),
    (0.37, 54.0, 0.036, 0.105, 1.2e-5, 0.67, 0.072),
    (0.33, 3.08, 0.16, 0.086, 2.8e-5, 0.218, 0.33),
    (0.739, 2.42, 0.169, 1.0, 0.0, 0.21, 0.32),
    (0.7, 15.0, 0.2, 0.25, 1e-5, 0.6, 0.1),
    (0.7, 15.0, 0.2, 0.5, 1e-5, 0.6, 0.1),
    (0.5, 30.0, 0.1, 0.15, 1e-5, 0.6, 0.1),
    (0.5, 30.0, 0.1, 0.3, 1e-5, 0.6, 0.1),
    (0.5, 10.0, 0.3, 0.15, 1e-5, 0.6, 0.1),
    (0.5, 30.0, 0.05, 0.5, 1e-5, 0.6, 0.1),
    (None, 6.164, 0.038, 0.07, 1e-6, 0.18, 0.55),
    (None, 12.0, 0.135, 0.24, 1.5e-5, 0.56, 0.02),
    (None, 15.8, 0.109, 0.385, 1.3e-5, 0.556, 0.1),
    (None, 1.52, 0.294, 0.25, 3e-4, 0.37, 0.74),
    (None, 4.2, 0.254, 0.65, 3e-4, 0.56, 0.15),
    (None, 10.0, 0.2, 0.25, 1e-5, 0.5, 0.1),
)
RIVALS = (
    "wmgd-dsp-curves",
    "wmgd-dsp(tau=0.3989, learning_rate=0.9198, slow_down=39310.0, delta=4.842, strength=0.6616, ridge=2.834)",
    "log-pairs(attraction=0.0511, after_click=0.4316, learning_rate=1.395, slow_down=6.11)",
    "query-scaled >> curves(bend=0.63) >> log-pairs(attraction=0.71195, after_click=0.1209, learning_rate=0.0625, slow_down=555.4)",
)


def recipe(bend: float | None, *numbers: float) -> str:
    """Return the text of a recipe with these settings."""
    names = ("prior", "width", "balance", "drift", "attraction", "after_click")
    given = ", ".join(f"{name}={number}" for name, number in zip(names, numbers, strict=True))
    curves = "" if bend is None else f"query-scaled >> curves(bend={bend}) >> "
    return f"{curves}thompson-pairs({given})"


def main() -> None:
    """Run all recipes on all families, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu, gpu or lockstep")
    parser.add_argument("--impressions", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=4, help="in each of five folds")
    asked = parser.parse_args()
    recipes, found = [*(recipe(*each) for each in SETTINGS), *RIVALS], defaultdict(list)
    for dataset in listed("families"):
        specs = [
            RunSpec(text, dataset, user, fold, 100 + seed, asked.impressions, split="validation")
            for text in recipes
            for user in USERS
            for fold in range(1, 6)
            for seed in range(1, asked.seeds + 1)
        ]
        for record in run_all(specs, device=asked.device):
            key = spell(record.spec.algorithm), spell(record.spec.dataset), spell(record.spec.user)
            found[key].append((record.online_performance, record.offline_performance))
    cells = {key[1:] for key in found}
    best = {
        cell: np.max([np.mean(runs, axis=0) for key, runs in found.items() if key[1:] == cell], axis=0)
        for cell in cells
    }
    for name in dict.fromkeys(key[0] for key in found):
        shares = [100.0 * np.mean(found[name, *cell], axis=0) / best[cell] for cell in cells]
        worst = min(
            min(run[0] for run in found[name, *cell]) / np.mean(found[name, *cell], axis=0)[0] for cell in cells
        )
        reward, weights = np.mean(shares, axis=0)
        print(f"{reward:5.1f} {weights:5.1f} {100.0 * worst:4.0f}  {name}")


if __name__ == "__main__":
    main()
