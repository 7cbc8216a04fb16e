"""Twin of `ContestedPairs`: team-draft lists, and points for contested pairs that clicks decide."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.sample_only_scored import SampleOnlyScoredTwin
from duelrank.lockstep.values import Clicked, Numbers, Query
from duelrank.multileaving import ContestedPairs

__all__ = ["ContestedPairsTwin"]

Array = Any


@twin(ContestedPairs)
class ContestedPairsTwin(SampleOnlyScoredTwin):
    """Lists and evidence are those of `SampleOnlyScored`."""

    def assign_credit(self, numbers: Numbers, evidence: Array, query: Query, clicked: Clicked) -> Array:
        """Return Σ ρ over the pairs that a ranker has as the user prefers them; [ranker, better, worse] position."""
        position = jnp.arange(evidence.shape[-1])
        seen = (position <= clicked.last) & query.places
        prefers = clicked.clicks[:, None] & (seen & ~clicked.clicks)[None, :]
        agree = evidence[:, :, None] < evidence[:, None, :]
        above = jnp.mean(agree, axis=0, dtype=jnp.float64)
        other_way = jnp.where(position[:, None] < position[None, :], above.T, above)
        return jnp.sum(jnp.where(agree & prefers, other_way, 0.0), axis=(-2, -1))
