"""Twin of `DocumentSpace`: projects a gradient onto the span of examined documents, remembered by their row numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
from jax import lax

from duelrank.lockstep.loops import unrolls
from duelrank.lockstep.twin import Twin, twin
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown
from duelrank.projection import DocumentSpace

__all__ = ["DocumentSpaceTwin", "project", "rescaled_mix", "solve"]

Array = Any

_ROOM = 10  # recipes that remember up to so many documents share a program, and so on in steps of it


@twin(DocumentSpace)
class DocumentSpaceTwin(Twin):
    """Remembers rows of the table of all documents, the newest last; −1 where there is none yet."""

    shaping: ClassVar[tuple[str, ...]] = ("remembered",)
    ignored: ClassVar[tuple[str, ...]] = ("basis", "tolerance", "threshold", "centred")
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

    def start(self) -> Memory:
        """Return the memory before the first impression."""
        return jnp.full(self.shaped("remembered"), -1, jnp.int32)

    def project(
        self, numbers: Numbers, gradient: Array, memory: Memory, query: Query, shown: Shown, clicked: Clicked
    ) -> tuple[Array, Memory]:
        """Return the projected gradient; documents of clicked impressions are then remembered."""
        length, capacity = query.places.shape[0], memory.shape[0]
        depth = jnp.minimum(
            self.examination.depth(numbers["examination"], query, clicked), jnp.minimum(length, query.size)
        )
        fresh = jnp.where(jnp.arange(length) < depth, query.start + shown.ranking, -1)
        rows = jnp.concatenate((memory, fresh))
        documents = jnp.where((rows >= 0)[:, None], query.documents(jnp.maximum(rows, 0)), 0.0)
        projected = project(gradient, documents, numbers["ridge"])
        mixed = rescaled_mix(gradient, projected, numbers["strength"], numbers["rescale"])
        newest = lax.dynamic_slice(rows, (depth,), (capacity,)) if capacity else memory
        kept = jnp.where(jnp.arange(capacity) >= capacity - numbers["remembered"], newest, -1)
        return mixed, jnp.where(clicked.last > 0, kept, memory)


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
    table = lax.fori_loop(0, size, eliminate, table, unroll=unrolls())
    return table[:, size:].reshape(right.shape)


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
