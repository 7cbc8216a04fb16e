"""One run: an algorithm meets a user on a data set, impression after impression."""

from duelrank.simulation.loop import simulate
from duelrank.simulation.record import Record
from duelrank.simulation.spec import RunSpec

__all__ = ["Record", "RunSpec", "simulate"]
