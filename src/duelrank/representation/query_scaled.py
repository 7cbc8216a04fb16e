"""The place of each value in the range of its query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.preparation import scale_queries, scale_query
from duelrank.registry import alias, register
from duelrank.representation.base import Curve, Domain, Representation
from duelrank.types import Features, Memory, Weights

__all__ = ["QueryScaled", "query_scaled"]


@register
@dataclass(frozen=True, repr=False)
class QueryScaled(Representation):
    """Scale each feature to [0, 1] among the documents of a query; 0 if all values are equal: what the field has always done.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import QueryScaled
    >>> QueryScaled().apply(np.array([[10.0, 3.0], [30.0, 3.0], [20.0, 3.0]]), {}).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
    """

    within_unit: ClassVar[bool] = True
    domain: ClassVar[Domain] = "query range"

    def apply(self, features: Features, memory: Memory) -> Features:
        """Scale within these documents, bit for bit as data sets are scaled for training."""
        return query_scaled(features)

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Scale within each query."""
        scaled = np.empty(features.shape)
        scale_queries(features, offsets, np.arange(features.shape[1]), scaled)
        return scaled

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return a straight line from 0 to the weight for each feature."""
        return [Curve(np.array([0.0, 1.0]), np.array([0.0, weight]), "line") for weight in weights.tolist()]


def query_scaled(features: Features) -> Features:
    """Return the features of one query's documents, each scaled to [0, 1] among them."""
    scaled: Features = scale_query(features)
    return scaled


alias("query-scaled", QueryScaled())
