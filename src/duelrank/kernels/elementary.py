"""Elementary functions in plain arithmetic, whose results are equal to the bit on every machine.

The functions of the C library and of numpy differ in the last bit between processors, because they use fused multiplication if it
is available. Here every sum has a fixed order, and only +, −, ·, /, √ and the bits of a float are used. Results are accurate to a
few units in the last place.

Kernels call the functions of numbers; `exps`, `logs` and `log1ps` work on arrays.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats

_LN2_HIGH = 0.6931471803691238  # the first 32 bits of log 2: its product with an exponent is exact
_LN2_LOW = 1.9082149292705877e-10
_LOG2_E = 1.4426950408889634
_HALF_LOG_2PI = 0.9189385332046728
_SMALLEST_NORMAL = 2.2250738585072014e-308
_TO_WHOLE = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to a whole number, which is then in the last bits
_TO_WHOLE_BITS = 0x4338 << 48
_ONE_BITS = 1023 << 52
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # the bits of √½
_MANTISSA = (1 << 52) - 1
with localcontext(prec=25):  # decimals round correctly, on every machine
    _ROOTS = np.array([(Decimal(2).ln() * j / 64).exp() for j in range(64)], np.float64)


@kernel
def power_of_two(k: Any) -> float:
    """Return 2ᵏ for −1023 < k < 1024."""
    power: float = np.int64((np.int64(k) + 1023) << 52).view(np.float64)
    return power


@kernel
def _exp_tail(r: float) -> float:
    """Return exp(r) − 1 − r for |r| ≤ 0.35, by its series; terms are summed in pairs, which is faster than one by one."""
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 / 2.0 + r * (1.0 / 6.0)) + r2 * (1.0 / 24.0 + r * (1.0 / 120.0))
    middle = (1.0 / 720.0 + r * (1.0 / 5040.0)) + r2 * (1.0 / 40320.0 + r * (1.0 / 362880.0))
    high = (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) + r2 * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0))
    return r2 * (low + r4 * (middle + r4 * high))


@kernel
def exp(x: float) -> float:
    """Return eˣ = 2ᵏ · 2^(j/64) · exp(r) with |r| ≤ log(2) / 128; a table has the second factor."""
    if not -745.2 < x < 709.8:
        return 0.0 if x < 0.0 else x + math.inf  # also NaN
    shifted = x * (64.0 * _LOG2_E) + _TO_WHOLE
    steps, whole = shifted - _TO_WHOLE, np.float64(shifted).view(np.int64) - _TO_WHOLE_BITS
    r = (x - steps * (_LN2_HIGH / 64.0)) - steps * (_LN2_LOW / 64.0)
    r2 = r * r
    beyond = r + r2 * ((1.0 / 2.0 + r * (1.0 / 6.0)) + r2 * (1.0 / 24.0 + r * (1.0 / 120.0)))
    root, k = _ROOTS[whole & 63], whole >> 6
    half = k >> 1  # in two steps, because 2ᵏ itself may be out of range
    return ((root + root * beyond) * power_of_two(half)) * power_of_two(k - half)


@kernel
def expm1(x: float) -> float:
    """Return eˣ − 1, accurate also for small x."""
    return x + _exp_tail(x) if abs(x) < 0.35 else exp(x) - 1.0


@kernel
def _log_near_one(f: float) -> float:
    """Return log(1 + f) = f − s · (f − 2 (s²/3 + s⁴/5 + …)) with s = f / (2 + f), for −0.3 < f < 0.42."""
    s = f / (2.0 + f)
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    low = (2.0 / 3.0 + z * (2.0 / 5.0)) + z2 * (2.0 / 7.0 + z * (2.0 / 9.0))
    high = (2.0 / 11.0 + z * (2.0 / 13.0)) + z2 * (2.0 / 15.0 + z * (2.0 / 17.0))
    return f - s * (f - z * (low + z4 * (high + z4 * (2.0 / 19.0 + z * (2.0 / 21.0)))))


@kernel
def _parts(x: float) -> tuple[float, float]:
    """Return k and f with x = 2ᵏ · (1 + f) and √½ ≤ 1 + f < √2, for a normal x > 0."""
    bits = np.float64(x).view(np.int64) + (_ONE_BITS - _ROOT_HALF_BITS)
    exponent, mantissa = (bits >> 52) & 0x7FF, (bits & _MANTISSA) + _ROOT_HALF_BITS
    k = np.int64(exponent | _TO_WHOLE_BITS).view(np.float64) - (_TO_WHOLE + 1023.0)
    return k, np.int64(mantissa).view(np.float64) - 1.0


@kernel
def log_unchecked(x: float) -> float:
    """Return the natural logarithm of a normal number above 0; without a branch, so that loops run in vector registers.

    0 and subnormal numbers count as 2^−1023.
    """
    k, f = _parts(x)
    return k * _LN2_HIGH + (_log_near_one(f) + k * _LN2_LOW)


@kernel
def log(x: float) -> float:
    """Return the natural logarithm; −∞ at 0 and NaN below."""
    if _SMALLEST_NORMAL <= x < math.inf:
        return log_unchecked(x)
    if 0.0 < x < math.inf:
        return log_unchecked(x * power_of_two(54)) - 54.0 * (_LN2_HIGH + _LN2_LOW)
    return -math.inf if x == 0.0 else (x if x > 0.0 else math.nan)


@kernel
def log2(x: float) -> float:
    """Return the logarithm to base 2 of a normal number above 0; exact for powers of two."""
    k, f = _parts(x)
    return k + _log_near_one(f) * _LOG2_E


@kernel
def log1p(x: float) -> float:
    """Return log(1 + x), accurate also for small x."""
    if -0.29 < x < 0.41:
        return _log_near_one(x)
    whole = 1.0 + x
    return log(whole) if whole <= 0.0 or whole == math.inf else log(whole) + (x - (whole - 1.0)) / whole


@kernel
def tanh(x: float) -> float:
    """Return the hyperbolic tangent."""
    grown = expm1(2.0 * min(abs(x), 20.0))
    return math.copysign(grown / (grown + 2.0), x)


@kernel
def power(base: float, exponent: float) -> float:
    """Return base^exponent for a base ≥ 0: products for whole exponents up to 64, else exp(exponent · log(base))."""
    times = abs(exponent)
    if times > 64.0 or times != math.floor(times):
        return exp(exponent * log(base))
    result, left, square = 1.0, np.int64(times), base
    while left > 0:
        if left & 1:
            result *= square
        square *= square
        left >>= 1
    return result if exponent >= 0.0 else 1.0 / result


@kernel
def log_gamma(x: float) -> float:
    """Return log Γ(x) for x ≥ 1, by Stirling's series from 10 on, and Γ(x) = Γ(x + 1) / x below."""
    below = 1.0
    while x < 10.0:
        below *= x
        x += 1.0
    z = 1.0 / (x * x)
    series = 1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z * (1.0 / 1188.0))))
    series -= z * z * z * z * z * (691.0 / 360360.0 - z * (1.0 / 156.0))
    return ((x - 0.5) * log(x) - x) + (_HALF_LOG_2PI + series / x) - log(below)


@kernel
def exps(values: Floats) -> Floats:
    """Return eˣ of each value."""
    results = np.empty(values.shape)
    for i, x in np.ndenumerate(values):
        results[i] = exp(x)
    return results


@kernel
def logs(values: Floats) -> Floats:
    """Return the natural logarithm of each value."""
    results = np.empty(values.shape)
    for i, x in np.ndenumerate(values):
        results[i] = log(x)
    return results


@kernel
def log1ps(values: Floats) -> Floats:
    """Return log(1 + x) of each value."""
    results = np.empty(values.shape)
    for i, x in np.ndenumerate(values):
        results[i] = log1p(x)
    return results
