"""From records to what they say together: means, spreads, the gain of a projection, learning curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from duelrank.algorithms import Algorithm, Projected
from duelrank.registry import spell
from duelrank.simulation import Record
from duelrank.users import User

__all__ = ["Comparison", "Curve", "Row", "Spread", "compare"]


@dataclass(frozen=True)
class Spread:
    """The mean of some runs, and their sample standard deviation; None where there is one run only."""

    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise the values of some runs."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)


@dataclass(frozen=True)
class Row:
    """One algorithm with one user, over all its runs.

    Parameters
    ----------
    base
        For a projected algorithm: the one that it projects.
    online, offline
        Over the runs: the discounted sum over all shown lists, and the final weights on held-out queries.
    online_change, offline_change
        Relative change of the mean against the base with the same user, 0.05 is 5% more; None where there is no base.
    microseconds
        Mean time of one impression, without evaluation.
    """

    algorithm: str
    user: str
    base: str | None
    runs: int
    online: Spread
    offline: Spread
    online_change: float | None
    offline_change: float | None
    microseconds: float


@dataclass(frozen=True)
class Curve:
    """How one algorithm learns from one user: the mean offline metric after so many impressions."""

    algorithm: str
    user: str
    base: str | None
    impressions: tuple[int, ...]
    offline: tuple[float, ...]


@dataclass(frozen=True)
class Comparison:
    """What some records say together."""

    metric: str
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]

    @property
    def users(self) -> list[str]:
        """The users, in order."""
        return list(dict.fromkeys(row.user for row in self.rows))

    def best(self, user: str, measure: Literal["online", "offline"]) -> float:
        """Return the highest mean that any algorithm has with a user."""
        spreads: list[Spread] = [getattr(row, measure) for row in self.rows if row.user == user]
        return max(spread.mean for spread in spreads)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as for JSON."""
        return asdict(self)


_Pair = tuple[Algorithm, User]


def compare(records: Iterable[Record]) -> Comparison:
    """Summarise the records of each pair of algorithm and user; pairs keep the order in which they first appear."""
    groups: dict[_Pair, list[Record]] = {}
    for record in records:
        groups.setdefault((record.spec.algorithm, record.spec.user), []).append(record)
    for group in groups.values():  # sums depend on their order in the last bit, and records arrive in any
        group.sort(key=lambda record: (record.spec.fold, record.spec.seed))
    metrics = {repr(record.spec.metric) for group in groups.values() for record in group}
    rows = tuple(_row(pair, groups) for pair in groups)
    return Comparison(" and ".join(sorted(metrics)), rows, tuple(_curve(pair, groups[pair]) for pair in groups))


def _row(pair: _Pair, groups: dict[_Pair, list[Record]]) -> Row:
    algorithm, user = pair
    records = groups[pair]
    base = groups.get((algorithm.base, user)) if isinstance(algorithm, Projected) else None
    online, offline = _online(records), _offline(records)
    return Row(
        algorithm=spell(algorithm),
        user=spell(user),
        base=_base(algorithm),
        runs=len(records),
        online=online,
        offline=offline,
        online_change=_change(online, _online(base)) if base else None,
        offline_change=_change(offline, _offline(base)) if base else None,
        microseconds=float(np.mean([1e6 * record.seconds / record.spec.impressions for record in records])),
    )


def _online(records: list[Record]) -> Spread:
    return Spread.of([record.online_ndcg for record in records])


def _offline(records: list[Record]) -> Spread:
    return Spread.of([record.offline_ndcg for record in records])


def _change(value: Spread, base: Spread) -> float | None:
    return value.mean / base.mean - 1.0 if base.mean else None


def _base(algorithm: Algorithm) -> str | None:
    return spell(algorithm.base) if isinstance(algorithm, Projected) else None


def _curve(pair: _Pair, records: list[Record]) -> Curve:
    algorithm, user = pair
    mean = np.mean([record.offline for record in records], axis=0)
    impressions = tuple(records[0].checkpoints.tolist())
    return Curve(spell(algorithm), spell(user), _base(algorithm), impressions, tuple(mean.tolist()))
