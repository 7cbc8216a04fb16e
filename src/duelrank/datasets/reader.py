"""Reads LETOR text from a stream of any length in blocks of rows, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from duelrank.datasets.sources import reading
from duelrank.errors import DataFormatError
from duelrank.kernels import letor
from duelrank.types import Features, Labels

__all__ = ["Block", "read_blocks"]

CHUNK_BYTES = 4 << 20
BLOCK_BYTES = 4 << 20  # bytes of features in one block
LONGEST_LINE = 64 << 20
_UNDECIDED_ROOM = 256
_LOOK_AHEAD = 1 << 16

_EXPECTED = {
    letor.BAD_LABEL: f"a label: a whole number from 0 to {letor.MAX_LABEL}",
    letor.BAD_QUERY: "'qid:' and the name of the query",
    letor.LONG_QUERY: f"a query name of at most {letor.MAX_QUERY_NAME} bytes",
    letor.BAD_FEATURE: f"a feature 'number:value' with a number from 1 to {letor.MAX_FEATURE:,}",
    letor.BAD_ORDER: "features in ascending order, each given once",
    letor.BAD_VALUE: "a feature 'number:value' with a finite number as its value",
}


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive documents; the arrays are views that the next block overwrites.

    Parameters
    ----------
    features
        (n_documents, width); the width may grow from one block to the next.
    labels
        (n_documents,)
    queries
        (row, name) of the first document of each query. A query that continues from the previous block is not listed
        again.
    widest
        The highest feature number so far.
    """

    features: Features
    labels: Labels
    queries: list[tuple[int, bytes]]
    widest: int


def read_blocks(stream: BinaryIO, name: str, width: int = 1, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Block]:
    """Read LETOR text strictly: malformed text raises `DataFormatError` with the line and what was found and expected.

    Parameters
    ----------
    stream
        Decompressed bytes.
    name
        The name of the stream in error messages.
    width
        Expected number of features; if there are more, a chunk is parsed again.
    chunk_bytes
        Size of the text buffer; it grows for a longer line.
    """
    return _Reader(stream, name, width, chunk_bytes).blocks()


class _Reader:
    """One pass over one stream: a buffer of text, a block of rows, and the names of the queries so far."""

    def __init__(self, stream: BinaryIO, name: str, width: int, chunk_bytes: int) -> None:
        self.stream, self.name = stream, name
        self.buffer = bytearray(chunk_bytes)
        self.text: NDArray[np.uint8] = np.frombuffer(self.buffer, np.uint8)
        self.filled = 0  # bytes of text in the buffer
        self.lines = 0  # number of lines before the buffer
        self.widest = 0
        self.last: bytes | None = None
        self.seen: set[bytes] = set()
        self.undecided = np.empty((_UNDECIDED_ROOM, 4), np.int64)
        self.progress = np.zeros(5, np.int64)
        self._make_room(width)

    def blocks(self) -> Iterator[Block]:
        """Parse the stream to its end."""
        ended = False
        while not ended:
            ended = not self._fill()
            stop = self._whole_lines(ended)
            yield from self._parse(stop)
            self.lines += self.buffer.count(b"\n", 0, stop)
            self.buffer[: self.filled - stop] = self.buffer[stop : self.filled]
            self.filled -= stop

    def _fill(self) -> bool:
        """Read until the buffer is full; False at the end of the stream."""
        while self.filled < len(self.buffer) - 1:  # one byte is reserved for a newline that the last line may lack
            with reading(self.name), memoryview(self.buffer) as view:
                got = self.stream.readinto(view[self.filled : -1])  # type: ignore[attr-defined]
            if not got:
                return False
            self.filled += got
        return True

    def _whole_lines(self, ended: bool) -> int:
        """Return the end of the last complete line; the buffer grows if a line does not fit."""
        if ended:
            if self.filled and self.buffer[self.filled - 1] != 10:
                self.buffer[self.filled] = 10
                self.filled += 1
            return self.filled
        stop = self.buffer.rfind(b"\n", 0, self.filled) + 1
        if stop == 0:
            if len(self.buffer) >= LONGEST_LINE:
                line = f"{self.name}, line {self.lines + 1}"
                raise DataFormatError(f"{line}: found no end within {LONGEST_LINE:,} bytes, expected LETOR text")
            grown = bytearray(2 * len(self.buffer))
            grown[: self.filled] = self.buffer[: self.filled]
            self.buffer, self.text = grown, np.frombuffer(grown, np.uint8)
        return stop

    def _make_room(self, width: int) -> None:
        rows = max(1, BLOCK_BYTES // (8 * max(1, width)))
        self.features = np.empty((rows, width))
        self.labels = np.empty(rows, np.int8)
        self.queries = np.empty((rows, 3), np.int64)

    def _parse(self, stop: int) -> Iterator[Block]:
        position = 0
        while position < stop:
            code = letor.parse_lines(
                self.text, position, stop, self.features, self.labels, self.queries, self.undecided, self.progress
            )
            if code >= letor.BAD_LABEL:
                raise self._error(int(self.progress[0]), _EXPECTED[code])
            position = int(self.progress[0])
            self.widest = max(self.widest, int(self.progress[4]))
            if self.progress[1]:
                yield self._block()
            if code == letor.TOO_NARROW:
                # The next lines show the width of most files; a wider line later leads here again.
                near = self.buffer.find(b"\n", min(position + _LOOK_AHEAD, stop - 1), stop) + 1
                self._make_room(letor.highest_feature(self.text, position, near))
            elif code == letor.UNDECIDED_FULL:
                self.undecided = np.empty((2 * len(self.undecided), 4), np.int64)

    def _block(self) -> Block:
        _, rows, n_queries, n_undecided, _ = self.progress.tolist()
        for row, column, first, last in self.undecided[:n_undecided].tolist():
            value = float(self.buffer[first:last])
            if abs(value) > letor.LARGEST:
                raise self._error(first, _EXPECTED[letor.BAD_VALUE])
            self.features[row, column] = value
        queries: list[tuple[int, bytes]] = []
        for row, first, last in self.queries[:n_queries].tolist():
            query = bytes(self.buffer[first:last])
            if query != self.last:
                self._remember(query, first)
                queries.append((row, query))
        return Block(self.features[:rows], self.labels[:rows], queries, self.widest)

    def _remember(self, query: bytes, position: int) -> None:
        if query in self.seen:
            raise self._error(position, "each query's documents on consecutive lines; this query occurred before")
        try:
            query.decode()
        except UnicodeDecodeError:
            raise self._error(position, "a query name in UTF-8") from None
        self.seen.add(query)
        self.last = query

    def _error(self, position: int, expected: str) -> DataFormatError:
        line = self.lines + self.buffer.count(b"\n", 0, position) + 1
        rest = bytes(self.buffer[position : position + 300]).split(b"\n")[0].split()
        found = rest[0].decode(errors="backslashreplace") if rest else ""
        shown = repr(found if len(found) <= 40 else f"{found[:40]}...") if found else "the end of the line"
        return DataFormatError(f"{self.name}, line {line}: found {shown}, expected {expected}")
