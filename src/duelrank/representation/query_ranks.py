"""The rank of each value within its query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from duelrank.kernels.representation import query_ranks
from duelrank.registry import alias, register
from duelrank.representation.base import Curve, Domain, Representation
from duelrank.types import Features, Memory, Weights

__all__ = ["QueryRanks"]


@register
@dataclass(frozen=True, repr=False)
class QueryRanks(Representation):
    """Replace each value by its rank among the documents of the query: 0 for the least, 1 for the largest, ties in the middle.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import QueryRanks
    >>> QueryRanks().apply(np.array([[5.0], [900.0], [5.0], [20.0]]), {}).ravel().round(3).tolist()
    [0.167, 1.0, 0.167, 0.667]
    """

    within_unit: ClassVar[bool] = True
    domain: ClassVar[Domain] = "query rank"

    def apply(self, features: Features, memory: Memory) -> Features:
        """Rank within these documents."""
        ranks: Features = query_ranks(features)
        return ranks

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return a straight line from 0 to the weight for each feature."""
        return [Curve(np.array([0.0, 1.0]), np.array([0.0, weight]), "line") for weight in weights.tolist()]


alias("query-ranks", QueryRanks())
