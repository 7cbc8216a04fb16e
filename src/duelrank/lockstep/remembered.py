"""The twin of the memory of queries: clicks and views of all training documents of a run, in one table."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax

from duelrank.algorithms.remembered import RATE_KEPT, Remember
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.projection import ExaminationTwin
from duelrank.lockstep.twin import Array, Clicked, DType, Memory, Numbers, Query, Shown, Sizes, Twin, twin


class Recent(NamedTuple):
    """Recent clicks and views of all queries, (2,), and the memory of the examination."""

    rate: Array
    examination: Memory


@twin(Remember)
class RememberTwin(Twin):
    """Has a row for each training document, so no query and no document is ever forgotten.

    The table of all documents is updated in place. It is an argument of its own, and no function may select between an old and a
    new one, which would copy it for every list.
    """

    ignored: ClassVar[tuple[str, ...]] = ("queries", "documents")
    examination: ExaminationTwin

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of two copies of the table."""
        return super().room(sizes) + 2 * 2 * 4 * sizes.rows

    def table(self, rows: int, real: DType) -> Array:
        """Return the clicks and views of each document, (rows, 2), before the first list."""
        return jnp.zeros((rows, 2), real)

    def start(self, numbers: Numbers, n_features: int) -> Recent:
        """Return the memory before the first list, apart from the table."""
        return Recent(jnp.zeros(2, jnp.float64), self.examination.start(numbers["examination"], n_features))

    def boosts(self, numbers: Numbers, memory: Recent, table: Array, query: Query, draws: Draws) -> Array:
        """Return the boost of each document of the query."""
        clicks, views = _own(table, query).T
        recent_clicks, recent_views = memory.rate
        rate = recent_clicks / jnp.where(recent_views > 0.0, recent_views, 1.0)
        found = numbers["strength"] * (clicks - rate * views) / (views + numbers["doubt"])
        found = self._raised(numbers, found, views, query, draws)
        # Rounded as on the CPU, where a service stores them in single precision.
        rounded = jnp.where(query.present, found, 0.0).astype(jnp.float32)
        return rounded.astype(draws.real)

    def _raised(self, numbers: Numbers, found: Array, views: Array, query: Query, draws: Draws) -> Array:
        """Return the boosts with the largest one also for a document that was hardly seen, in a share of the lists."""
        hardly_seen = query.present & (views < 1.0)
        place = jnp.argmax(jnp.where(hardly_seen, draws.uniform(Purpose.CURIOUS, hardly_seen.shape), -1.0))
        known = jnp.any(query.present & (views > 0.0))
        due = known & hardly_seen[place] & (draws.uniform(Purpose.CURIOSITY) < numbers["curious"])
        largest = jnp.maximum(jnp.max(jnp.where(query.present, found, 0.0)), 0.0)
        return jnp.where(due & (jnp.arange(len(found)) == place), largest, found)

    def count(
        self, numbers: Numbers, memory: Recent, table: Array, query: Query, shown: Shown, clicked: Clicked
    ) -> tuple[Recent, Array]:
        """Return the memory and the table after a list."""
        own = memory.examination
        seen, users = self.examination.examine(numbers["examination"], own, query, shown, clicked)
        clicks = jnp.where(query.places, clicked.clicks, 0.0)
        pairs = jnp.stack((clicks, jnp.where(query.places, jnp.maximum(clicks, seen), 0.0)), axis=1)
        kept = jnp.where(query.present, 2.0 ** (-1.0 / numbers["half_life"]), 1.0)  # other rows belong to other queries
        places = jnp.arange(len(kept))[:, None] == shown.ranking
        added = jnp.sum(jnp.where(places[:, :, None], pairs, 0.0), axis=1)
        after = (kept[:, None] * _own(table, query) + added).astype(table.dtype)
        rate = RATE_KEPT * memory.rate + jnp.sum(pairs, axis=0)
        return Recent(rate, users), lax.dynamic_update_slice(table, after, (query.own, jnp.int32(0)))


def _own(table: Array, query: Query) -> Array:
    """Return the rows of a query; those from its size on belong to other queries."""
    return lax.dynamic_slice(table, (query.own, jnp.int32(0)), (query.present.shape[0], 2))
