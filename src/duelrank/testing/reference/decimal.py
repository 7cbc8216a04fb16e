"""The slow twin of `duelrank.kernels.decimal`: a regular expression and `float`."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.decimal import EXACT, MALFORMED

__all__ = ["byte_at", "digit_at", "nearest", "read_number"]

_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DANGLING = re.compile(rb"[eE]")


def byte_at(text: NDArray[np.uint8], position: int) -> int:
    """Return a byte."""
    return int(text[position])


def digit_at(text: NDArray[np.uint8], position: int) -> int:
    """Return the digit at a position, or something above 9 where there is none."""
    return (int(text[position]) - ord("0")) % 256


def read_number(text: NDArray[np.uint8], start: int) -> tuple[float, int, int]:
    """Read the number that begins at ``start``."""
    content = text.tobytes()
    found = _NUMBER.match(content, start)
    if found is None or _DANGLING.match(content, found.end()):
        return 0.0, start, MALFORMED
    return float(found[0]), found.end(), EXACT


def nearest(mantissa: int, exponent: int) -> float:
    """Return the float64 nearest to mantissa * 10^exponent."""
    return float(f"{mantissa}e{exponent}")
