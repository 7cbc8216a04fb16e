"""A new algorithm in one file: duel candidates that change the weight of a single feature each.

Try it without touching the package:

    duelrank --load examples/one_feature.py compare one-feature mgd --users navigational --runs 2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank import MGD, alias, register
from duelrank.core.registry import Between
from duelrank.core.types import Directions, Query, State, Stream
from duelrank.exploration import Exploration
from duelrank.kernels.random import below


@register
@dataclass(frozen=True, repr=False)
class OneFeature(Exploration):
    """Try more, or less, of single features that are drawn at random."""

    n_candidates: Annotated[int, Between(1, 1000)] = 9

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw features, and for each whether to raise or to lower its weight."""
        drawn = np.zeros((self.n_candidates, state.weights.shape[0]))
        for row in drawn:
            row[below(stream, row.size)] = 1.0 if below(stream, 2) else -1.0
        return drawn


alias("one-feature", MGD(exploration=OneFeature()))
