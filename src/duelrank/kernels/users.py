"""Kernels of simulated users."""

from __future__ import annotations

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Flags, Floats, Labels, Stream
from duelrank.kernels.elementary import power
from duelrank.kernels.random import uniform


@kernel
def cascade(
    labels: Labels, click: Floats, stop_clicked: Floats, stop_skipped: Floats, stream: Stream
) -> tuple[Flags, int]:
    """Scan from the top: click by P(click | label), then stop. Returns the clicks and the number of positions seen.

    The probability to stop depends on whether there was a click, on the rank (the rows of both tables; the last row holds for all
    ranks below) and on the label. Every position takes two draws, so that one stream is the same user on any list. A label
    without probabilities ends the scan with −1 seen.
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
    labels: Labels, click: Floats, decay: float, decay_clicked: float, remembers: bool, stream: Stream
) -> tuple[Flags, bool]:
    """Click at rank r by P(examine) · P(click | label). Returns the clicks, and whether all labels have probabilities.

    A user who does not remember the last click, or has not clicked yet, examines rank r with probability r^−decay; after a click
    at rank l, with ((l + 1) / r)^decay_clicked, which is 1 just below it and falls with the distance. Every position takes one
    draw.
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
