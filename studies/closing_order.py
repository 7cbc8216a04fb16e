"""Measures what the order in which guard lists are counted does: false proofs and false alarms, and the delay of a true alarm.

In A/A streams, lists of one outcome close at once, the others some decisive lists later. The order of closing is what guards had
before they counted in the order of showing. Prints Markdown tables; takes two minutes on one core.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from duelrank.core.randomness import stream
from duelrank.evidence import Detector, InOrder, anytime_test
from duelrank.evidence.sequential import _MAX_EVIDENCE, ALTERNATIVES
from duelrank.kernels.random import uniform
from guard_promises import Flags, Floats, constant, detect, highest_e_value

DELAYS = (0, 5, 10, 20, 50, 100)  # decisive lists
LEVEL, EVERY = 0.05, 1_000_000.0
RATES = (1, 10, 100)  # decisive guard lists per minute
WIN_RATE = 0.3
READING, LIMITS = 1.0, (5.0, 30.0)  # minutes: mean time until a client closes a list with a click; close_after


def main() -> None:
    """Print both tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--streams", type=int, default=1000)
    options.add_argument("--lists", type=int, default=2000, help="decisive lists of an A/A stream")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    false_findings(given.streams, given.lists, given.seed)
    delays(given.streams // 5, given.seed)


def false_findings(streams: int, lists: int, seed: int) -> None:
    """Print the share of A/A streams with a proof of gain, an alarm, or a difference by the anytime test, by both orders."""
    print(f"{streams:,} A/A streams of {lists:,} decisive lists; in the order of closing | of showing\n")
    print("| delay | wins close first: gain proved | | losses close first: alarm | | anytime test | |")
    print("|---|---|---|---|---|---|---|")
    chances, times = np.full(lists, 0.5), np.arange(lists, dtype=float)
    for delay in DELAYS:
        found = np.zeros((streams, 6), bool)
        for number in range(streams):
            won, _ = constant(0.5)(len(chances), stream(seed, f"equal {delay}", number))
            for place, first in enumerate((True, False)):
                closed = times + np.where(won == first, 0.0, delay)
                for order, counted in enumerate((won[by_closing(closed)], won[by_showing(closed)])):
                    test = proves_gain(counted) if first else alarm_after(counted) <= len(counted)
                    found[number, 2 * place + order] = test
                    found[number, 4 + order] |= first and differs(counted)
        print(f"| {delay} | {' | '.join(f'{share:.1%}' for share in found.mean(axis=0))} |", flush=True)


def by_closing(closed: Floats) -> NDArray[np.int64]:
    """Return the numbers of lists in the order in which they are closed."""
    return np.argsort(closed, kind="stable")


def by_showing(closed: Floats) -> NDArray[np.int64]:
    """Return the numbers of lists in the order in which they are counted by `InOrder`."""
    order, found = InOrder[int, int](dict.fromkeys(range(len(closed)))), list[int]()
    for number in by_closing(closed).tolist():
        order.close(number, number)
        found += order.ready()
    return np.array(found)


def proves_gain(won: Flags) -> bool:
    """Whether gain is ever proved."""
    return bool(highest_e_value(won) >= 1.0 / LEVEL)


def alarm_after(won: Flags) -> int:
    """Return the number of lists until the alarm, one more than there are if there is none."""
    evidence = np.zeros(len(Detector().evidence))
    taken: int = detect(evidence, np.array(ALTERNATIVES), 0.0, _MAX_EVIDENCE, EVERY, won)[0]
    return taken


def differs(won: Flags) -> bool:
    """Whether the anytime test ever finds a difference; looks after every tenth list."""
    wins, n = np.cumsum(won)[9::10], np.arange(10, len(won) + 1, 10)
    far = np.abs(2 * wins - n) > 2 * np.sqrt(n)  # no smaller difference is significant
    return any(anytime_test(int(w), int(m - w)) <= LEVEL for w, m in zip(wins[far], n[far], strict=True))


def delays(streams: int, seed: int) -> None:
    """Print the time until an alarm by both orders, if lists without a click stay open until their time limit, or are closed too.

    Half of all guard lists are decisive.
    """
    print(f"\nMinutes until the alarm at a win rate of {WIN_RATE}: median of {streams:,} streams\n")
    heads = ["by closing", "by showing, clients close all", *(f"by showing, close_after {limit:g}" for limit in LIMITS)]
    print(f"| decisive guard lists per minute | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for rate in RATES:
        minutes = [times_of_alarm(rate, stream(seed, f"worse {rate}", number)) for number in range(streams)]
        print(f"| {rate} | {' | '.join(f'{each:.1f}' for each in np.median(minutes, axis=0))} |", flush=True)


def times_of_alarm(rate: float, draws: NDArray[np.uint64], lists: int = 4000) -> list[float]:
    """Return the minutes until the alarm: by closing; by showing, if all are closed after reading; and for each time limit."""
    won, _ = constant(WIN_RATE)(lists, draws)
    shown = np.arange(lists) / rate
    reading = np.array([-READING * np.log1p(-uniform(draws)) for _ in range(2 * lists)])
    closed = shown + reading[:lists]
    first = by_closing(closed)
    times = [closed[first][alarm_after(won[first]) - 1]]
    last = alarm_after(won) - 1
    unclicked = shown + 0.5 / rate  # one after each decisive list
    for limit in (np.inf, *LIMITS):
        clicked = shown + np.minimum(reading[:lists], limit)
        until = unclicked + (reading[lists:] if limit == np.inf else limit)
        times.append(max(clicked[: last + 1].max(), until[:last].max(initial=0.0)))
    return times


if __name__ == "__main__":
    main()
