"""Simulated users walking down a list."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from duelrank.kernels.random import uniform

Floats = NDArray[np.float64]


@njit(cache=True)
def cascade(
    labels: NDArray[np.int8], click: Floats, stop: Floats, stop_without_click: bool, stream: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], int]:
    """Scan from the top: click by P(click | label), then stop by P(stop | label). Returns the clicks and how many were seen.

    Two coins are thrown at every position whatever happens, so that one stream is one user on any list. A label without
    probabilities ends the walk with −1 seen.
    """
    clicks = np.zeros(labels.shape[0], np.bool_)
    for position in range(labels.shape[0]):
        if not 0 <= labels[position] < click.shape[0]:
            return clicks, -1
        clicks[position] = uniform(stream) < click[labels[position]]
        stops = uniform(stream) < stop[labels[position]]
        if stops and (stop_without_click or clicks[position]):
            return clicks, position + 1
    return clicks, labels.shape[0]
