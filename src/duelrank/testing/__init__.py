"""Tools for authors of new parts: executable checks of the conventions, slow reference kernels, tiny data."""

from duelrank.testing.checks import CHECKS, check_algorithm
from duelrank.testing.storage import STORAGE_CHECKS, check_storage
from duelrank.testing.swap import kernels, swapped, twin
from duelrank.testing.tiny import Tiny, play, tiny_split

__all__ = [
    "CHECKS",
    "STORAGE_CHECKS",
    "Tiny",
    "check_algorithm",
    "check_storage",
    "kernels",
    "play",
    "swapped",
    "tiny_split",
    "twin",
]
