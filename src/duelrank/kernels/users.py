"""Simulated users looking at a list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.core.compiling import kernel
from duelrank.kernels.elementary import power
from duelrank.kernels.random import uniform

Floats = NDArray[np.float64]


@kernel
def cascade(
    labels: NDArray[np.int8], click: Floats, stop_clicked: Floats, stop_skipped: Floats, stream: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], int]:
    """Scan from the top: click by P(click | label), then stop. Returns the clicks and how many positions were seen.

    The chance to stop depends on whether there was a click, on the rank (the rows of both tables; the last row holds for all
    ranks below) and on the label. Two coins are thrown at every position whatever happens, so that one stream is one user
    on any list. A label without probabilities ends the walk with −1 seen.
    """
    clicks = np.zeros(labels.shape[0], np.bool_)
    for position in range(labels.shape[0]):
        label, row = labels[position], min(position, stop_clicked.shape[0] - 1)
        if not 0 <= label < click.shape[0]:
            return clicks, -1
        clicks[position] = uniform(stream) < click[label]
        stop = stop_clicked[row, label] if clicks[position] else stop_skipped[row, label]
        if uniform(stream) < stop:
            return clicks, position + 1
    return clicks, labels.shape[0]


@kernel
def browse(
    labels: NDArray[np.int8],
    click: Floats,
    decay: float,
    decay_clicked: float,
    remembers: bool,
    stream: NDArray[np.uint64],
) -> tuple[NDArray[np.bool_], bool]:
    """Click at rank r by P(examine) · P(click | label). Returns the clicks, and whether all labels have probabilities.

    A user who does not remember the last click, or has not clicked yet, examines rank r with r^−decay; after a click at rank
    l, with ((l + 1) / r)^decay_clicked: surely the next one, and ever less likely those far below. One coin per position.
    """
    clicks = np.zeros(labels.shape[0], np.bool_)
    last, exponent = 0, decay
    for position in range(labels.shape[0]):
        label, rank = labels[position], position + 1
        if not 0 <= label < click.shape[0]:
            return clicks, False
        clicks[position] = uniform(stream) < power((last + 1) / rank, exponent) * click[label]
        if clicks[position] and remembers:
            last, exponent = rank, decay_clicked
    return clicks, True
