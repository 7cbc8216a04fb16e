"""Stage 6: move the weights."""

from duelrank.updates.base import Update
from duelrank.updates.step import Step

__all__ = ["Step", "Update"]
