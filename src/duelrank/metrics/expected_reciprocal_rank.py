"""Expected reciprocal rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.kernels import metrics as kernel
from duelrank.metrics.base import Metric
from duelrank.registry import Between, register
from duelrank.types import Labels

__all__ = ["ERR"]


@register
@dataclass(frozen=True, repr=False)
class ERR(Metric):
    """Expected 1 / position at which a user who scans from the top is satisfied.

    Parameters
    ----------
    max_grade
        The highest grade of the data: P(satisfied) = (2^grade − 1) / 2^max_grade. A grade above it counts as it.

    References
    ----------
    Chapelle et al., "Expected reciprocal rank for graded relevance" (CIKM 2009).

    Examples
    --------
    A perfect document satisfies nearly all who see it, a fair one few; so what comes first matters most.

    >>> import numpy as np
    >>> from duelrank.metrics import ERR
    >>> for grades in ([4, 1, 0], [1, 4, 0]):
    ...     shown = np.array(grades, np.int8)
    ...     print(round(ERR(max_grade=4).of(shown, labels=shown), 3))
    0.939
    0.502
    """

    max_grade: Annotated[int, Between(1, 30)] = 4

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the expected reciprocal rank of one list."""
        return float(kernel.expected_reciprocal_rank(shown, self.depth, self.max_grade))
