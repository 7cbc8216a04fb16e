"""Slow twins of `duelrank.kernels.elementary`: the functions of the C library and of numpy, equal but for their last bits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

expm1 = math.expm1
log2 = math.log2
log1p = math.log1p
tanh = math.tanh
log_normal = math.log
log_gamma = math.lgamma


def power_of_two(k: int) -> float:
    """Return 2ᵏ."""
    return 2.0**k


def exp(x: float) -> float:
    """Return eˣ; infinity where that overflows."""
    return math.exp(x) if x < 709.7 else math.inf


def log(x: float) -> float:
    """Return the natural logarithm; −∞ at 0."""
    return math.log(x) if x > 0.0 else -math.inf


def power(base: float, exponent: float) -> float:
    """Return base^exponent."""
    return float(base**exponent)


def exps(values: Floats) -> Floats:
    """Return eˣ of each value."""
    return np.exp(values)


def logs(values: Floats) -> Floats:
    """Return the natural logarithm of each value."""
    return np.log(values)


def log1ps(values: Floats) -> Floats:
    """Return log(1 + x) of each value."""
    return np.log1p(values)
