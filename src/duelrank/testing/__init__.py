"""Checks for authors of new parts: an algorithm and a storage backend must pass them."""

from duelrank.testing.checks import CHECKS, check_algorithm, play, tiny_split
from duelrank.testing.storage import STORAGE_CHECKS, check_storage

__all__ = ["CHECKS", "STORAGE_CHECKS", "check_algorithm", "check_storage", "play", "tiny_split"]
