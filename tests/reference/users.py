"""Reference versions of `duelrank.kernels.users`."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.kernels.random import uniform


def cascade(labels: Any, click: Any, stop_clicked: Any, stop_skipped: Any, stream: Any) -> tuple[Any, int]:
    """Scan from the top: click, then stop or continue."""
    clicks = np.zeros(len(labels), bool)
    for position, label in enumerate(labels):
        if label not in range(len(click)):
            return clicks, -1
        clicks[position] = uniform(stream) < click[label]
        table = stop_clicked if clicks[position] else stop_skipped
        by_label = table[position] if position < len(table) else table[-1]
        if uniform(stream) < by_label[label]:
            return clicks, position + 1
    return clicks, len(labels)


def browse(
    labels: Any, click: Any, decay: float, decay_clicked: float, remembers: bool, stream: Any
) -> tuple[Any, bool]:
    """Examine each rank with a probability that depends on it and on the last click above; click examined documents."""
    clicks = np.zeros(len(labels), bool)
    for position, label in enumerate(labels):
        if label not in range(len(click)):
            return clicks, False
        ranks = 1 + np.flatnonzero(clicks[:position])
        rank, last = position + 1, max(ranks, default=0) if remembers else 0
        examined = ((last + 1) / rank) ** decay_clicked if last else (1 / rank) ** decay
        clicks[position] = uniform(stream) < examined * click[label]
    return clicks, True
