"""Slow twins of `duelrank.kernels.leaving`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.leaving import MISSING
from duelrank.kernels.random import below

Ints = NDArray[np.int64]


def shown_ranks(rankings: Ints, ranking: Ints) -> Ints:
    """Rank of each shown document in each ranking."""
    orders = [order.tolist() for order in rankings]
    return np.array([[order.index(d) if d in order else MISSING for d in ranking] for order in orders], np.int64)


def returned(rankings: Ints) -> Ints:
    """How many documents each ranker returned."""
    return np.array([len([d for d in order if d >= 0]) for order in rankings], np.int64)


def next_new(order: Ints, start: int, shown: Any) -> int:
    """The first rank of a document that is not yet shown."""
    return next((r for r in range(start, len(order)) if order[r] >= 0 and not shown[order[r]]), -1)


def draw_lists(rankings: Ints, length: int, n_lists: int, stream: Any) -> Ints:
    """Draw lists whose every position is some ranker's best document not yet there."""
    lists: list[list[int]] = []
    for _ in range(n_lists):
        shown: list[int] = []
        for _ in range(length):
            left: list[int] = []
            while not left:
                order = rankings[below(stream, rankings.shape[0])]
                left = [int(document) for document in order if document >= 0 and document not in shown]
            shown.append(left[0])
        lists.append(shown)
    return np.array(lists, np.int64)
