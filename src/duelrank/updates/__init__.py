"""Stage 7: updates the weights along the gradient."""

from duelrank.updates.base import Update
from duelrank.updates.momentum import Momentum
from duelrank.updates.non_negative import NonNegative
from duelrank.updates.step import Step

__all__ = ["Momentum", "NonNegative", "Step", "Update"]
