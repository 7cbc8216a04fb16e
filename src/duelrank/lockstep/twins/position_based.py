"""Twin of `PositionBased`: each position is seen with its own probability."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.click_model import ClickModelTwin, Users, counted
from duelrank.lockstep.values import Clicked, Numbers
from duelrank.projection import PositionBased
from duelrank.projection.click_model import POSITIONS

__all__ = ["PositionBasedTwin"]

Array = Any


@twin(PositionBased)
class PositionBasedTwin(ClickModelTwin):
    """A column per position; the first is always seen."""

    from_top: ClassVar[bool] = False

    def chances(self, numbers: Numbers) -> Array:
        """Return P(seen) per position."""
        return jnp.arange(1.0, POSITIONS + 1.0) ** -numbers["bias"]

    def seen(self, users: Users, attraction: Array, places: Array, clicked: Clicked) -> Array:
        """Return P(seen | clicks) of each position."""
        prior = (users.successes / users.trials)[np.minimum(np.arange(places.shape[0]), POSITIONS - 1)]
        return jnp.where(clicked.clicks, 1.0, prior * (1.0 - attraction) / (1.0 - prior * attraction))

    def count(self, users: Users, seen: Array, places: Array, clicked: Clicked, forgetting: Array) -> Users:
        """Count who saw each position; with a ``forgetting`` of 1, t lists count as t^0.6."""
        for i in range(1, places.shape[0]):
            column = min(i, POSITIONS - 1)
            known = users.trials[column]
            fading = 1.0 - (1.0 - 0.6 * known ** (-2.0 / 3.0)) / known
            users = counted(users, column, seen[i], 1.0, jnp.where(forgetting == 1.0, fading, forgetting), places[i])
        return users
