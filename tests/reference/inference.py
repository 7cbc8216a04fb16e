"""Reference versions of `duelrank.kernels.inference`."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.kernels import Floats, Ints


def winners(credit: Floats) -> Ints:
    """Return the candidates with more credit than the current ranker."""
    return np.array([i for i, value in enumerate(credit[1:]) if value - credit[0] > 1e-12], np.int64)


def mean_direction(directions: Floats, chosen: Ints, unit: bool) -> Floats:
    """Return the mean of the chosen directions, scaled to length 1 if ``unit``."""
    if len(chosen) == 0:
        return np.zeros(directions.shape[1])
    mean = directions[chosen].mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean)) if unit and mean.any() else np.asarray(mean)


def weighted_direction(directions: Floats, credit: Floats, losers: bool, unit: bool) -> Floats:
    """Return the mean of the directions, weighted by the credit of each minus that of the current ranker."""
    margins = credit[1:] - credit[0]
    margins = np.where(np.abs(margins) > 1e-12, margins if losers else np.maximum(margins, 0.0), 0.0)
    if not margins.any():
        return np.zeros(directions.shape[1])
    mean: Floats = margins @ directions / np.abs(margins).sum()
    length = np.linalg.norm(mean)
    return mean / length if unit and length > 0.0 else mean


def last_click(clicks: Any) -> int:
    """Return the position, from 1, of the lowest click; 0 if there is none."""
    return max((position + 1 for position, clicked in enumerate(clicks) if clicked), default=0)


def reciprocal_sum(clicks: Any) -> float:
    """Return Σ 1/position over the clicked positions."""
    return float(sum(1.0 / (position + 1) for position, clicked in enumerate(clicks) if clicked))


def replayed_sums(rankings: Ints, gains: Floats) -> Floats:
    """Return Σ gain/position of the documents in each ranking."""
    return np.array([np.sum(gains[ranking] / np.arange(1, len(ranking) + 1)) for ranking in rankings])
