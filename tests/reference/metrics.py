"""Reference versions of `duelrank.kernels.metrics`, by their textbook formulas."""

from __future__ import annotations

from collections.abc import Iterable
from math import log2
from typing import Any

import numpy as np


def _sum(terms: Iterable[float]) -> float:
    """Add the terms in order, as the kernels do; since Python 3.12 `sum` compensates rounding errors."""
    total = 0.0
    for term in terms:
        total += term
    return total


def dcg(labels: Any, cutoff: int, exponential: bool) -> float:
    """Return Σ gain / log2(position + 1) over the first positions."""
    gains = [2.0 ** int(label) - 1.0 if exponential else float(label) for label in labels[:cutoff]]
    return _sum(gain / log2(position + 2) for position, gain in enumerate(gains))


def ideal_dcg(labels: Any, cutoff: int, exponential: bool) -> float:
    """Return the DCG of the labels sorted best first."""
    return dcg(np.sort(labels)[::-1], cutoff, exponential)


def ndcg(shown: Any, labels: Any, cutoff: int, exponential: bool) -> float:
    """Return the DCG over ideal DCG."""
    ideal = ideal_dcg(labels, cutoff, exponential)
    return dcg(shown, cutoff, exponential) / ideal if ideal else 0.0


def reciprocal_rank(shown: Any, cutoff: int) -> float:
    """Return 1 / position of the first relevant document."""
    relevant = np.flatnonzero(shown[:cutoff] > 0)
    return 1.0 / (relevant[0] + 1) if relevant.size else 0.0


def average_precision(shown: Any, labels: Any, cutoff: int) -> float:
    """Return the mean precision at the relevant documents."""
    relevant = np.flatnonzero(shown[:cutoff] > 0)
    total = _sum((i + 1) / (position + 1) for i, position in enumerate(relevant))
    return float(total / np.sum(labels > 0)) if np.any(labels > 0) else 0.0


def expected_reciprocal_rank(shown: Any, cutoff: int, max_grade: int) -> float:
    """Return Σ P(satisfied first at position) / position."""
    satisfied = [(2.0 ** min(int(label), max_grade) - 1.0) / 2.0**max_grade for label in shown[:cutoff]]
    before = np.cumprod([1.0, *(1.0 - s for s in satisfied)])
    return float(_sum(before[i] * s / (i + 1) for i, s in enumerate(satisfied)))


def precision(shown: Any, cutoff: int) -> float:
    """Return the share of relevant documents in the first positions."""
    return float(np.sum(shown[:cutoff] > 0) / cutoff)
