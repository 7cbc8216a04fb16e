"""Stage 7: updates the weights along the gradient."""

from duelrank.updates.base import Update
from duelrank.updates.momentum import Momentum
from duelrank.updates.step import Step

__all__ = ["Momentum", "Step", "Update"]
