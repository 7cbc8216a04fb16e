"""The league table: all algorithms on one data set, one line each, best first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duelrank.errors import InvalidValue
from duelrank.experiments.comparison import Spread
from duelrank.experiments.frame import Frame
from duelrank.experiments.tables import Measure, check_comparable

__all__ = ["League", "Standing", "league"]


@dataclass(frozen=True)
class Standing:
    """One algorithm; a spread per user and measure, in the league's order of users."""

    algorithm: str
    online: tuple[Spread, ...]
    offline: tuple[Spread, ...]
    microseconds: float

    def mean(self, measure: Measure) -> float:
        """Return the mean over all users."""
        return float(np.mean([spread.mean for spread in getattr(self, measure)]))


@dataclass(frozen=True)
class League:
    """All algorithms on one data set, by their mean online performance over the users."""

    metric: str
    dataset: str
    users: tuple[str, ...]
    runs: int
    standings: tuple[Standing, ...]

    def best(self, measure: Measure, user: int) -> float:
        """Return the highest mean with a user."""
        return max(float(getattr(standing, measure)[user].mean) for standing in self.standings)


def league(frame: Frame) -> League:
    """Rank the algorithms of a frame that holds runs on one data set, the same users and as many runs for each."""
    metric = check_comparable(frame)
    datasets, users = (tuple(dict.fromkeys(frame[name].tolist())) for name in ("dataset", "user"))
    counts = {len(runs) for _, runs in frame.groups("algorithm", "user")}
    if len(datasets) != 1 or len(counts) != 1:
        raise InvalidValue("a league table is over one data set, with as many runs of every algorithm with every user")
    standings = [
        _standing(algorithm, runs.sorted("fold", "seed"), users) for (algorithm,), runs in frame.groups("algorithm")
    ]
    standings.sort(key=lambda standing: -standing.mean("online"))
    return League(metric, datasets[0], users, counts.pop(), tuple(standings))


def _standing(algorithm: str, runs: Frame, users: tuple[str, ...]) -> Standing:
    online, offline = (
        tuple(Spread.of(runs.where(user=user)[measure].tolist()) for user in users) for measure in ("online", "offline")
    )
    return Standing(algorithm, online, offline, float(np.mean(1e6 * runs["seconds"] / runs["impressions"])))
