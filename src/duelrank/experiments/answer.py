"""Answers a comparison in sentences: the best algorithm for each user, how far ahead it is, and if that is significant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from duelrank.experiments.summary import Estimate, Labels, Measure, Summary
from duelrank.experiments.tabulate import number

_SIGNIFICANT = 0.05
_WINS: dict[Measure, str] = {"online": "collects the most reward", "offline": "has the best final weights"}


class Lead(NamedTuple):
    """How far the best algorithm is ahead with one user on one data set.

    Parameters
    ----------
    best
        The algorithm with the highest mean.
    rival, change
        Its baseline, or else the second, and the relative lead on it; None if the mean of the rival is 0.
    p
        The p-value of the test of that difference; None if it was not tested.
    """

    best: Estimate
    rival: str
    change: float | None
    p: float | None

    @property
    def is_significant(self) -> bool:
        """Whether the difference was tested and is significant."""
        return self.p is not None and self.p < _SIGNIFICANT


def answer(summaries: Sequence[Summary], labels: Labels | None = None) -> str:
    """Return a paragraph of one sentence per measure; empty if there is only one algorithm.

    Examples
    --------
    >>> from duelrank.experiments import compare, summarise
    >>> from duelrank.experiments.answer import answer
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> answer([summarise(results, "offline")])
    'mgd-dsp has the best final weights with perfect users (+20.3% against mgd, not significant).'
    """
    if len(summaries[0].algorithms) < 2:
        return ""
    return "\n\n".join(
        (_on_one_data_set if len(each.datasets) == 1 else _on_many)(each.measure, leads(each), labels or {})
        for each in summaries
    )


def leads(summary: Summary) -> list[Lead]:
    """Return the lead of the best algorithm for each data set and user."""
    places = dict.fromkeys((each.dataset, each.user) for each in summary.estimates)
    cells = [[each for each in summary.estimates if (each.dataset, each.user) == place] for place in places]
    return [_lead(sorted(cell, key=lambda each: -each.mean)) for cell in cells]


def _lead(cell: list[Estimate]) -> Lead:
    best = cell[0]
    if best.baseline or len(cell) == 1:
        return Lead(best, best.baseline, best.change, best.p)
    second = cell[1]
    change = best.mean / second.mean - 1.0 if second.mean else None
    return Lead(best, second.algorithm, change, second.p if second.baseline == best.algorithm else None)


def _on_one_data_set(measure: Measure, found: list[Lead], labels: Labels) -> str:
    """Name the best algorithm for each user, and its lead."""
    users: dict[str, list[str]] = {}
    for lead in found:
        user = labels.get(lead.best.user, lead.best.user)
        users.setdefault(labels.get(lead.best.algorithm, lead.best.algorithm), []).append(
            f"{user} users ({_lead_text(lead, labels)})"
        )
    first, *others = [(name, _listed(each)) for name, each in users.items()]
    return "; ".join([f"{first[0]} {_WINS[measure]} with {first[1]}", *(f"{a} with {b}" for a, b in others)]) + "."


def _listed(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _lead_text(lead: Lead, labels: Labels) -> str:
    if lead.change is None:
        return "not compared"
    shown = "not tested" if lead.p is None else "p < 0.001" if lead.p < 0.001 else f"p = {number(lead.p, 3)}"
    sure = shown if lead.p is None or lead.is_significant else "not significant"
    return f"{number(100.0 * lead.change, 1, sign=True)}% against {labels.get(lead.rival, lead.rival)}, {sure}"


def _on_many(measure: Measure, found: list[Lead], labels: Labels) -> str:
    """Count the data sets and users for which each algorithm is the best."""
    (first, most), *others = Counter(lead.best.algorithm for lead in found).most_common()
    text = f"{labels.get(first, first)} {_WINS[measure]} in {most} of {len(found)} pairs of a data set and a user"
    more = "".join(f", {labels.get(name, name)} in {count}" for name, count in others)
    tested, sure = sum(lead.p is not None for lead in found), sum(lead.is_significant for lead in found)
    return f"{text}{more}; {sure} of {tested} tested leads are significant." if tested else f"{text}{more}; not tested."
