"""Simulates runs: an algorithm learns from the clicks of a simulated user on the queries of a data set."""

from duelrank.simulation.baseline import Baseline, BestFeature, Feature, FrozenWeights
from duelrank.simulation.guarded import Guarded, GuardHistory
from duelrank.simulation.logged import Logged
from duelrank.simulation.loop import simulate
from duelrank.simulation.record import Record
from duelrank.simulation.spec import RunSpec

__all__ = [
    "Baseline",
    "BestFeature",
    "Feature",
    "FrozenWeights",
    "GuardHistory",
    "Guarded",
    "Logged",
    "Record",
    "RunSpec",
    "simulate",
]
