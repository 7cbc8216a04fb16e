"""Slow twins of `duelrank.kernels.leaving`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.random import below

Ints = NDArray[np.int64]


def shown_ranks(rankings: Ints, ranking: Ints) -> Ints:
    """Rank of each shown document in each ranking."""
    return np.array([[order.tolist().index(document) for document in ranking] for order in rankings], np.int64)


def draw_lists(rankings: Ints, length: int, n_lists: int, stream: Any) -> Ints:
    """Draw lists whose every position is some ranker's best document not yet there."""
    lists: list[list[int]] = []
    for _ in range(n_lists):
        shown: list[int] = []
        for _ in range(length):
            order = rankings[below(stream, rankings.shape[0])]
            shown.append(next(int(document) for document in order if document not in shown))
        lists.append(shown)
    return np.array(lists, np.int64)
