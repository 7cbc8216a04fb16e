"""Twin of `DocumentSpace`: projects a gradient onto the span of examined documents, remembered by their row numbers."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from duelrank.lockstep.twin import Twin, twin
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown, Sizes
from duelrank.projection import DocumentSpace

__all__ = ["DocumentSpaceTwin", "project", "rescaled_mix", "solve"]

Array = Any

_ROOM = 10  # recipes that remember up to so many documents share a program, and so on in steps of it
_WRITTEN_OUT = 32  # rounds of a loop: beyond that, compiling takes minutes


class Examined(NamedTuple):
    """Rows of the table of all documents, the newest last, −1 where there is none; their weights; what is known of users."""

    rows: Array
    weights: Array
    users: Memory


@twin(DocumentSpace)
class DocumentSpaceTwin(Twin):
    """Remembers documents by their rows, and their weights only if an examination gives others than 0 and 1."""

    shaping: ClassVar[tuple[str, ...]] = ("remembered",)
    ignored: ClassVar[tuple[str, ...]] = ("basis", "tolerance", "centred")
    absent: ClassVar[dict[str, float]] = {"ridge": 0.0}
    codes: ClassVar[dict[str, dict[str, float]]] = {"rescale": {"none": 0.0, "unit": 1.0, "preserve": 2.0}}
    examination: Any

    @classmethod
    def refuses(cls, part: Any) -> str | None:
        """Refuse what is not written for lockstep yet."""
        if part.centred:
            return "DocumentSpace(centred=True) has no lockstep twin"
        return None if part.tolerance is None else "DocumentSpace(tolerance=…) has no lockstep twin"

    def shaped(self, name: str) -> Any:
        """Round the number of remembered documents up."""
        return -(-super().shaped(name) // _ROOM) * _ROOM

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of the documents and of the system of equations, three times in double precision."""
        rows = int(self.shaped("remembered")) + sizes.length
        return super().room(sizes) + 24 * rows * (rows + 1 + sizes.columns)

    def start(self, numbers: Numbers, n_features: int) -> Examined:
        """Return the memory before the first impression."""
        capacity = self.shaped("remembered")
        weights = jnp.zeros(capacity) if self.examination.graded else ()
        users = self.examination.start(numbers["examination"], n_features)
        return Examined(jnp.full(capacity, -1, jnp.int32), weights, users)

    def project(
        self, numbers: Numbers, gradient: Array, memory: Examined, query: Query, shown: Shown, clicked: Clicked
    ) -> tuple[Array, Memory]:
        """Return the projected gradient; documents of clicked impressions are then remembered."""
        weights, users = self.examination.examine(numbers["examination"], memory.users, query, shown, clicked)
        seen = (weights > numbers["threshold"]) & query.places
        rows = jnp.concatenate((memory.rows, self._first(seen, query.start + shown.ranking, -1)))
        documents = jnp.where((rows >= 0)[:, None], query.documents(jnp.maximum(rows, 0)), 0.0)
        known = memory._replace(users=users)
        n_seen, keeps = jnp.sum(seen, dtype=jnp.int32), clicked.last > 0
        if self.examination.graded:
            weights = jnp.concatenate((memory.weights, self._first(seen, weights, 0.0)))
            scale = jnp.where(numbers["ridge"] > 0.0, jnp.sqrt(weights), 1.0)
            documents = documents * scale[:, None].astype(documents.dtype)
            known = known._replace(weights=_newest(memory.weights, weights, n_seen, keeps))
        projected = project(gradient, documents, numbers["ridge"])
        mixed = rescaled_mix(gradient, projected, numbers["strength"], numbers["rescale"])
        recent = jnp.arange(memory.rows.shape[0]) >= memory.rows.shape[0] - numbers["remembered"]
        kept = jnp.where(recent, _newest(memory.rows, rows, n_seen, keeps), -1)
        return mixed, known._replace(rows=kept)

    def _first(self, seen: Array, values: Array, nothing: float) -> Array:
        """Return the values of the positions that were seen, one after the other, and then nothing."""
        if self.examination.from_top:
            return jnp.where(seen, values, nothing)
        place = jnp.cumsum(seen) - 1
        here = (place == jnp.arange(len(seen))[:, None]) & seen
        found = jnp.sum(jnp.where(here, values, 0), axis=1, dtype=values.dtype)
        return jnp.where(jnp.any(here, axis=1), found, nothing).astype(values.dtype)


def _newest(old: Array, grown: Array, n_new: Array, keeps: Array) -> Array:
    """Return the newest of what was grown by n_new, as many as there is room for; or the old if nothing is kept."""
    return jnp.where(keeps, lax.dynamic_slice(grown, (n_new,), old.shape), old) if len(old) else old


def project(vector: Array, rows: Array, ridge: Array) -> Array:
    """Project a vector onto the span of rows: Xᵀ(XXᵀ + ridge · I)⁻¹Xu, in double precision; rows of zeros do not count."""
    wide = rows.astype(jnp.float64)
    gram = jnp.matmul(wide, wide.T, precision="highest")
    toward = jnp.matmul(wide, vector.astype(jnp.float64), precision="highest")
    larger = max(rows.shape)
    tolerance = max(larger * float(jnp.finfo(jnp.float64).eps), (larger * float(jnp.finfo(rows.dtype).eps)) ** 2)
    solution = solve(gram + ridge * jnp.eye(rows.shape[0]), toward, tolerance)
    return jnp.sum(wide * solution[:, None], axis=0)


def solve(matrix: Array, right: Array, tolerance: float) -> Array:
    """Solve a symmetric system by elimination; an equation that earlier ones imply is left out, with its unknown."""
    size = matrix.shape[0]
    if size == 0:
        return right
    numbers, whole = jnp.arange(size), jnp.diagonal(matrix)

    def eliminate(pivot: Array, table: Array) -> Array:
        here = numbers == pivot
        column, row = lax.dynamic_index_in_dim(table, pivot, 1, False), lax.dynamic_index_in_dim(table, pivot, 0, False)
        counts = column[pivot] > tolerance * whole[pivot]
        row = jnp.where(counts, row / jnp.where(counts, column[pivot], 1.0), 0.0)
        return jnp.where(here[:, None], row, table - jnp.where(here, 0.0, column)[:, None] * row)

    table = jnp.concatenate((matrix, right.reshape(size, -1)), axis=1)
    table = lax.fori_loop(0, size, eliminate, table, unroll=unrolls(size))
    return table[:, size:].reshape(right.shape)


def unrolls(rounds: int) -> bool:
    """Whether to write a loop out: that takes longer to compile, but an accelerator waits for every round of a loop."""
    return rounds <= _WRITTEN_OUT and str(jax.default_backend()) != "cpu"


def rescaled_mix(gradient: Array, projected: Array, strength: Array, rescale: Array) -> Array:
    """Return strength · projected + (1 − strength) · gradient, the projected one first rescaled.

    rescale 0: as it is; 1: to length 1; 2: to the length of the gradient. What is left of a gradient that is orthogonal to the
    space is rounding, and counts as zero.
    """
    wide = gradient.astype(jnp.float64)
    before, after = jnp.sqrt(jnp.sum(wide * wide)), jnp.sqrt(jnp.sum(projected * projected))
    lost = after <= _rounding(gradient) * before
    wanted = jnp.where(rescale == 1.0, 1.0, jnp.where(rescale == 2.0, before, after))
    factor = jnp.where(lost, 0.0, wanted / jnp.where(lost, 1.0, after))
    mixed = (strength * factor) * projected + (1.0 - strength) * wide
    return mixed.astype(gradient.dtype)


def _rounding(gradient: Array) -> float:
    """Return the share of a gradient's length below which a projection is rounding; 1e-12 in double precision, as on the CPU."""
    return 1e-12 if gradient.dtype == jnp.float64 else 1e-6
