"""Slow twins of `duelrank.kernels.users`."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.kernels.random import uniform


def cascade(labels: Any, click: Any, stop: Any, stop_without_click: bool, stream: Any) -> tuple[Any, int]:
    """Scan from the top: click, then stop or go on."""
    clicks = np.zeros(len(labels), bool)
    for position, label in enumerate(labels):
        if label not in range(len(click)):
            return clicks, -1
        clicks[position] = uniform(stream) < click[label]
        stops = uniform(stream) < stop[label]
        if stops and (clicks[position] or stop_without_click):
            return clicks, position + 1
    return clicks, len(labels)
