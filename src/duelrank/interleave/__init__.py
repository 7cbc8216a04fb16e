"""Compare existing rankers on live clicks, without learning anything: show one merged list, count who was preferred."""

from duelrank.interleave.comparison import Comparison
from duelrank.interleave.result import Result
from duelrank.interleave.shown import Shown

__all__ = ["Comparison", "Result", "Shown"]
