"""Decimal text to float64, equal to Python's ``float`` to the last bit, without leaving compiled code.

Short numbers take Clinger's exact path (1990), the others the Eisel-Lemire method (Lemire, "Number parsing at a
gigabyte per second", 2021; that 128 bits of the power of five suffice is shown by Mushtak and Lemire, 2022).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.elementary import power_of_two

EXACT, UNDECIDED, MALFORMED = 0, 1, 2  # what `read_number` says of the value that it returns

_SMALLEST, _LARGEST = -342, 308  # powers of ten beyond these make any 64-bit mantissa zero or infinite
_LOW = np.uint64(0xFFFFFFFF)
_MAX_EXPONENT = 1 << 40  # beyond what any number of digits that fits a memory could make up for


def _power_of_five(q: int) -> int:
    """The leading 128 bits of 5^q: rounded down where q is positive, up where it is negative."""
    if q >= 0:
        power = int(5**q)
        return power << 128 - power.bit_length() if power.bit_length() <= 128 else power >> power.bit_length() - 128
    power = int(5**-q)
    size = (power - 1).bit_length()
    if q >= -27:
        return (1 << size + 127) // power + 1
    reciprocal = (1 << 2 * size + 128) // power + 1
    return reciprocal >> reciprocal.bit_length() - 128


def _powers_of_five() -> NDArray[np.uint64]:
    words = [divmod(_power_of_five(q), 1 << 64) for q in range(_SMALLEST, _LARGEST + 1)]
    return np.array(words, np.uint64)


_FIVES = _powers_of_five()  # (651, 2): high and low word
_TENS = np.array([float(f"1e{q}") for q in range(23)])  # every one of them exact


@kernel(inline="always")
def byte_at(text: Any, position: Any) -> Any:
    """Return a byte; an unsigned index spares compiled code the check for a negative one."""
    return text[np.uint64(position)]


@kernel(inline="always")
def digit_at(text: Any, position: Any) -> Any:
    """Return the digit at a position, or something above 9 where there is none."""
    return np.uint64(np.uint8(text[np.uint64(position)] - np.uint8(48)))


@kernel
def read_number(text: Any, start: int) -> Any:
    """Read the number that begins at ``start``: ``-12.5e-3`` and the like, nothing else that `float` would take.

    The text must go on behind the number, with a newline at the latest. Returns (value, position behind the number,
    status): EXACT; UNDECIDED where only `float` on that range of text can tell (more than 19 digits that fall between
    two floats); MALFORMED where no number begins there.
    """
    position = start
    negative = byte_at(text, position) == 45  # -
    position += negative or byte_at(text, position) == 43  # +
    first = position
    mantissa = np.uint64(0)
    digit = digit_at(text, position)
    while digit < 10:
        mantissa = mantissa * np.uint64(10) + digit
        position += 1
        digit = digit_at(text, position)
    n_digits = position - first
    exponent = 0
    if byte_at(text, position) == 46:  # .
        position += 1
        point = position
        digit = digit_at(text, position)
        while digit < 10:
            mantissa = mantissa * np.uint64(10) + digit
            position += 1
            digit = digit_at(text, position)
        exponent = point - position
        n_digits -= exponent
    if byte_at(text, position) | 32 == 101 or n_digits > 18 or n_digits == 0:  # e E
        value, position, status = _long_number(text, start, first, position)
    elif mantissa <= np.uint64(1 << 53) and exponent >= -22:
        # Both factors are exact, so the one rounding of the division is the right one.
        value, status = np.float64(mantissa) / _TENS[np.uint64(-exponent)], EXACT
    else:
        value, status = nearest(mantissa, exponent), EXACT
    return -value if negative else value, position, status


@kernel
def _long_number(text: Any, start: int, first: int, position: int) -> Any:
    """Read a number that has an exponent or many digits: the mantissa is at (first, position)."""
    mantissa, exponent, n_digits, cut = _many_digits(text, first, position)
    if n_digits == 0:
        return 0.0, start, MALFORMED
    if byte_at(text, position) | 32 == 101:
        written, position = _read_exponent(text, position + 1)
        if position < 0:
            return 0.0, start, MALFORMED
        exponent += written
    value = nearest(mantissa, exponent)
    decided = not cut or value == nearest(mantissa + np.uint64(1), exponent)
    return value, position, EXACT if decided else UNDECIDED


@kernel
def _many_digits(text: Any, position: int, stop: int) -> Any:
    """Return 19 significant digits, their exponent, how many digits there are, and if others than 0 were cut."""
    mantissa = np.uint64(0)
    kept, exponent, n_digits = 0, 0, 0
    cut, point = False, False
    while position < stop:
        digit = digit_at(text, position)
        position += 1
        if digit > 9:
            point = True
            continue
        n_digits += 1
        if kept < 19:
            mantissa = mantissa * np.uint64(10) + digit
            kept += kept > 0 or digit > 0
            exponent -= point
        else:
            cut |= digit > 0
            exponent += not point
    return mantissa, exponent, n_digits, cut


@kernel
def _read_exponent(text: Any, position: int) -> Any:
    """Read what follows an ``e``; the position is -1 where there are no digits."""
    negative = byte_at(text, position) == 45
    position += negative or byte_at(text, position) == 43
    first = position
    exponent: Any = 0
    while digit_at(text, position) < 10:
        exponent = min(exponent * 10 + np.int64(digit_at(text, position)), _MAX_EXPONENT)
        position += 1
    return -exponent if negative else exponent, position if position > first else -1


@kernel
def nearest(mantissa: Any, exponent: int) -> Any:
    """Return the float64 nearest to mantissa * 10^exponent (ties to even) by the Eisel-Lemire method."""
    if mantissa == np.uint64(0) or exponent < _SMALLEST:
        return 0.0
    if exponent > _LARGEST:
        return np.inf
    shift = _leading_zeros(mantissa)
    high, low = _product(mantissa << np.uint64(shift), exponent + 342)
    top = high >> np.uint64(63)
    digits = high >> (top + np.uint64(9))
    power = ((217706 * exponent) >> 16) + 63 + np.int64(top) - shift + 1023
    if power <= 0:  # subnormal
        if power <= -63:
            return 0.0
        digits >>= np.uint64(1 - power)
        digits = (digits + (digits & np.uint64(1))) >> np.uint64(1)
        return _scaled(digits, -1074)
    halfway = low <= np.uint64(1) and -4 <= exponent <= 23 and (digits & np.uint64(3)) == np.uint64(1)
    if halfway and digits << (top + np.uint64(9)) == high:
        digits &= ~np.uint64(1)  # exactly between two floats: to even, so not up
    digits = (digits + (digits & np.uint64(1))) >> np.uint64(1)
    if power > 2046 or (power == 2046 and digits >= np.uint64(1 << 53)):
        return np.inf
    return _scaled(digits, power - 1075)


@kernel
def _scaled(digits: Any, power: Any) -> Any:
    """Return digits * 2^power exactly, in two steps that neither overflow nor round where the result does not."""
    half = power // 2
    return np.float64(digits) * power_of_two(half) * power_of_two(power - half)


@kernel
def _leading_zeros(word: Any) -> int:
    zeros = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(64 - step) == np.uint64(0):
            word <<= np.uint64(step)
            zeros += step
    return zeros


@kernel
def _product(word: Any, row: int) -> Any:
    """Multiply with the 128-bit power of five as far as the 55 bits that decide need it."""
    high, low = _multiply(word, _FIVES[row, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        carry, _ = _multiply(word, _FIVES[row, 1])
        low += carry
        if carry > low:
            high += np.uint64(1)
    return high, low


@kernel
def _multiply(x: Any, y: Any) -> Any:
    """Return the high and the low word of a product of two 64-bit words."""
    half = np.uint64(32)
    x1, x0, y1, y0 = x >> half, x & _LOW, y >> half, y & _LOW
    middle = x1 * y0 + ((x0 * y0) >> half)
    other = x0 * y1 + (middle & _LOW)
    return x1 * y1 + (middle >> half) + (other >> half), x * y
