"""Guarded learning: is the learned ranker better than what one had? Valid whenever one looks, and an alarm when it is worse."""

from duelrank.guard.confidence import ConfidenceSequence
from duelrank.guard.detector import Detector
from duelrank.guard.e_value import EValue
from duelrank.guard.guard import Alarm, Guard, GuardCounts
from duelrank.guard.spec import GuardSpec
from duelrank.guard.voters import Voters

__all__ = ["Alarm", "ConfidenceSequence", "Detector", "EValue", "Guard", "GuardCounts", "GuardSpec", "Voters"]
