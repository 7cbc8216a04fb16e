"""How far users go on from one click to the next, in a table of clicks (row 0) out of chances (row 1).

Column g ≥ 1 counts positions that are g below a click with no other click between; the last column also those further away.
Column 0 counts positions that have no click above: there users are still looking for their first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel

Floats = NDArray[np.float64]


@kernel
def count_gaps(clicks: NDArray[np.bool_], gaps: Floats, forgetting: float) -> Floats:
    """Return the table after one list; each new chance makes the earlier ones of its column count ``forgetting`` times as much."""
    gaps = gaps.copy()
    gap = 0
    for position in range(clicks.shape[0]):
        column = min(gap, gaps.shape[1] - 1)
        gaps[0, column] = forgetting * gaps[0, column] + clicks[position]
        gaps[1, column] = forgetting * gaps[1, column] + 1.0
        if clicks[position]:
            gap = 1
        elif gap > 0:
            gap += 1
    return gaps


@kernel
def reach(gaps: Floats, room: int, level: float) -> int:
    """How many of the ``room`` positions below the last click were seen with at least a probability.

    Where a seen document is clicked with probability a, one that is clicked with λ was seen with λ/a, and if it was not clicked
    with (λ/a − λ)/(1 − λ), the ratio of their odds. Column 0 gives a: who has not clicked yet is taken to look at everything.
    """
    a = gaps[0, 0] / gaps[1, 0]
    for gap in range(1, room + 1):
        column = min(gap, gaps.shape[1] - 1)
        clicked = gaps[0, column] / gaps[1, column]
        seen = 1.0 if clicked >= a and clicked > 0.0 else 0.0
        if 0.0 < clicked < a:
            seen = clicked * (1.0 - a) / (a * (1.0 - clicked))
        if seen < level:
            return gap - 1
    return room
