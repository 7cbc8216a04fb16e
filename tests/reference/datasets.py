"""Reference versions of `duelrank.kernels.datasets`: regular expressions, `float` and whole columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from duelrank.core.types import Features, Labels
from duelrank.kernels import datasets as letor
from duelrank.kernels.datasets import EXACT, MALFORMED

_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DANGLING = re.compile(rb"[eE]")
_WORD = re.compile(rb"[^ \t\r]+")


def byte_at(text: NDArray[np.uint8], position: int) -> int:
    """Return a byte."""
    return int(text[position])


def digit_at(text: NDArray[np.uint8], position: int) -> int:
    """Return the digit at a position, or a number above 9 if there is none."""
    return (int(text[position]) - ord("0")) % 256


def read_number(text: NDArray[np.uint8], start: int) -> tuple[float, int, int]:
    """Read the number that begins at ``start``."""
    content = text.tobytes()
    found = _NUMBER.match(content, start)
    if found is None or _DANGLING.match(content, found.end()):
        return 0.0, start, MALFORMED
    return float(found[0]), found.end(), EXACT


def long_number(text: NDArray[np.uint8], start: int, first: int, position: int) -> tuple[float, int, int]:
    """Read the number that begins at ``start``, without its sign."""
    value, behind, status = read_number(text, first)
    return value, behind if status == EXACT else start, status


def nearest(mantissa: int, exponent: int) -> float:
    """Return the float64 nearest to mantissa * 10^exponent."""
    return float(f"{mantissa}e{exponent}")


class _Stop(Exception):
    """Ends parsing, with a code and a position."""

    def __init__(self, code: int, position: int) -> None:
        super().__init__(code, position)
        self.code, self.position = code, position


def parse_lines(
    text: NDArray[np.uint8],
    start: int,
    stop: int,
    features: Features,
    labels: Labels,
    queries: NDArray[np.int64],
    undecided: NDArray[np.int64],
    progress: NDArray[np.int64],
) -> int:
    """Parse whole lines into rows; no number is ever undecided."""
    row, n_queries, widest, before = 0, 0, 0, b""
    code, position = letor.DONE, stop
    for line, words in _lines(text, start, stop):
        try:
            if row == len(labels):
                raise _Stop(letor.ROWS_FULL, line)
            label, (first, name), values = _document(words, line, features.shape[1])
        except _Stop as reason:
            code, position = reason.code, reason.position
            break
        features[row] = 0.0
        features[row, [feature - 1 for feature in values]] = list(values.values())
        labels[row] = label
        if n_queries == 0 or name != before:
            queries[n_queries] = row, first, first + len(name)
            n_queries += 1
        row, before, widest = row + 1, name, max(widest, *values, 0)
    progress[:] = position, row, n_queries, 0, widest
    return code


def _lines(text: NDArray[np.uint8], start: int, stop: int) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Yield (position, words with their positions) of lines that are not empty; the last word is the end of the line."""
    position = start
    for line in text[start:stop].tobytes().split(b"\n")[:-1]:
        content = line.split(b"#")[0]
        words = [(position + found.start(), found[0]) for found in _WORD.finditer(content)]
        if words:
            yield position, [*words, (position + len(content), b"")]
        position += len(line) + 1


def _document(words: list[tuple[int, bytes]], line: int, width: int) -> tuple[int, tuple[int, bytes], dict[int, float]]:
    (label_at, label), (query_at, query), *rest = words
    if not re.fullmatch(rb"\d{1,18}", label) or int(label) > letor.MAX_LABEL or not query_at > label_at + len(label):
        raise _Stop(letor.BAD_LABEL, label_at)
    name = query[4:] if query.startswith(b"qid:") else b""
    if not name or any(byte < 32 or byte == 127 for byte in name):
        raise _Stop(letor.BAD_QUERY, query_at)
    if len(name) > letor.MAX_QUERY_NAME:
        raise _Stop(letor.LONG_QUERY, query_at)
    values: dict[int, float] = {}
    for position, word in rest[:-1]:
        feature, value = _feature(word, position)
        if values and feature <= max(values):
            raise _Stop(letor.BAD_ORDER, position)
        if feature > width:
            raise _Stop(letor.TOO_NARROW, line)
        if not _NUMBER.fullmatch(value) or not np.isfinite(float(value)):
            raise _Stop(letor.BAD_VALUE, position)
        values[feature] = float(value)
    return int(label), (query_at + 4, name), values


def _feature(word: bytes, position: int) -> tuple[int, bytes]:
    number, colon, value = word.partition(b":")
    if not colon or not re.fullmatch(rb"\d{1,18}", number) or not 1 <= int(number) <= letor.MAX_FEATURE:
        raise _Stop(letor.BAD_FEATURE, position)
    return int(number), value


def highest_feature(text: NDArray[np.uint8], start: int, stop: int) -> int:
    """Return the highest feature number in whole lines, at most MAX_FEATURE."""
    lines = text[start:stop].tobytes().split(b"\n")
    found = [int(number) for line in lines for number in re.findall(rb"(\d+):", line.split(b"#")[0])]
    return min(max(found, default=0), letor.MAX_FEATURE)


def mark_varying(features: Features, reference: NDArray[np.float64], varying: NDArray[np.bool_]) -> None:
    """Set ``varying`` to True for every column in which some row differs from the reference row."""
    varying |= (features != reference).any(axis=0)


def scale_queries(features: Features, offsets: NDArray[np.int64], columns: NDArray[np.int64], scaled: Features) -> None:
    """Scale each feature to [0, 1] within each query; a feature that is constant within a query becomes 0."""
    for start, stop in pairwise(offsets.tolist()):
        if start == stop:
            continue
        rows = features[start:stop, columns]
        low, high = rows.min(axis=0), rows.max(axis=0)
        with np.errstate(over="ignore"):
            factor = np.where(np.isfinite(high - low), 1.0, 0.5)
        span = factor * high - factor * low
        scaled[start:stop] = np.where(high > low, (factor * rows - factor * low) / np.where(span > 0, span, 1.0), 0.0)


def scale_query(features: Features) -> Features:
    """Scale each feature to [0, 1] among the documents of one query."""
    scaled = np.empty(features.shape)
    scale_queries(features, np.array([0, len(features)]), np.arange(features.shape[1]), scaled)
    return scaled
