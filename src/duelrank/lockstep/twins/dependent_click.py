"""Twin of `DependentClick`: users scan from the top, and may leave after a click."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.click_model import ClickModelTwin, Users, cascade, counted
from duelrank.lockstep.values import Clicked, Numbers
from duelrank.projection import DependentClick
from duelrank.projection.click_model import POSITIONS

__all__ = ["DependentClickTwin"]

Array = Any


@twin(DependentClick)
class DependentClickTwin(ClickModelTwin):
    """Columns: going on after a click, per position, and last going on after a document that was not clicked."""

    def chances(self, numbers: Numbers) -> Array:
        """Return P(continue | clicked) per position, then P(continue | not clicked)."""
        return jnp.where(jnp.arange(POSITIONS + 1) < POSITIONS, numbers["after_click"], numbers["after_skip"])

    def seen(self, users: Users, attraction: Array, places: Array, clicked: Clicked) -> Array:
        """Return P(seen | clicks) of each position."""
        onward = users.successes / users.trials
        after_click = onward[np.minimum(np.arange(places.shape[0]), POSITIONS - 1)]
        return cascade(clicked, places, attraction, after_click, onward[POSITIONS])

    def count(self, users: Users, seen: Array, places: Array, clicked: Clicked, forgetting: Array) -> Users:
        """Count who went on from each position; after the last one it cannot be known."""
        for i in range(places.shape[0] - 1):
            column = jnp.where(clicked.clicks[i], min(i, POSITIONS - 1), POSITIONS)
            users = counted(users, column, seen[i + 1], seen[i], forgetting, places[i + 1])
        return users
