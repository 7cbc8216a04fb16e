"""Stage 6: move the weights."""

from duelrank.updates.base import Update
from duelrank.updates.momentum import Momentum
from duelrank.updates.step import Step

__all__ = ["Momentum", "Step", "Update"]
