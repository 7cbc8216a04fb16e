"""LETOR text to arrays: one pass over the bytes of whole lines, ``label qid:name 1:value 2:value ... # comment``."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.compiling import kernel
from duelrank.kernels.decimal import MALFORMED, UNDECIDED, byte_at, digit_at, read_number

MAX_LABEL = 30
MAX_FEATURE = 100_000
MAX_QUERY_NAME = 255
LARGEST = 1.7976931348623157e308  # the largest finite float

# Why `parse_lines` stopped. The first four are no errors: make room, or be done.
DONE, ROWS_FULL, TOO_NARROW, UNDECIDED_FULL = 0, 1, 2, 3
BAD_LABEL, BAD_QUERY, LONG_QUERY, BAD_FEATURE, BAD_ORDER, BAD_VALUE = 10, 11, 12, 13, 14, 15


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
    """Read digits; returns (number, position behind), the number -1 where there are none or it is above ``most``."""
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
    """Return the (start, stop) of the name in ``qid:name``; they are equal where there is none."""
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
    """Whether the name at (first, last) is that of a query that was found before."""
    if queries[number, 2] - queries[number, 1] != last - first:
        return False
    for i in range(last - first):  # noqa: SIM110  # compiled code has no generators
        if byte_at(text, queries[number, 1] + i) != byte_at(text, first + i):
            return False
    return True


@kernel
def _values(text: Any, position: int, features: Any, undecided: Any, row: int, n_undecided: int) -> Any:
    """Fill one row; returns (position, numbers left undecided so far, highest feature, code)."""
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
    """Parse the whole lines in text[start:stop] into rows, until done, out of room or at something malformed.

    Parameters
    ----------
    text
        Bytes, of which text[start:stop] are whole lines: the last one is a newline.
    features, labels
        (room, width) float64 and (room,) int8, filled from row 0.
    queries
        (room, 3) int64, filled with (first row, start and stop of the name in the text) of each run of equal names.
    undecided
        (room, 4) int64, filled with (row, column, start and stop in the text) of numbers that only `float` can decide.
    progress
        (5,) int64, filled with the position (of the line that was not parsed, or of what is malformed), and how many
        rows, queries, undecided numbers and features (the highest one found) there are.

    Returns
    -------
    code
        DONE, one of the reasons to make room (ROWS_FULL, TOO_NARROW, UNDECIDED_FULL) or one of the BAD ones.
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
    """Return the highest feature number in whole lines, at most MAX_FEATURE: a quick look that checks nothing."""
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
