"""Measures the cost of anytime tests: decisive lists until a difference is found, against a sign test of a fixed size.

Prints a Markdown table; takes about a minute on one core.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from duelrank.core.randomness import stream
from duelrank.evidence import anytime_test
from guard_promises import outcomes

RATES = (0.51, 0.52, 0.55, 0.60, 0.70, 0.80)
POWER = 0.8
LEVEL = 0.05
LONGEST = 12  # times the lists of the sign test


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--streams", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    print(f"Level {LEVEL}, {given.streams:,} streams; ratios to the sign test with {POWER:.0%} power in parentheses\n")
    heads = ["win rate", "sign test, size fixed", "anytime, 80% found it", "anytime, mean until found", "not found"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    sizes = {rate: sign_size(rate) for rate in RATES}
    needed = wins_needed(LONGEST * max(sizes.values()))
    for rate, size in sizes.items():
        chances = np.full(LONGEST * size, rate)
        found = [first_proof(outcomes(chances, stream(given.seed, f"{rate}", n)), needed) for n in range(given.streams)]
        most, mean = np.quantile(found, POWER), np.mean(found)
        late = np.mean(np.array(found) > len(chances))
        print(
            f"| {rate:.2f} | {size:,} | {most:,.0f} ({most / size:.2f}) | {mean:,.0f} ({mean / size:.2f}) | {late:.1%} |",
            flush=True,
        )
    peeking(given.streams, given.seed, needed)


def peeking(streams: int, seed: int, needed: NDArray[np.int64], lists: int = 10_000) -> None:
    """Print how often a test after each decisive list finds a difference between two equal rankers."""
    tests = {"sign": np.maximum(stats.binom.isf(LEVEL / 2, np.arange(1, lists + 1), 0.5) + 1, 1), "anytime": needed}
    for test, bounds in tests.items():
        ever = 0
        for number in range(streams):
            won = outcomes(np.full(lists, 0.5), stream(seed, "equal", number))
            ever += min(first_proof(won, bounds), first_proof(~won, bounds)) <= lists
        share = f"{ever / streams:.1%}"
        print(f"\nEqual rankers, tested after each of {lists:,} decisive lists, differ by the {test} test in: {share}")


def sign_size(rate: float) -> int:
    """Return the least decisive lists, to half a percent, with which the sign test finds the better ranker often enough."""
    n = 5
    while stats.binom.sf(stats.binom.isf(LEVEL / 2, n, 0.5), n, rate) < POWER:
        n += max(1, n // 200)
    return n


def wins_needed(most: int) -> NDArray[np.int64]:
    """Return, for each number of decisive lists from 1, the least wins with which the anytime test finds the ranker better."""
    needed, wins = np.empty(most, np.int64), 1
    for n in range(1, most + 1):
        while wins <= n and (2 * wins <= n or anytime_test(wins, n - wins) >= LEVEL):
            wins += 1
        needed[n - 1] = wins
    return needed


def first_proof(won: NDArray[np.bool_], needed: NDArray[np.int64]) -> int:
    """Return after how many decisive lists the better ranker is found; one more than all for never."""
    found = np.cumsum(won) >= needed[: len(won)]
    return int(np.argmax(found)) + 1 if found.any() else len(won) + 1


if __name__ == "__main__":
    main()
