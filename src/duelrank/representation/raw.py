"""Features as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.registry import alias, register
from duelrank.representation.base import Curve, Representation
from duelrank.types import Features, Memory, Weights

__all__ = ["Raw"]


@register
@dataclass(frozen=True, repr=False)
class Raw(Representation):
    """Weigh the features as they are: only where all of them have a similar range.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Raw
    >>> Raw().apply(np.array([[5.0, 0.3]]), {}).tolist()
    [[5.0, 0.3]]
    """

    def apply(self, features: Features, memory: Memory) -> Features:
        """Return the features."""
        return features

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Return the features."""
        return features

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return a straight line of the weight's slope for each feature."""
        return [Curve(np.array([0.0, 1.0]), np.array([0.0, weight]), "line") for weight in weights.tolist()]


alias("raw", Raw())
