"""Computes probabilities of lists such that random clicks favour no ranker: the linear programme of both optimized methods."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue, MissingExtra
from duelrank.kernels.leaving import MISSING, shown_ranks
from duelrank.types import Credit, Gains, Ranking, Rankings

__all__ = ["click_chances", "earned", "list_chances", "prefix_bias", "top_ranks", "worth"]

Floats = NDArray[np.float64]
_SLACK = 1e-9  # slack on the minimum bias in the second programme: below the solver's own tolerance


def click_chances(length: int) -> Floats:
    """Return the probability of a click at each position, independent of the documents: ∝ 1/position, as in both papers."""
    chances = 1.0 / np.arange(1.0, length + 1.0)
    return _normalised(chances)


def top_ranks(rankings: Rankings, ranking: Ranking, length: int) -> NDArray[np.int64]:
    """Return the rank of each document in each ranking: ``length`` if it is below the top, MISSING if it was not returned."""
    ranks = shown_ranks(rankings, ranking)
    clipped: NDArray[np.int64] = np.where(ranks < MISSING, np.minimum(ranks, length), MISSING)
    return clipped


def worth(ranks: NDArray[np.int64], scoring: Literal["linear", "inverse"] = "inverse") -> Floats:
    """Return the credit of a click on documents of these ranks, from 0; 0 if not returned. The last axis is as long as the list."""
    places = 1.0 + ranks
    values = ranks.shape[-1] + 1.0 - places if scoring == "linear" else 1.0 / places
    given: Floats = np.where(ranks < MISSING, values, 0.0)
    return given


def earned(worth: Floats, gains: Gains) -> Credit:
    """Return the sum over the clicks of the gain times what the click is worth to each ranker."""
    clicked = gains > 0.0
    sums: Credit = (worth[:, clicked] * gains[clicked]).sum(axis=1)
    return sums


def prefix_bias(credits: Floats) -> Floats:
    """Return the credit of each ranker minus that of the one before, for clicks anywhere in the top k, for each k and list.

    The input is the credit (n_lists, n_rankers, length) of a click at each position; the shape of the result is
    ((n_rankers − 1) · length, n_lists).
    """
    leads: Floats = np.diff(credits.cumsum(axis=2), axis=1)
    return leads.reshape(leads.shape[0], -1).T


def list_chances(bias: Floats, gain: Floats) -> Floats:
    """Return the probabilities p that minimise Σ|bias · p| (to 0 if possible) and, among those, maximise gain · p."""
    n_constraints, n_lists = bias.shape
    if n_lists == 1:
        return np.ones(1)
    # The variables: p, then the two sides of each violation, bias · p = over − under.
    slack = np.eye(n_constraints)
    balance = np.hstack([bias, -slack, slack])
    certain = np.concatenate([np.ones(n_lists), np.zeros(2 * n_constraints)])
    violation = 1.0 - certain
    least = float((violation * _solve(violation, np.vstack([balance, certain]))).sum())
    wanted = np.concatenate([-gain, np.zeros(2 * n_constraints)])
    chances = _solve(wanted, np.vstack([balance, certain]), violation, least + _SLACK)[:n_lists]
    return _normalised(np.maximum(chances, 0.0))


def _normalised(chances: Floats) -> Floats:
    shares: Floats = chances / chances.sum()
    return shares


def _solve(cost: Floats, equal: Floats, bounded: Floats | None = None, bound: float = 0.0) -> Floats:
    """Minimise the cost; all rows of ``equal`` are 0 except the last, which is 1, and ``bounded`` is at most its bound."""
    try:
        from scipy.optimize import linprog
    except ImportError:
        raise MissingExtra(
            "optimized interleaving and multileaving need SciPy: pip install 'duelrank[scipy]'"
        ) from None

    right = np.append(np.zeros(equal.shape[0] - 1), 1.0)
    rows, limits = (None, None) if bounded is None else (bounded[np.newaxis], [bound])
    result = linprog(cost, A_ub=rows, b_ub=limits, A_eq=equal, b_eq=right, method="highs")
    if result.x is None:
        raise InvalidValue(f"the probabilities of the lists could not be found: {result.message}")
    solution: Floats = result.x
    return solution
