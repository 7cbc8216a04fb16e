"""Shows what `DependentClick` learns about users who continue after a click with probability 0.30, at the first four positions.

Production is the best single feature, or that feature with its least value first.
"""

from __future__ import annotations

import argparse

from duelrank import Impression, Learner
from duelrank.core.grammar import as_part
from duelrank.core.types import Memory, Weights
from duelrank.datasets import Dataset
from duelrank.projection import DependentClick
from duelrank.simulation import BestFeature, Logged
from duelrank.users import User

USERS, GUESSES = ("perfect", "navigational", "informational"), (0.9, 0.5)


def learned(dataset: Dataset, production: Weights, user: str, guess: float, lists: int) -> str:
    """Return the probabilities after a log of the first fold."""
    fold, model = dataset.fold(1), DependentClick(after_click=guess, forgetting=1.0)
    clicking = as_part(f"DCM(like={user!r}, continuation=(0.3,))", User).for_grades(fold.n_grades)
    memory: Memory = {}
    for query, ranking, feedback in Logged(lists=lists).shown(
        Learner("log-pairs", fold.n_features), fold, production, clicking
    ):
        memory = model.observe(memory, Impression(query, ranking), feedback)
    successes, trials = memory["examination_users"][:, :4]
    return " ".join(f"{chance:.2f}" for chance in successes / trials)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="mq2007")
    parser.add_argument("--lists", type=int, default=3_000)
    options = parser.parse_args()
    dataset = as_part(options.dataset, Dataset)
    best = BestFeature().weights(dataset, 1)
    print(f"| production | users | {' | '.join(f'from {guess}' for guess in GUESSES)} |\n|---|---|---|---|")
    for name, production in (("best feature", best), ("upside down", -best)):
        for user in USERS:
            cells = [learned(dataset, production, user, guess, options.lists) for guess in GUESSES]
            print(f"| {name} | {user} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
