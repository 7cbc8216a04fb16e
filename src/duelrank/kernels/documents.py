"""Kernel of requests: reads the documents of a JSON body straight into an array, without an object for each number.

It reads what almost all clients send, and leaves the rest to a general decoder: anything that it does not know is UNUSUAL.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels.datasets import EXACT, LARGEST, TENS, byte_at, digit_at, long_number, nearest

READ, UNUSUAL = 0, 1
_NONE = -1  # the position after something unusual

_DOCUMENTS, _ID, _FEATURES = (np.frombuffer(word, np.uint8).copy() for word in (b"documents", b"id", b"features"))
_QUOTE, _COMMA, _COLON, _BACKSLASH = 34, 44, 58, 92
_OPEN_LIST, _CLOSE_LIST, _OPEN_OBJECT, _CLOSE_OBJECT = 91, 93, 123, 125


@kernel(inline="always")
def _skip_blanks(text: Any, position: Any) -> Any:
    byte = byte_at(text, position)
    while byte == 32 or byte == 10 or byte == 13 or byte == 9:
        position += 1
        byte = byte_at(text, position)
    return position


@kernel(inline="always")
def _end_of_string(text: Any, position: Any, last: Any) -> Any:
    """Return the position of the quote after a string that begins at ``position``; none if it has an escape or no end."""
    while position < last:
        byte = byte_at(text, position)
        if byte == _QUOTE:
            return position
        if byte == _BACKSLASH or byte < 32:
            return _NONE
        position += 1
    return _NONE


@kernel
def _is_word(text: Any, start: int, stop: int, word: Any) -> Any:
    if stop - start != word.shape[0]:
        return False
    for i in range(word.shape[0]):  # noqa: SIM110  # compiled code has no generators
        if byte_at(text, start + i) != word[i]:
            return False
    return True


@kernel
def _value_after(text: Any, stop: int) -> Any:
    """Return the position of the value whose name ends with the quote at ``stop``."""
    position = _skip_blanks(text, stop + 1)
    return _skip_blanks(text, position + 1) if byte_at(text, position) == _COLON else _NONE


@kernel
def _end_of_scalar(text: Any, position: int, last: int) -> Any:
    """Return the position after a string, a number or a literal, which is validated elsewhere."""
    if byte_at(text, position) == _QUOTE:
        position = _end_of_string(text, position + 1, last)
        return position if position < 0 else position + 1
    while position < last:
        byte = byte_at(text, position)
        if byte in (_COMMA, _CLOSE_OBJECT) or byte <= 32:
            return position
        if byte in (_QUOTE, _OPEN_LIST, _OPEN_OBJECT):
            return _NONE
        position += 1
    return position


@kernel(inline="always")
def _number(text: Any, start: int) -> Any:
    """Read a number by the grammar of JSON; return (value, position after it, or none)."""
    negative = byte_at(text, start) == 45  # -
    first = start + negative
    mantissa, position = _digits(text, first, np.uint64(0))
    n_digits, exponent = position - first, 0
    if n_digits == 0 or (n_digits > 1 and byte_at(text, first) == 48):
        return 0.0, _NONE
    if byte_at(text, position) == 46:  # .
        point = position + 1
        mantissa, position = _digits(text, point, mantissa)
        exponent = point - position
        n_digits -= exponent
        if exponent == 0:
            return 0.0, _NONE
    if byte_at(text, position) | 32 == 101 or n_digits > 18:  # e E
        value, behind, status = long_number(text, start, first, position)
        if status != EXACT or not value <= LARGEST or (n_digits > 18 and exponent == 0):
            return 0.0, _NONE
        return -value if negative else value, behind
    if mantissa <= np.uint64(1 << 53) and exponent >= -22:
        value = np.float64(mantissa) / TENS[np.uint64(-exponent)]
    else:
        value = nearest(mantissa, exponent)
    return -value if negative and (exponent < 0 or value != 0.0) else value, position  # the whole number -0 is 0


@kernel(inline="always")
def _digits(text: Any, position: Any, mantissa: Any) -> Any:
    """Append digits to a mantissa; return it and the position after them."""
    digit = digit_at(text, position)
    while digit < 10:
        mantissa = mantissa * np.uint64(10) + digit
        position += 1
        digit = digit_at(text, position)
    return mantissa, position


@kernel
def _numbers(text: Any, position: int, values: Any, n_values: int) -> Any:
    """Read the numbers of a list that begins at ``position``; return (position after it, or none; number of values)."""
    if position < 0 or byte_at(text, position) != _OPEN_LIST:
        return _NONE, n_values
    while True:
        position = _skip_blanks(text, position + 1)
        value, position = _number(text, position)
        if position < 0:
            return _NONE, n_values
        values[np.uint64(n_values)] = value
        n_values += 1
        position = _skip_blanks(text, position)
        if byte_at(text, position) == _CLOSE_LIST:
            return position + 1, n_values
        if byte_at(text, position) != _COMMA:
            return _NONE, n_values


@kernel
def _copy_id(text: Any, position: int, last: int, ids: Any, n_bytes: int) -> Any:
    """Copy the string at ``position`` and a zero; return (position after the string, or none; number of bytes)."""
    if position < 0 or byte_at(text, position) != _QUOTE:
        return _NONE, n_bytes
    stop = _end_of_string(text, position + 1, last)
    for i in range(position + 1, stop):
        ids[n_bytes] = text[i]
        n_bytes += 1
    ids[n_bytes] = 0
    return (stop if stop < 0 else stop + 1), n_bytes + 1


@kernel
def _document(text: Any, position: int, last: int, values: Any, n_values: int, ids: Any, n_bytes: int) -> Any:
    """Read ``{"id": "...", "features": [...]}``; return (position after it, or none; numbers of values and bytes)."""
    n_ids, n_lists = 0, 0
    while position >= 0 and n_ids + n_lists < 2:
        position = _skip_blanks(text, position + 1)
        if byte_at(text, position) != _QUOTE:
            return _NONE, n_values, n_bytes
        start, stop = position + 1, _end_of_string(text, position + 1, last)
        if _is_word(text, start, stop, _ID):
            position, n_bytes = _copy_id(text, _value_after(text, stop), last, ids, n_bytes)
            n_ids += 1
        elif _is_word(text, start, stop, _FEATURES):
            position, n_values = _numbers(text, _value_after(text, stop), values, n_values)
            n_lists += 1
        else:
            return _NONE, n_values, n_bytes
        if position < 0:
            return _NONE, n_values, n_bytes
        position = _skip_blanks(text, position)
        expected = _COMMA if n_ids + n_lists < 2 else _CLOSE_OBJECT
        if byte_at(text, position) != expected or n_ids > 1 or n_lists > 1 or position == last:
            return _NONE, n_values, n_bytes
    return position + 1, n_values, n_bytes


@kernel
def _documents(text: Any, position: int, last: int, values: Any, ids: Any, found: Any) -> Any:
    """Read a list of documents with as many features each; return the position after it, or none."""
    n_documents, n_values, n_bytes, width = 0, 0, 0, 0
    while True:
        position = _skip_blanks(text, position + 1)
        if byte_at(text, position) != _OPEN_OBJECT:
            return _NONE
        before = n_values
        position, n_values, n_bytes = _document(text, position, last, values, n_values, ids, n_bytes)
        n_documents += 1
        width = n_values if n_documents == 1 else width
        if position < 0 or n_values - before != width:
            return _NONE
        position = _skip_blanks(text, position)
        if byte_at(text, position) == _CLOSE_LIST:
            found[2], found[3], found[4] = n_documents, width, n_bytes - 1
            return position + 1
        if byte_at(text, position) != _COMMA:
            return _NONE


@kernel
def read_documents(text: Any, values: Any, ids: Any, found: Any) -> Any:
    """Read the list of documents in ``{"documents": [{"id": "a", "features": [0.5, 2]}, ...], ...}``.

    Values are equal to those of a general decoder to the last bit. Not read are, among others: escapes in names and ids, features
    by name, lists of different lengths, whole numbers of more than 18 digits, numbers beyond the largest float, values of other
    fields that are lists or objects, repeated names, and everything that is not valid. Other fields are not validated.

    Parameters
    ----------
    text
        The bytes of the body.
    values
        float64, filled with the features, document by document; half as many as bytes of text, and one more, are enough.
    ids
        uint8, filled with the ids, separated by zeros; as many as bytes of text are enough.
    found
        (5,) int64, filled with the start and the stop of the list in the text, the number of documents, of features of each, and of
        bytes in ``ids``.

    Returns
    -------
    code
        READ or UNUSUAL.
    """
    last = text.shape[0] - 1
    if last < 1 or text[0] != _OPEN_OBJECT or text[last] != _CLOSE_OBJECT:
        return UNUSUAL
    position = 0
    while True:
        position = _skip_blanks(text, position + 1)
        start, stop = position + 1, _end_of_string(text, position + 1, last)
        if byte_at(text, position) != _QUOTE or stop < 0:
            return UNUSUAL
        position = _value_after(text, stop)
        if position < 0 or position == last:
            return UNUSUAL
        if _is_word(text, start, stop, _DOCUMENTS):
            if found[1] > 0 or byte_at(text, position) != _OPEN_LIST:
                return UNUSUAL
            found[0] = position
            position = _documents(text, position, last, values, ids, found)
            found[1] = position
        else:
            position = _end_of_scalar(text, position, last)
        if position < 0:
            return UNUSUAL
        position = _skip_blanks(text, position)
        if position == last:
            return READ if found[1] > 0 else UNUSUAL
        if byte_at(text, position) != _COMMA:
            return UNUSUAL


@kernel(nogil=True)
def read_documents_aside(text: Any, values: Any, ids: Any, found: Any) -> Any:
    """Do what `read_documents` does, for a thread: other threads run meanwhile."""
    return read_documents(text, values, ids, found)
