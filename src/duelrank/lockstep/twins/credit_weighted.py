"""Twin of `CreditWeighted`: all candidates count, by their margin."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from duelrank.inference import CreditWeighted
from duelrank.kernels.inference import MARGIN
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.mean_winner import InferenceTwin, maybe_unit, weighted_mean
from duelrank.lockstep.values import Numbers

__all__ = ["CreditWeightedTwin"]


@twin(CreditWeighted)
class CreditWeightedTwin(InferenceTwin):
    """Losers count in the opposite direction, if at all."""

    def combine(self, numbers: Numbers, directions: Any, margin: Any) -> Any:
        """Return the mean direction, weighted by margins; those within rounding of zero count as zero."""
        counts = (margin > MARGIN) | ((numbers["losers"] > 0.0) & (margin < -MARGIN))
        weights = jnp.where(counts, margin, 0.0).astype(directions.dtype)
        return maybe_unit(weighted_mean(directions, weights), numbers["unit"])
