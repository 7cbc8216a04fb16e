"""Twins of metrics: nDCG and MRR, of shown lists and of whole rankings."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from duelrank.core.types import Labels
from duelrank.lockstep.twin import Array, Numbers
from duelrank.metrics import MRR, Metric, nDCG


def obstacle(metric: Metric) -> str | None:
    """Return the reason why a metric cannot be computed in lockstep; None if it can."""
    return None if type(metric) in (nDCG, MRR) else f"{type(metric).__name__} has no lockstep twin"


def numbers_of(metric: Metric, widest: int, grades: int) -> Numbers:
    """Return the gain of each grade and the discount of each position, 0 beyond the cutoff; for MRR, 1/position."""
    position, grade = np.arange(widest), np.arange(grades)
    counts = position < metric.depth
    if isinstance(metric, nDCG):
        gain = 2.0**grade - 1.0 if metric.gain == "exponential" else grade.astype(np.float64)
        return {"gain": gain, "discount": counts / np.log2(position + 2.0), "first": np.float64(0.0)}
    return {"gain": (grade > 0).astype(np.float64), "discount": counts / (position + 1.0), "first": np.float64(1.0)}


def ideals(metric: Metric, labels: Labels, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the divisor of the metric of each query: the ideal DCG, infinite without a relevant document; 1 for MRR."""
    if not isinstance(metric, nDCG):
        return np.ones(len(offsets) - 1)
    sizes = np.diff(offsets)
    rows = np.zeros((len(sizes), int(sizes.max(initial=1))), np.int64)
    rows[np.arange(rows.shape[1]) < sizes[:, None]] = np.maximum(labels, 0)
    table = numbers_of(metric, rows.shape[1], int(rows.max(initial=0)) + 1)
    best = (table["gain"][-np.sort(-rows, axis=1)] * table["discount"]).sum(axis=1)
    return np.where(best > 0.0, best, np.inf)


def value(numbers: Numbers, gains: Array, positions: Array, counts: Array, ideal: Array) -> Array:
    """Return the metric of a list, from the gain and the position, from 0, of its documents, in any order.

    nDCG is a sum over documents, MRR the maximum of its terms.
    """
    discount = numbers["discount"][jnp.minimum(positions, numbers["discount"].shape[0] - 1)]
    terms = jnp.where(counts, gains * discount, 0.0)
    return jnp.where(numbers["first"] > 0.0, jnp.max(terms, axis=-1), jnp.sum(terms, axis=-1)) / ideal
