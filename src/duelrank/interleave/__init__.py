"""Compares existing rankers on live clicks, without learning: shows merged lists and counts which ranker users prefer."""

from duelrank.interleave.comparison import Comparison
from duelrank.interleave.result import Result
from duelrank.interleave.shown import Shown

__all__ = ["Comparison", "Result", "Shown"]
