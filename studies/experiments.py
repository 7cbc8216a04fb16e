"""Counts the false decisions of experiments: equal systems, compared by the service's own machine, with a look after every list.

All systems see which of twenty documents are relevant, with independent noise of the same size. With ``--find``, users want one
document, and each system returns it first in half of the lists, else not at all. In a share ``--copied`` of the lists, the second
system returns what the first does. Lists that the first system has won are closed at once, others ``--delay`` lists later: in the
order of closing (``--closing``), it seems to be better. Prints the share of experiments in which a system was ever called better.
1,000 experiments of 500 lists take about three minutes of one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from duelrank.service import log
from duelrank.service.definition import OLD
from duelrank.service.experiment_machine import ExperimentMachine
from duelrank.service.experiments import ExperimentDefinition, ExperimentSpec
from duelrank.storage import Event

DOCUMENTS = 20
LENGTH = 10


def main() -> None:
    """Print the share of experiments with a false decision."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--experiments", type=int, default=1000)
    options.add_argument("--lists", type=int, default=1000)
    options.add_argument("--systems", type=int, default=3)
    options.add_argument("--delay", type=int, default=20)
    options.add_argument("--noise", type=float, nargs="*", default=[], help="of each system; 1.0 for those not given")
    options.add_argument("--find", action="store_true", help="users want one document")
    options.add_argument(
        "--copied", type=float, default=0.0, help="share of lists in which the first two systems agree"
    )
    options.add_argument(
        "--closing", action="store_true", help="count lists when they close, without waiting for others"
    )
    options.add_argument("--multileaver", default="PairDraft()")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    noise = [*given.noise, *[1.0] * given.systems][: given.systems]
    decided, counts, wins = 0, [], np.zeros((given.systems, given.systems), np.int64)
    for number in range(given.experiments):
        experiment = Simulated(number, noise, given)
        decided += experiment.ever_decided()
        counts.append(experiment.machine.status.decisive)
        wins += experiment.machine._counts.wins
    share, mean = decided / given.experiments, np.mean(counts)
    rate = wins[0, -1] / max(wins[0, -1] + wins[-1, 0], 1)
    print(
        f"{given.experiments:,} experiments of {given.systems} systems, {given.lists:,} lists each ({mean:,.0f} decisive), noise "
        f"{noise}: in {share:.1%} a system was ever said to be better (level 0.05); the first won {rate:.1%} against the last"
    )


class Simulated:
    """One experiment: its users, and the machine that counts their clicks."""

    def __init__(self, number: int, noise: list[float], given: argparse.Namespace) -> None:
        self.rng = np.random.default_rng((given.seed, number))
        self.noise, self.lists, self.delay = noise, given.lists, given.delay
        self.find, self.copied, self.closing = given.find, given.copied, given.closing
        systems = tuple(f"s{place}" for place in range(given.systems))
        spec = ExperimentSpec("aa", systems, multileaver=given.multileaver, length=LENGTH)
        self.definition = ExperimentDefinition(spec, salt=number.to_bytes(8, "little"))
        self.stored: dict[str, tuple[log.StoredImpression, list[list[str]]]] = {}
        self.machine = ExperimentMachine(self.definition, lambda id, _: self.stored.pop(id))

    def ever_decided(self) -> bool:
        """Look after each list, until all are counted."""
        decided, counted = False, 0
        for number, event in enumerate(self.events(), 1):
            self.machine.apply(Event(number, "aa", *event))
            if self.closing:
                self.machine.order.drop(number)  # it is not waited for
            if (now := self.machine._counts.impressions) > counted:
                counted = now
                result = self.machine._counts.result(self.definition.spec.systems, self.machine._history, "anytime")
                decided = decided or bool(np.nanmin(result.p_values) < self.definition.spec.level)
        return decided

    def events(self) -> Iterator[tuple[str, str, float, bytes]]:
        """Yield the events of the log: kind, key, time and body."""
        closing: dict[int, list[tuple[str, int]]] = {}
        for number in range(self.lists + self.delay + 1):
            time = 60.0 * number
            for id, first in closing.pop(number, ()):
                yield log.CLOSED, str(first), time, log.pack(id)
            if number < self.lists:
                id = f"i{number}"
                clicks, won = self.show(id)
                yield log.IMPRESSION, id, time, log.pack(self.stored[id][0])
                yield log.FEEDBACK, f"e{number}", time, log.pack(log.StoredFeedback(id, clicks, None, None))
                closing.setdefault(number + (0 if won else self.delay), []).append((id, number))
                for each, first in closing.pop(number, ()):
                    yield log.CLOSED, str(first), time, log.pack(each)

    def show(self, id: str) -> tuple[list[int], bool]:
        """Merge the lists of the systems for one query; return the positions that its user clicks, and whether the first wins."""
        relevant = np.arange(DOCUMENTS) == 0 if self.find else self.rng.random(DOCUMENTS) < 0.2
        lists = [self.ranked(relevant, each) for each in self.noise]
        if self.copied and self.rng.random() < self.copied:
            lists[1] = lists[0]
        impression, documents = self.definition.merge(id, lists, LENGTH)
        order = impression.ranking.tolist()
        self.stored[id] = log.StoredImpression.of(0, documents, order, OLD), lists
        shown = relevant[[int(documents[place]) for place in order]]
        examined = self.rng.random(LENGTH) < np.arange(1, LENGTH + 1) ** -0.5
        clicked = examined & (self.rng.random(LENGTH) < np.where(shown, 0.6, 0.0 if self.find else 0.1))
        won = self.definition.preferences(id, impression, clicked.astype(float))[0].max() > 0.0
        return np.flatnonzero(clicked).tolist(), bool(won)

    def ranked(self, relevant: np.ndarray, noise: float) -> list[str]:
        """Return the list of one system."""
        if not self.find:
            return [str(document) for document in np.argsort(self.rng.normal(0.0, noise, DOCUMENTS) - relevant)]
        others = (1 + self.rng.permutation(DOCUMENTS - 1)).tolist()
        return [str(document) for document in ([0, *others] if self.rng.random() < 0.5 else others)]


if __name__ == "__main__":
    main()
