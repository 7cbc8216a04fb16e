"""Checks the guarantees of a guard on long streams: mean run length without harm, coverage, level of proofs, delay of alarms.

Without harm, two random rankings are compared through the real team draft, by users whose clicks depend on the position only.
Prints Markdown tables; takes some minutes on one core.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from duelrank.core.compiling import kernel
from duelrank.core.randomness import stream
from duelrank.core.types import Stream
from duelrank.evidence.sequential import _MAX_EVIDENCE, _RHO, ALTERNATIVES, ConfidenceSequence
from duelrank.kernels.elementary import log
from duelrank.kernels.multileaving import team_draft_credit as credit
from duelrank.kernels.multileaving import team_draft_leave as leave
from duelrank.kernels.random import permutation, uniform

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Source = Callable[[int, Stream], tuple[Flags, int]]  # outcomes of n decisive lists, and the number of lists for them

DOCUMENTS = 6
USERS = {
    "clicks the first document, or nothing": np.array([0.9, 0.0, 0.0, 0.0]),
    "several clicks, fewer further down": np.array([0.6, 0.4, 0.3, 0.2]),
}
RATES = (0.30, 0.40, 0.45, 0.48, 0.49)
EVERY = (10_000.0, 100_000.0, 1_000_000.0)
CHUNK = 4096


def main() -> None:
    """Print all tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=4000, help="streams until a false alarm, for each user")
    options.add_argument("--streams", type=int, default=1000, help="streams for coverage and level, for each row")
    options.add_argument("--delays", type=int, default=200, help="streams for each cell of the table of delays")
    options.add_argument("--lists", type=int, default=100_000, help="decisive lists of a stream for coverage and level")
    options.add_argument("--every", type=float, default=10_000.0, help="false_alarm_every of the mean run length")
    options.add_argument("--level", type=float, default=0.05)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    began = time.perf_counter()
    run_lengths(given.runs, given.every, given.seed)
    always_right(given.streams, given.lists, given.level, given.seed)
    delays(given.delays, given.seed)
    print(f"{time.perf_counter() - began:.0f} s")


def run_lengths(streams: int, every: float, seed: int) -> None:
    print(f"\n### Decisive lists until a false alarm, promised {every:,.0f} on average; {streams:,} streams\n")
    print("| user | decisive share of lists | win rate | mean run length | standard error |\n|---|---|---|---|---|")
    for user, clicks in USERS.items():
        runs = [run(every, team_draft(clicks), stream(seed, f"run {user}", number)) for number in range(streams)]
        lengths, wins, decisive, lists = np.array(runs).T
        share, rate = decisive.sum() / lists.sum(), wins.sum() / decisive.sum()
        error = lengths.std(ddof=1) / math.sqrt(streams)
        print(f"| {user} | {share:.3f} | {rate:.4f} | {lengths.mean():,.0f} | {error:,.0f} |", flush=True)


def run(every: float, source: Source, draws: Stream) -> tuple[int, int, int, int]:
    """Play one stream until the alarm; return its decisive lists, and of all lists drawn: wins, decisive ones, and all."""
    evidence, before, wins, lists = np.zeros(len(ALTERNATIVES)), 0, 0, 0
    while True:
        won, made = source(CHUNK, draws)
        wins, lists = wins + int(won.sum()), lists + made
        taken, _ = detect(evidence, np.array(ALTERNATIVES), 0.0, _MAX_EVIDENCE, every, won)
        if taken <= CHUNK:
            return before + taken, wins, before + CHUNK, lists
        before += CHUNK


def team_draft(clicks: Floats) -> Source:
    """Return a source of outcomes through the team draft of two random rankings."""
    return lambda size, draws: equal_rankers(DOCUMENTS, clicks, size, draws)


def constant(rate: float) -> Source:
    """Return a source of decisive lists that are won with the same chance."""
    return lambda size, draws: (outcomes(np.full(size, rate), draws), size)


def always_right(streams: int, lists: int, level: float, seed: int) -> None:
    print(
        f"\n### Streams of {lists:,} decisive lists in which something was ever wrong, promised at most {level}; {streams:,} each\n"
    )
    print(
        "| chance to win | band ever missed | standard error | gain ever proved | standard error |\n|---|---|---|---|---|"
    )
    half, drift = np.full(lists, 0.5), np.linspace(0.45, 0.60, lists)
    rows: dict[str, tuple[Source, Floats]] = {
        f"½, team draft, {user}": (team_draft(clicks), half) for user, clicks in USERS.items()
    }
    rows["½, drawn"] = constant(0.5), half
    rows["drifts from .45 to .60, drawn"] = (lambda size, draws: (outcomes(drift, draws), size)), drift
    for name, (source, chances) in rows.items():
        missed, proved = np.empty(streams, bool), np.empty(streams, bool)
        for number in range(streams):
            won, _ = source(lists, stream(seed, name, number))
            missed[number] = first_miss(won, chances, _RHO, level) <= lists
            proved[number] = highest_e_value(won) >= 1.0 / level
        gain = f"{proved.mean():.4f} | {error_of(proved):.4f}" if chances is half else "(there is gain) | "
        print(f"| {name} | {missed.mean():.4f} | {error_of(missed):.4f} | {gain} |", flush=True)
    widths = (ConfidenceSequence(n // 2, n // 2, level).half_width for n in (1_000, 10_000, 100_000))
    print(f"\nHalf-widths at 1,000, 10,000 and 100,000: {', '.join(f'{each:.4f}' for each in widths)}")


def error_of(found: Flags) -> float:
    return float(found.std(ddof=1)) / math.sqrt(len(found))


def delays(streams: int, seed: int) -> None:
    print(f"\n### Decisive lists until an alarm, mean (standard error) of {streams:,} streams\n")
    print(f"| false_alarm_every | {' | '.join(f'win rate {rate:.2f}' for rate in RATES)} |\n|---|{'---|' * len(RATES)}")
    for every in EVERY:
        cells = []
        for rate in RATES:
            name = f"delay {rate} {every}"
            lengths = np.array([run(every, constant(rate), stream(seed, name, n))[0] for n in range(streams)])
            cells.append(f"{lengths.mean():,.0f} ({lengths.std(ddof=1) / math.sqrt(streams):,.0f})")
        print(f"| {every:,.0f} | {' | '.join(cells)} |", flush=True)


@kernel
def equal_rankers(n_documents: int, chances: Floats, size: int, stream: NDArray[np.uint64]) -> tuple[Flags, int]:
    """Compare two random rankings by team draft until ``size`` lists are decisive; return their outcomes and the number of lists.

    The user clicks at position i with probability chances[i], whatever the document is, so that neither ranking is better.
    """
    won = np.empty(size, np.bool_)
    rankings = np.empty((2, n_documents), np.int64)
    clicks = np.empty(chances.shape[0])
    decisive = lists = 0
    while decisive < size:
        for i in range(2):
            rankings[i] = permutation(stream, n_documents)
        _, teams = leave(rankings, chances.shape[0], stream)
        for position in range(chances.shape[0]):
            clicks[position] = uniform(stream) < chances[position]
        clicked = credit(teams, clicks, 2)
        lists += 1
        if clicked[0] != clicked[1]:
            won[decisive] = clicked[1] > clicked[0]
            decisive += 1
    return won, lists


@kernel
def outcomes(chances: Floats, stream: NDArray[np.uint64]) -> Flags:
    """Draw the outcome of one decisive list for each chance to win."""
    won = np.empty(chances.shape[0], np.bool_)
    for i in range(chances.shape[0]):
        won[i] = uniform(stream) < chances[i]
    return won


@kernel
def detect(
    evidence: Floats, alternatives: Floats, margin: float, most: float, threshold: float, won: Flags
) -> tuple[int, float]:
    """Update the evidence of a detector in place until an alarm; return the number of lists, and the statistic.

    Without an alarm, the number is one more than there are lists. The evidence is that of `Detector.update`, to the bit.
    """
    allowed = 1.0 - 2.0 * margin
    statistic = 0.0
    for i in range(won.shape[0]):
        total = 0.0
        for k in range(alternatives.shape[0]):
            p = alternatives[k] * allowed
            ratio = p / (0.5 * allowed) if won[i] else (1.0 - p) / (1.0 - 0.5 * allowed)
            evidence[k] = min((evidence[k] + 1.0) * ratio, most)
            total += evidence[k]
        statistic = total / alternatives.shape[0]
        if statistic >= threshold:
            return i + 1, statistic
    return won.shape[0] + 1, statistic


@kernel
def first_miss(won: Flags, chances: Floats, rho: float, level: float) -> int:
    """Return the number of lists after which the band first misses the mean chance so far, or one more than all of them."""
    wins = total = 0.0
    for i in range(won.shape[0]):
        n = i + 1.0
        wins += won[i]
        total += chances[i]
        spread = n / 4.0 + rho
        half = math.sqrt(spread * (log(spread / rho) - 2.0 * log(level)))
        if abs(wins - total) > half:
            return i + 1
    return len(won) + 1


@kernel
def highest_e_value(won: Flags) -> float:
    """Return the highest e-value of a stream, which is 1 before its first list.

    By integration by parts, a win turns e into (2 (wins + 1) e + 1) / (n + 2) and a loss into (2 (losses + 1) e − 1) / (n + 2),
    with the counts before it.
    """
    value = highest = 1.0
    counts = np.zeros(2)
    for i in range(won.shape[0]):
        side = 1 if won[i] else 0
        value = (2.0 * (counts[side] + 1.0) * value + (1.0 if won[i] else -1.0)) / (i + 2.0)
        counts[side] += 1.0
        highest = max(highest, value)
    return highest


if __name__ == "__main__":
    main()
