"""Twin of `BestWinner`: the direction of the clearest winner."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from duelrank.inference import BestWinner
from duelrank.kernels.inference import MARGIN
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.mean_winner import InferenceTwin
from duelrank.lockstep.values import Numbers

__all__ = ["BestWinnerTwin"]


@twin(BestWinner)
class BestWinnerTwin(InferenceTwin):
    """Of a tie the first wins."""

    def combine(self, numbers: Numbers, directions: Any, margin: Any) -> Any:
        """Return the direction with the most credit if it beats the current ranker."""
        best = jnp.argmax(margin)
        return jnp.where(margin[best] > MARGIN, directions[best], 0.0)
