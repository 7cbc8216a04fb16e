"""Histories that look real, without a week of traffic."""

from __future__ import annotations

import math

import numpy as np

from duelrank.service.http.schema import History, HistoryGuard, HistoryMark

SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
FEATURES = (
    "bm25",
    "title match",
    "freshness",
    "price",
    "rating",
    "sales",
    "distance",
    "stock",
    "images",
    "age",
    "returns",
)


def plausible(
    name: str = "shop",
    step: str = "minute",
    end: float = 1_700_000_000.0,
    points: int = 240,
    features: tuple[str, ...] = FEATURES,
    guarded: bool = True,
    quiet: bool = False,
) -> History:
    """Return the history of a ranker that learns: reward rises, weights spread, the guard's band narrows.

    Parameters
    ----------
    name, step, end, points
        Of the ranker; the length of a step; when the last one begins; how many there are.
    features
        Names.
    guarded
        Whether it has a guard, and so guard lists.
    quiet
        Whether no feature was in trouble.
    """
    rng = np.random.default_rng(7)
    seconds = SECONDS[step]
    end = end // seconds * seconds
    time = [end - (points - 1 - i) * seconds for i in range(points)]
    t = np.linspace(0.0, 1.0, points)
    busy = 60.0 + 40.0 * np.sin(6.0 * t) + rng.normal(0.0, 6.0, points)
    shares = {"explored": 0.45 - 0.15 * t, "greedy": 0.45 + 0.15 * t}
    shares |= {"guard": np.full(points, 0.1)} if guarded else {}
    lists = {kind: rng.poisson(np.maximum(busy * share, 1.0)) for kind, share in shares.items()}
    skill = 0.35 + 0.25 * (1.0 - np.exp(-4.0 * t))
    cost = {"explored": -0.04, "greedy": 0.0, "guard": -0.02}
    closed = {kind: (each * 0.9).astype(int) for kind, each in lists.items()}
    clicked = {kind: rng.binomial(each, np.clip(skill + cost[kind], 0.01, 0.99)) for kind, each in closed.items()}
    rank = {
        kind: [
            None if not n else float(np.clip(0.6 * level + cost[kind] + wiggle, 0.0, 1.0))
            for n, level, wiggle in zip(closed[kind], skill, rng.normal(0.0, 0.02, points), strict=True)
        ]
        for kind in lists
    }
    goals = rng.normal(0.0, 1.0, len(features))
    weights = {
        feature: [
            float(goal * (1.0 - math.exp(-5.0 * x)) + wiggle)
            for x, wiggle in zip(t, np.cumsum(rng.normal(0.0, 0.012, points)), strict=True)
        ]
        for feature, goal in zip(features, goals, strict=True)
    }
    total = np.sum(list(lists.values()), axis=0)
    shown = [int(total.sum() * 0.9)] * 10
    trouble = {
        "missing": (rng.random(points) < 0.1) * rng.integers(1, 9, points),
        "out_of_range": (rng.random(points) < 0.04) * rng.integers(1, 4, points),
    }
    return History(
        name=name,
        step=step,
        seconds=seconds,
        time=time,
        lists={kind: each.tolist() for kind, each in lists.items()},
        closed={kind: each.tolist() for kind, each in closed.items()},
        clicked={kind: each.tolist() for kind, each in clicked.items()},
        reciprocal_rank=rank,
        no_feedback=(total // 12).tolist(),
        learned=closed["explored"].tolist(),
        failed=[0] * points,
        events=(total * 3).tolist(),
        trouble={} if quiet else {kind: each.astype(int).tolist() for kind, each in trouble.items()},
        model_version=(1 + np.arange(points) * 7).tolist(),
        weights=weights,
        positions_shown=shown,
        positions_clicked=[int(n * 0.42 / (place + 0.6) ** 1.1) for place, n in enumerate(shown, 1)],
        guard=_guard(rng, points) if guarded else None,
        marks=_marks(time, points, guarded),
    )


def _guard(rng: np.random.Generator, points: int) -> HistoryGuard:
    wins, losses = rng.poisson(3.0, points), rng.poisson(2.3, points)
    won, all = np.cumsum(wins), np.maximum(np.cumsum(wins + losses), 1)
    rate = won / all
    half = np.minimum(1.9 / np.sqrt(all), 0.5)
    statistic = np.maximum.accumulate(np.exp(rng.normal(0.0, 0.5, points))) * np.exp(
        3.0 * np.sin(np.linspace(0, 9, points))
    )
    return HistoryGuard(
        wins.tolist(),
        losses.tolist(),
        rate.tolist(),
        np.maximum(rate - half, 0.0).tolist(),
        np.minimum(rate + half, 1.0).tolist(),
        statistic.tolist(),
        np.where(
            np.arange(points) < points // 3, 0.1, np.where(np.arange(points) < 2 * points // 3, 0.5, 1.0)
        ).tolist(),
    )


def _marks(time: list[float], points: int, guarded: bool) -> list[HistoryMark]:
    told = [
        (0.02, "start", "a process began to learn"),
        (0.2, "freeze", "somebody froze it"),
        (0.24, "resume", "somebody resumed"),
        (0.62, "rollback", "back to version 40"),
        (0.8, "start", "a process began to learn"),
    ]
    if guarded:
        told += [
            (0.34, "promote", "rung 2 of 3: 50% of the lists"),
            (0.55, "alarm", "lost 61 of 90 decisive lists"),
            (0.7, "promote", "rung 3 of 3: all lists"),
        ]
    return [
        HistoryMark(time[int(where * (points - 1))], event, text, int(where * points * 7) + 1)
        for where, event, text in sorted(told)
    ]
