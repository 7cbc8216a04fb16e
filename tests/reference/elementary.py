"""Reference versions of `duelrank.kernels.elementary`: the C library and numpy, equal except for the last bits."""

from __future__ import annotations

import math

import numpy as np

from duelrank.kernels import Floats


def power_of_two(k: int) -> float:
    """Return 2ᵏ."""
    return 2.0**k


def exp(x: float) -> float:
    """Return eˣ; infinity if that overflows."""
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


def expm1(x: float) -> float:
    """Return eˣ − 1."""
    return math.expm1(x)


def log_unchecked(x: float) -> float:
    """Return the natural logarithm."""
    return math.log(x)


def log2(x: float) -> float:
    """Return the logarithm to base 2."""
    return math.log2(x)


def log1p(x: float) -> float:
    """Return log(1 + x)."""
    return math.log1p(x)


def tanh(x: float) -> float:
    """Return the hyperbolic tangent."""
    return math.tanh(x)


def log_gamma(x: float) -> float:
    """Return log Γ(x)."""
    return math.lgamma(x)
