"""Kernels of metrics: functions of the labels of a list in shown order."""

from __future__ import annotations

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Labels
from duelrank.kernels.elementary import log2, power_of_two


@kernel
def _gain(label: int, exponential: bool) -> float:
    return power_of_two(label) - 1.0 if exponential else float(label)


@kernel
def dcg(labels: Labels, cutoff: int, exponential: bool) -> float:
    """Return Σ gain / log2(position + 1) over the first positions, position from 1."""
    total = 0.0
    for position in range(min(cutoff, labels.shape[0])):
        if labels[position] > 0:
            total += _gain(labels[position], exponential) / log2(position + 2.0)
    return total


@kernel
def ideal_dcg(labels: Labels, cutoff: int, exponential: bool) -> float:
    """Return the DCG of the best order of the labels; the labels are counted, not sorted."""
    counts = np.zeros(128, np.int64)  # one per int8 grade from 0 up
    for label in labels:
        counts[max(label, 0)] += 1
    total, position = 0.0, 0
    for grade in range(counts.shape[0] - 1, 0, -1):
        for _ in range(min(counts[grade], cutoff - position)):
            total += _gain(grade, exponential) / log2(position + 2.0)
            position += 1
    return total


@kernel
def ndcg(shown: Labels, labels: Labels, cutoff: int, exponential: bool) -> float:
    """Return the DCG of the shown list over the ideal DCG of all labels of the query; 0 if nothing is relevant."""
    ideal = ideal_dcg(labels, cutoff, exponential)
    return dcg(shown, cutoff, exponential) / ideal if ideal > 0.0 else 0.0


@kernel
def reciprocal_rank(shown: Labels, cutoff: int) -> float:
    """Return 1 / position of the first relevant document; 0 if there is none."""
    for position in range(min(cutoff, shown.shape[0])):
        if shown[position] > 0:
            return 1.0 / (position + 1.0)
    return 0.0


@kernel
def average_precision(shown: Labels, labels: Labels, cutoff: int) -> float:
    """Return the precision at the position of each relevant document, averaged over all relevant documents of the query."""
    relevant = np.sum(labels > 0)
    hits, total = 0, 0.0
    for position in range(min(cutoff, shown.shape[0])):
        if shown[position] > 0:
            hits += 1
            total += hits / (position + 1.0)
    return total / relevant if relevant > 0 else 0.0


@kernel
def expected_reciprocal_rank(shown: Labels, cutoff: int, max_grade: int) -> float:
    """Return the expected 1 / position at which a cascade user is satisfied, P(satisfied) = (2^label − 1) / 2^max_grade.

    A label above the highest grade counts as the highest grade.
    """
    going_on, total = 1.0, 0.0
    for position in range(min(cutoff, shown.shape[0])):
        satisfied = (power_of_two(min(shown[position], max_grade)) - 1.0) / power_of_two(max_grade)
        total += going_on * satisfied / (position + 1.0)
        going_on *= 1.0 - satisfied
    return total


@kernel
def precision(shown: Labels, cutoff: int) -> float:
    """Return the share of relevant documents in the first positions; positions past the end of the list count as irrelevant."""
    hits = 0
    for position in range(min(cutoff, shown.shape[0])):
        hits += shown[position] > 0
    return hits / cutoff
