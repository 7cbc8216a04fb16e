"""JSON records of log files, one after the other: NDJSON, arrays and indented JSON, plain or compressed with gzip; also stdin."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from duelrank.errors import DataFormatError, InvalidValue, MissingData
from duelrank.progress import Tell

__all__ = ["Place", "Troubles", "answers", "check_files", "hits", "read_records", "sources"]

STDIN = "-"
# Bytes of one line at most: a search answer with ten thousand hits has some ten million.
LONGEST = 256 << 20
# Bytes that are read at once of a file that is not made of lines; records between two words about progress.
PIECE, TELL_EVERY = 1 << 20, 1000
# Reasons that are kept.
FIRST = 5

_decode = msgspec.json.Decoder().decode


class Place(NamedTuple):
    """Where a record is."""

    file: str
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.unit} {self.number:,} of {_name(self.file)}"


class Troubles:
    """Records that cannot be used: they are counted, the first are kept, and more than ``most`` of them are an error."""

    def __init__(self, most: int) -> None:
        self._most, self.count = most, 0
        self.first: list[str] = []

    def note(self, place: Place, reason: object) -> None:
        """Note one, or raise where there are too many."""
        self.count += 1
        if len(self.first) < FIRST:
            self.first.append(f"{place}: {reason}")
        if self.count > self._most:
            raise DataFormatError(
                f"{self.count:,} records cannot be used, and --max-errors is {self._most:,}; the first is {self.first[0]}"
            )


def check_files(*groups: Sequence[str]) -> None:
    """Raise an error if a file is missing, or stdin is asked for twice, before hours are spent on the others."""
    files = [file for group in groups for file in group]
    if files.count(STDIN) > 1:
        raise InvalidValue("only one of the files can be - (stdin)")
    for file in files:
        if file != STDIN and (not Path(file).exists() or Path(file).is_dir()):
            raise MissingData(f"there is no file {file}")


def read_records(files: Sequence[str], troubles: Troubles, tell: Tell) -> Iterator[tuple[Any, Place]]:
    """Return all records of some files and where they are; a line that is no JSON is noted.

    ``tell`` is told how many bytes were read, and of how many where that is known.
    """
    sizes = [Path(file).stat().st_size if file != STDIN and Path(file).is_file() else None for file in files]
    total = None if None in sizes else sum(filter(None, sizes))
    before = 0
    for file in files:
        with _opened(file) as raw:
            for count, found in enumerate(_records(_unpacked(raw), file, troubles)):
                if count % TELL_EVERY == 0:
                    tell(before + raw.done, total)
                yield found
        before += raw.done
    tell(before, total)


def sources(record: Any) -> Iterator[dict[str, Any]]:
    """Return the documents of a record as a search engine writes it.

    These are the hits of one search answer or of several, a hit with ``_source``, or the document itself; the lines between
    documents of a bulk request have none.
    """
    if not isinstance(record, dict):
        raise DataFormatError(f"an object is expected, got {type(record).__name__}")
    if "responses" in record:
        for each in answers(record):
            yield from sources(each)
    elif "hits" in record:
        for hit in hits(record):
            yield from sources(hit)
    elif "_source" in record:
        yield from sources(record["_source"])
    elif not is_bulk_action(record):
        yield record


def answers(record: dict[str, Any]) -> list[Any]:
    """Return the search answers of an answer to several searches at once."""
    found = record["responses"]
    if not isinstance(found, list):
        raise DataFormatError("responses is a list of search answers")
    return found


def hits(answer: dict[str, Any]) -> list[Any]:
    """Return the hits of a search answer."""
    found = answer["hits"].get("hits") if isinstance(answer["hits"], dict) else None
    if not isinstance(found, list):
        raise DataFormatError("a search answer has its hits in hits.hits")
    return found


def is_bulk_action(record: dict[str, Any]) -> bool:
    """Whether a record is a line of a bulk request that says what to do with the next line."""
    return len(record) == 1 and not record.keys().isdisjoint(("index", "create", "update", "delete"))


class _Counting(io.RawIOBase):
    """A file that knows how much of it was read; pipes do not."""

    def __init__(self, file: BinaryIO) -> None:
        self._read, self.done = getattr(file, "read1", file.read), 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are, or as fit."""
        content = self._read(len(buffer))
        buffer[: len(content)] = content
        self.done += len(content)
        return len(content)


@contextmanager
def _opened(file: str) -> Iterator[_Counting]:
    try:
        if file == STDIN:
            yield _Counting(sys.stdin.buffer)
        else:
            with open(file, "rb") as found:
                yield _Counting(found)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFormatError(f"{_name(file)} is damaged, or not all of it is there: {error}") from None
    except OSError as error:
        raise MissingData(f"cannot read {_name(file)}: {error.strerror or error}") from None


def _unpacked(raw: _Counting) -> io.BufferedReader:
    content: io.BufferedReader = io.BufferedReader(raw, PIECE)
    if content.peek(2)[:2] != b"\x1f\x8b":
        return content
    return io.BufferedReader(gzip.GzipFile(fileobj=content), PIECE)


def _records(content: io.BufferedReader, file: str, troubles: Troubles) -> Iterator[tuple[Any, Place]]:
    """Return the records of a file: one per line, unless it begins as an array or as an object over several lines."""
    if re.match(rb"\xff\xfe|\xfe\xff|.\0|\0.", content.peek(2)[:2]):
        raise DataFormatError(f"{_name(file)} is in UTF-16, as > of Windows PowerShell writes it; convert it to UTF-8")
    if re.match(rb"(\xef\xbb\xbf)?\s*(\[|\{\s*\n)", content.peek(64)):
        yield from _values(content, file, troubles)
    else:
        yield from _lines(content, file, troubles)


def _lines(content: io.BufferedReader, file: str, troubles: Troubles) -> Iterator[tuple[Any, Place]]:
    line, number = content.readline(LONGEST).removeprefix(b"\xef\xbb\xbf"), 1
    while line:
        place = Place(file, number)
        if len(line) == LONGEST:
            raise DataFormatError(f"{place} has more than {LONGEST:,} bytes; one record per line is expected")
        if not line.isspace():
            yield from _decoded(line, place, troubles)
        line, number = content.readline(LONGEST), number + 1


def _decoded(text: bytes | str, place: Place, troubles: Troubles) -> Iterator[tuple[Any, Place]]:
    """Return a record, or nothing where its text is no JSON: that is noted."""
    try:
        record = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        troubles.note(place, f"no valid JSON: {error}")
    else:
        yield record, place


def _values(content: io.BufferedReader, file: str, troubles: Troubles) -> Iterator[tuple[Any, Place]]:
    """Return the elements of an array, or objects with spaces between them; one at a time has to fit into memory."""
    text = io.TextIOWrapper(content, "utf-8-sig")
    # This decoder only finds the end of a record: it also takes what is no JSON, such as halves of letters and Infinity.
    decode, pending, number, size = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode, "", 0, PIECE
    at = 0
    while True:
        at = _skipped(pending, at)
        try:
            _, end = decode(pending, at)
        except (ValueError, RecursionError) as error:
            more = _read(text, size, file)
            if not more and at == len(pending):
                return
            if not more or len(pending) - at > LONGEST:
                raise DataFormatError(f"{Place(file, number + 1, 'record')} is no valid JSON: {error}") from None
            pending, at, size = pending[at:] + more, 0, 2 * size
        else:
            number, size = number + 1, PIECE
            yield from _decoded(pending[at:end], Place(file, number, "record"), troubles)
            at = end


def _skipped(text: str, at: int) -> int:
    """Return where the next record begins."""
    while at < len(text) and text[at] in " \t\r\n[,]":
        at += 1
    return at


def _read(content: io.TextIOWrapper, size: int, file: str) -> str:
    try:
        return content.read(size)
    except UnicodeDecodeError as error:
        raise DataFormatError(f"{_name(file)} is not in UTF-8: {error}") from None


def _name(file: str) -> str:
    return "stdin" if file == STDIN else file
