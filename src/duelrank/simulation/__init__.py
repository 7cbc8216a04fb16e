"""Simulates runs: an algorithm learns from the clicks of a simulated user on the queries of a data set."""

from duelrank.simulation.guarded import Guarded, GuardHistory
from duelrank.simulation.production import Baseline, BestFeature, Feature, FrozenWeights, Logged
from duelrank.simulation.run import Record, RunSpec, simulate

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
