"""Kernels of data sets: numbers in text, lines of LETOR files, scaling of features.

`read_number` is equal to Python's ``float`` to the last bit. Short numbers take Clinger's exact path (1990), others the method of
Eisel and Lemire (Lemire, "Number parsing at a gigabyte per second", 2021; Mushtak and Lemire, 2022, show that 128 bits of the power
of five suffice).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.core.compiling import kernel
from duelrank.kernels.elementary import power_of_two

MAX_LABEL = 30
MAX_FEATURE = 100_000
MAX_QUERY_NAME = 255
LARGEST = 1.7976931348623157e308  # the largest finite float

EXACT, UNDECIDED, MALFORMED = 0, 1, 2  # the status of a value that `read_number` returns
# Why `parse_lines` stopped. The first four are not errors: it is done, or an array is full.
DONE, ROWS_FULL, TOO_NARROW, UNDECIDED_FULL = 0, 1, 2, 3
BAD_LABEL, BAD_QUERY, LONG_QUERY, BAD_FEATURE, BAD_ORDER, BAD_VALUE = 10, 11, 12, 13, 14, 15

_LEAST_POWER, _LARGEST_POWER = -342, 308  # powers of ten beyond these make any 64-bit mantissa zero or infinite
_LOW = np.uint64(0xFFFFFFFF)
_MAX_EXPONENT = 1 << 40  # no text that fits in memory has enough digits to compensate a larger exponent


def _power_of_five(q: int) -> int:
    """Return the leading 128 bits of 5^q, rounded down if q is positive and up if it is negative."""
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
    words = [divmod(_power_of_five(q), 1 << 64) for q in range(_LEAST_POWER, _LARGEST_POWER + 1)]
    return np.array(words, np.uint64)


_FIVES = _powers_of_five()  # (651, 2): high and low word
TENS = np.array([float(f"1e{q}") for q in range(23)])  # all exact


@kernel(inline="always")
def byte_at(text: Any, position: Any) -> Any:
    """Return a byte; with an unsigned index, compiled code does not check for a negative one."""
    return text[np.uint64(position)]


@kernel(inline="always")
def digit_at(text: Any, position: Any) -> Any:
    """Return the digit at a position, or a number above 9 if the character is not a digit."""
    return np.uint64(np.uint8(text[np.uint64(position)] - np.uint8(48)))


@kernel
def read_number(text: Any, start: int) -> Any:
    """Read the number that begins at ``start``, such as ``-12.5e-3``; other texts that `float` accepts are malformed.

    The text must continue after the number, at least with a newline. Returns (value, position after the number, status). The
    status is EXACT; UNDECIDED if only `float` can decide (more than 19 digits that fall between two floats); or MALFORMED if no
    number begins there.
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
        value, position, status = long_number(text, start, first, position)
    elif mantissa <= np.uint64(1 << 53) and exponent >= -22:
        # Both operands are exact, so the division rounds once, to the nearest float.
        value, status = np.float64(mantissa) / TENS[np.uint64(-exponent)], EXACT
    else:
        value, status = nearest(mantissa, exponent), EXACT
    return -value if negative else value, position, status


@kernel
def long_number(text: Any, start: int, first: int, position: int) -> Any:
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
    """Return 19 significant digits, their exponent, the number of digits, and whether digits other than 0 were cut."""
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
    """Read the exponent after an ``e``; the position is -1 if there are no digits."""
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
    if mantissa == np.uint64(0) or exponent < _LEAST_POWER:
        return 0.0
    if exponent > _LARGEST_POWER:
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
    """Return digits * 2^power exactly, in two steps that overflow or round only if the result does."""
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
    """Multiply with the 128-bit power of five, as far as needed for the 55 leading bits."""
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


@kernel(inline="always")
def _blank(byte: Any) -> Any:
    return byte == 32 or byte == 9 or byte == 13  # space, tab, carriage return


@kernel(inline="always")
def _line_ends(byte: Any) -> Any:
    return byte == 10 or byte == 35  # newline, or # as the start of a comment


@kernel(inline="always")
def _skip_blanks(text: Any, position: Any) -> Any:
    while _blank(byte_at(text, position)):
        position += 1
    return position


@kernel
def _next_line(text: Any, position: int) -> Any:
    while byte_at(text, position) != 10:
        position += 1
    return position + 1


@kernel
def _whole_number(text: Any, position: int, most: int) -> Any:
    """Read digits; return (number, position after them), with -1 if there are none or the number is above ``most``."""
    first = position
    number = np.uint64(0)
    digit = digit_at(text, position)
    while digit < 10:
        number = number * np.uint64(10) + digit
        position += 1
        digit = digit_at(text, position)
    fits = first < position <= first + 18 and number <= np.uint64(most)
    return (np.int64(number) if fits else -1), position


@kernel
def _query_name(text: Any, position: int) -> Any:
    """Return the (start, stop) of the name in ``qid:name``; they are equal if there is none."""
    for expected in (113, 105, 100, 58):  # q i d :
        if byte_at(text, position) != expected:
            return position, position
        position += 1
    last = position
    while not _blank(byte_at(text, last)) and not _line_ends(byte_at(text, last)):
        if byte_at(text, last) < 32 or byte_at(text, last) == 127:  # a control character
            return position, position
        last += 1
    return position, last


@kernel
def _same(text: Any, queries: Any, number: int, first: int, last: int) -> Any:
    """Return whether the name at (first, last) is that of a query found before."""
    if queries[number, 2] - queries[number, 1] != last - first:
        return False
    for i in range(last - first):  # noqa: SIM110  # compiled code has no generators
        if byte_at(text, queries[number, 1] + i) != byte_at(text, first + i):
            return False
    return True


@kernel
def _values(text: Any, position: int, features: Any, undecided: Any, row: int, n_undecided: int) -> Any:
    """Fill one row; return (position, number of undecided numbers so far, highest feature, code)."""
    width = features.shape[1]
    values = features[row]
    previous = 0
    while True:
        position = _skip_blanks(text, position)
        if _line_ends(byte_at(text, position)):
            values[previous:] = 0.0
            return position, n_undecided, previous, DONE
        token = position
        feature, position = _whole_number(text, position, MAX_FEATURE)
        if feature < 1 or byte_at(text, position) != 58:  # :
            return token, n_undecided, previous, BAD_FEATURE
        if feature <= previous:
            return token, n_undecided, previous, BAD_ORDER
        if feature > width:
            return token, n_undecided, previous, TOO_NARROW
        value, behind, status = read_number(text, position + 1)
        ends = _blank(byte_at(text, behind)) or _line_ends(byte_at(text, behind))
        if status == MALFORMED or not abs(value) <= LARGEST or not ends:
            return token, n_undecided, previous, BAD_VALUE
        if status == UNDECIDED:
            if n_undecided == undecided.shape[0]:
                return token, n_undecided, previous, UNDECIDED_FULL
            undecided[n_undecided, 0], undecided[n_undecided, 1] = row, feature - 1
            undecided[n_undecided, 2], undecided[n_undecided, 3] = position + 1, behind
            n_undecided += 1
        for gap in range(previous, feature - 1):
            values[gap] = 0.0
        values[np.uint64(feature - 1)] = value
        previous = feature
        position = behind


@kernel
def parse_lines(
    text: Any, start: int, stop: int, features: Any, labels: Any, queries: Any, undecided: Any, progress: Any
) -> Any:
    """Parse the whole lines in text[start:stop], ``label qid:name 1:value 2:value ... # comment``, into rows.

    It stops at the end, at a malformed line, or when an array is full.

    Parameters
    ----------
    text
        Bytes; text[start:stop] are whole lines, so the last byte is a newline.
    features, labels
        (room, width) float64 and (room,) int8, filled from row 0.
    queries
        (room, 3) int64, filled with (first row, start and stop of the name in the text) of each run of equal names.
    undecided
        (room, 4) int64, filled with (row, column, start and stop in the text) of numbers that only `float` can decide.
    progress
        (5,) int64, filled with the position (of the first line that was not parsed, or of the malformed text), and the numbers of
        rows, queries, undecided numbers and features (the highest one found).

    Returns
    -------
    code
        DONE; ROWS_FULL, TOO_NARROW or UNDECIDED_FULL if an array is full; or the code of an error.
    """
    position, row, n_queries, n_undecided, widest = start, 0, 0, 0, 0
    code = DONE
    while position < stop:
        line = position
        position = _skip_blanks(text, position)
        if _line_ends(byte_at(text, position)):
            position = _next_line(text, position)
            continue
        if row == labels.shape[0]:
            code, position = ROWS_FULL, line
            break
        token = position
        label, position = _whole_number(text, position, MAX_LABEL)
        if label < 0 or not _blank(byte_at(text, position)):
            code, position = BAD_LABEL, token
            break
        position = _skip_blanks(text, position)
        first, last = _query_name(text, position)
        if last == first or last - first > MAX_QUERY_NAME:
            code = BAD_QUERY if last == first else LONG_QUERY
            break
        position, found, highest, code = _values(text, last, features, undecided, row, n_undecided)
        if code != DONE:
            position = line if code < BAD_LABEL else position
            break
        if n_queries == 0 or not _same(text, queries, n_queries - 1, first, last):
            queries[n_queries, 0], queries[n_queries, 1], queries[n_queries, 2] = row, first, last
            n_queries += 1
        labels[row] = label
        row, n_undecided, widest = row + 1, found, max(widest, highest)
        position = _next_line(text, position)
    progress[0], progress[1], progress[2], progress[3], progress[4] = position, row, n_queries, n_undecided, widest
    return code


@kernel
def highest_feature(text: Any, start: int, stop: int) -> Any:
    """Return the highest feature number in whole lines, at most MAX_FEATURE, without validating the lines."""
    highest: Any = 0
    number: Any = 0
    position = start
    while position < stop:
        byte = np.int64(text[position])
        if 48 <= byte <= 57:
            number = min(number * 10 + (byte - 48), MAX_FEATURE)
        else:
            if byte == 58:
                highest = max(highest, number)
            elif byte == 35:
                position = _next_line(text, position) - 1
            number = 0
        position += 1
    return highest


@kernel
def mark_varying(features: Any, reference: Any, varying: Any) -> None:
    """Set ``varying`` to True for every column in which some row differs from the reference row."""
    for row in range(features.shape[0]):
        for column in range(features.shape[1]):
            varying[column] |= features[row, column] != reference[column]


@kernel
def scale_queries(features: Any, offsets: Any, columns: Any, scaled: Any) -> None:
    """Scale each feature to [0, 1] within each query; a feature that is constant within a query becomes 0.

    Parameters
    ----------
    features
        (n_documents, n_features); query i owns the rows offsets[i] to offsets[i + 1].
    columns
        (n_kept,) the features to keep.
    scaled
        (n_documents, n_kept), filled.
    """
    lowest = np.empty(columns.shape[0])
    highest = np.empty(columns.shape[0])
    for query in range(offsets.shape[0] - 1):
        start, stop = offsets[query], offsets[query + 1]
        for kept in range(columns.shape[0]):
            lowest[kept] = highest[kept] = features[start, columns[kept]] if start < stop else 0.0
        for row in range(start + 1, stop):
            for kept in range(columns.shape[0]):
                value = features[row, columns[kept]]
                lowest[kept] = min(lowest[kept], value)
                highest[kept] = max(highest[kept], value)
        for row in range(start, stop):
            for kept in range(columns.shape[0]):
                scaled[row, kept] = _within(features[row, columns[kept]], lowest[kept], highest[kept])


@kernel
def scale_query(features: Any) -> Any:
    """Scale each feature to [0, 1] among the documents of one query; a constant feature becomes 0.

    The results are those of `scale_queries`; this kernel works on whole rows at a time.
    """
    n_documents, n_columns = features.shape
    low, high = features[0].copy(), features[0].copy()
    for row in range(1, n_documents):
        for column in range(n_columns):
            low[column] = min(low[column], features[row, column])
            high[column] = max(high[column], features[row, column])
    width, too_wide = np.empty(n_columns), False
    for column in range(n_columns):
        width[column] = high[column] - low[column]
        too_wide |= width[column] > LARGEST
        width[column] = 1.0 if width[column] == 0.0 else width[column]
    scaled = np.empty(features.shape)
    for row in range(n_documents):
        for column in range(n_columns):
            scaled[row, column] = (features[row, column] - low[column]) / width[column]
    if too_wide:
        for row in range(n_documents):
            for column in range(n_columns):
                scaled[row, column] = _within(features[row, column], low[column], high[column])
    return scaled


@kernel(inline="always")
def _within(value: Any, low: Any, high: Any) -> Any:
    if low == high:
        return 0.0
    if high - low <= LARGEST:
        return (value - low) / (high - low)
    # The range is beyond the largest float (such as with a placeholder for missing values), but half of it is not.
    return (0.5 * value - 0.5 * low) / (0.5 * high - 0.5 * low)
