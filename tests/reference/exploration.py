"""Reference versions of `duelrank.kernels.exploration`."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.reference.multileaving import preference, whole_gains

from duelrank.kernels import Floats, Ints
from duelrank.kernels.inference import MARGIN
from duelrank.kernels.random import below, normals, uniform


def normalise_rows(rows: Floats) -> None:
    """Scale each row to length 1, in place; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0.0, lengths, 1.0)


def unit_directions(n: int, n_features: int, stream: Any) -> Floats:
    """Draw n directions uniformly from the unit sphere."""
    drawn: Floats = normals(stream, n, n_features)
    normalise_rows(drawn)
    return drawn


def spanning_rows(features: Floats, weights: Floats, top: int, centred: bool) -> Floats:
    """Copy the top documents by the weights, ties in order; if ``centred``, subtract their mean."""
    rows = features.copy() if top >= len(features) else features[np.argsort(-(features @ weights), kind="stable")[:top]]
    if not centred:
        return rows
    mean = rows.mean(axis=0)
    return np.where(np.abs(rows - mean) > 1e-12 * np.abs(mean), rows - mean, 0.0)


def span_directions(rows: Floats, n: int, unit: bool, stream: Any) -> Floats:
    """Draw n uniform unit vectors and project them onto the span of the rows; if ``unit``, scale them to length 1."""
    drawn = unit_directions(n, rows.shape[1], stream) @ np.linalg.pinv(rows, rcond=1e-9) @ rows
    if unit:
        normalise_rows(drawn)
    return drawn


def null_space_directions(avoided: Floats, features: Floats, n_drawn: int, n_kept: int, stream: Any) -> Floats:
    """Draw unit vectors orthogonal to the avoided basis; keep those with the largest |u · mean document|."""
    drawn: Floats = normals(stream, n_drawn, features.shape[1])
    drawn = drawn - drawn @ avoided.T @ avoided
    normalise_rows(drawn)
    reach = np.abs(drawn @ features.mean(axis=0))
    return drawn[np.sort(np.argsort(-reach, kind="stable")[:n_kept])]


def worst_rows(losers: Floats, margins: Floats, n: int) -> Floats:
    """Return the n rows with the smallest margins; of equal margins the newest, which come last."""
    newest_first = sorted(range(len(margins)), key=lambda i: (margins[i], -i))
    return losers[newest_first[:n]]


def remember_losers(
    losers: Floats, margins: Floats, directions: Floats, credit: Floats, n_low: int, capacity: int
) -> tuple[Floats, Floats]:
    """Append the directions that lost and keep the newest up to the capacity."""
    bar = sorted(credit)[min(n_low, len(credit)) - 1]
    lost = (credit[1:] < credit[0]) & (credit[1:] <= bar)
    if not lost.any():
        return losers, margins
    kept = np.vstack([losers, directions[lost]])[-capacity:]
    return kept, np.append(margins, credit[1:][lost] - credit[0])[-capacity:]


def draw_chances(ranks: Ints, n_documents: int, tau: float) -> Floats:
    """Return P(the ranker draws the document shown at a position | those above are gone)."""
    masses = np.arange(1, n_documents + 1.0) ** -tau
    rows = [[masses[row[p]] / np.delete(masses, row[:p]).sum() for p in range(len(row))] for row in ranks]
    return np.array(rows).reshape(ranks.shape)


def log_probability(ranks: Ints, n_documents: int, tau: float) -> float:
    """Return log P(list | these rankers)."""
    return float(np.log(draw_chances(ranks, n_documents, tau).mean(axis=0)).sum())


def replay(rankers: Floats, features: Floats, ranking: Ints, place: Ints, tau: float, chances: Floats) -> None:
    """Set ``chances`` to P(ranker draws the document at each position), from the ranks of all documents."""
    ranks = []
    for weights in rankers:
        order = np.lexsort((place[: len(features)], -(features @ weights))).tolist()
        ranks.append([order.index(document) for document in ranking])
    chances[:, : len(ranking)] = draw_chances(np.array(ranks, np.int64), features.shape[0], tau)


def replayed_outcome(one: Floats, other: Floats, gains: Floats, log_source: float) -> tuple[float, float]:
    """Return the log importance weight of an earlier list, and the expected outcome given that list."""
    share = one / (one + other)
    log_weight = float(np.log((one + other) / 2).sum() - log_source)
    return log_weight, preference(share[gains > 0.0], 1.0 - share[gains > 0.0], whole_gains(gains))


def tournament(chances: Floats, gains: Floats, log_sources: Floats, repetitions: int, stream: Any) -> int:
    """Compare random pairs on earlier lists drawn with replacement; remove each loser."""
    left = list(range(chances.shape[1]))
    while len(left) > 1:
        i, j = below(stream, len(left)), below(stream, len(left) - 1)
        j += j >= i
        met = [below(stream, len(chances)) for _ in range(repetitions)]
        found = [replayed_outcome(chances[m, left[i]], chances[m, left[j]], gains[m], log_sources[m]) for m in met]
        weights, outcomes = np.array(found).T
        outcome = np.exp(weights - weights.max()) @ outcomes
        first_lost = uniform(stream) < 0.5 if abs(outcome) <= MARGIN else outcome < 0.0
        left[i if first_lost else j] = left[-1]
        left.pop()
    return left[0]
