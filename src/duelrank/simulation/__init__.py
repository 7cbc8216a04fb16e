"""Simulates runs: an algorithm learns from the clicks of a simulated user on the queries of a data set."""

from duelrank.simulation.loop import simulate
from duelrank.simulation.record import Record
from duelrank.simulation.spec import RunSpec

__all__ = ["Record", "RunSpec", "simulate"]
