"""Twin of `DynamicBayesian`: users stop after a click that satisfies them, else they go on with a fixed probability."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.click_model import ClickModelTwin, Users, cascade, counted
from duelrank.lockstep.values import Clicked, Numbers
from duelrank.projection import DynamicBayesian

__all__ = ["DynamicBayesianTwin"]

Array = Any


@twin(DynamicBayesian)
class DynamicBayesianTwin(ClickModelTwin):
    """Columns: perseverance, and satisfaction by a clicked document."""

    def chances(self, numbers: Numbers) -> Array:
        """Return perseverance and satisfaction."""
        return jnp.stack([numbers["perseverance"], numbers["satisfaction"]])

    def seen(self, users: Users, attraction: Array, places: Array, clicked: Clicked) -> Array:
        """Return P(seen | clicks) of each position."""
        perseverance, satisfaction = users.successes / users.trials
        onward = jnp.full(places.shape[0], perseverance * (1.0 - satisfaction))
        return cascade(clicked, places, attraction, onward, perseverance)

    def count(self, users: Users, seen: Array, places: Array, clicked: Clicked, forgetting: Array) -> Users:
        """Count who went on and who was satisfied; who did not go on after a click was satisfied or gave up."""
        perseverance, satisfaction = users.successes / users.trials
        onward = perseverance * (1.0 - satisfaction)
        gave_up = jnp.where(onward < 1.0, 1.0 - satisfaction / jnp.where(onward < 1.0, 1.0 - onward, 1.0), 0.0)
        for i in range(places.shape[0] - 1):
            click, known = clicked.clicks[i], places[i + 1]
            wanting = jnp.where(click, seen[i + 1] + (1.0 - seen[i + 1]) * gave_up, seen[i])
            users = counted(users, 1, 1.0 - wanting, 1.0, forgetting, known & click)
            users = counted(users, 0, seen[i + 1], wanting, forgetting, known)
        return users
