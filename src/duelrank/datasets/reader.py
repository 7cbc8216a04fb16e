"""Reads LETOR (SVMlight) text: files, folders and archives, compressed or not, block by block."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import DataFormatError, MissingData
from duelrank.core.types import Features, Labels
from duelrank.datasets.split import Split
from duelrank.kernels import datasets as letor

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

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.LZMAFile, ".bz2": bz2.BZ2File}
_TAR_SUFFIXES = {".tar": "", ".tgz": ".gz", ".txz": ".xz", ".tbz2": ".bz2"}
_MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"BZh": ".bz2", b"PK\x03\x04": ".zip", b"PK\x05\x06": ".zip"}
_UNREADABLE = {b"Rar!": "RAR", b"7z\xbc\xaf": "7-Zip"}
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile)
_TAR_END = 1024  # a complete tar archive ends with two blocks of zeros
_DEEPEST = 2  # a tar archive may contain another one

#: ``train.txt``, LETOR 3's ``trainingset.txt`` and Yahoo!'s ``set1.train.txt``.
_FILE = re.compile(r"(?:(?P<prefix>set\d+)\.)?(?P<split>train|vali|test)(?:ing|d|dation)?(?:set)?\.txt", re.IGNORECASE)
_FOLD = re.compile(r"fold[ _-]?(\d+)", re.IGNORECASE)


def read_letor(path: str | Path, *, n_features: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Split:
    r"""Read one LETOR (SVMlight) file, compressed or not, without any preparation.

    Parameters
    ----------
    n_features
        Minimum number of features: a sparse file need not contain the highest feature number.
    chunk_bytes
        Size of the text buffer.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from duelrank.datasets import read_letor
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:shoes 1:0.9 2:0.1\n0 qid:shoes 1:0.2 2:0.8\n")
    ...     split = read_letor(file)
    >>> split.labels.tolist(), split.features.tolist()
    ([2, 0], [[0.9, 0.1], [0.2, 0.8]])
    """
    source = open_source(Path(path), lambda _: True)
    with closing(source.members()) as members:  # closes the file after an error, too
        member = next(members, None)
        if member is None:
            raise DataFormatError(f"{path} contains no file")
        split = _read(source, member, n_features, chunk_bytes)
        if next(members, None) is not None:
            raise DataFormatError(f"{path} contains more than one file; import it as a data set instead")
    return split


def _read(source: Source, member: Member, n_features: int | None, chunk_bytes: int) -> Split:
    table, labels = np.empty((0, max(n_features or 1, 1))), np.empty(0, np.int8)
    starts: list[int] = []
    names: list[bytes] = []
    rows, widest = 0, n_features or 1
    for block in read_blocks(member.stream, member.display, table.shape[1], chunk_bytes):
        stop = rows + len(block.labels)
        if stop > len(table) or block.features.shape[1] > table.shape[1]:
            share = min(
                1.0, max(1, source.position()) / source.size
            )  # approximate share of the file that has been read
            room = int(1.1 * stop / share) + 16
            table, labels = _grown(table[:rows], labels[:rows], room, block.features.shape[1])
        table[rows:stop] = block.features
        labels[rows:stop] = block.labels
        starts += [rows + row for row, _ in block.queries]
        names += [name for _, name in block.queries]
        rows, widest = stop, max(widest, block.widest)
    if not rows:
        raise DataFormatError(f"{source.path} has no documents")
    offsets = np.array([*starts, rows], np.int64)
    exact = np.ascontiguousarray(table[:rows, :widest])
    return Split.trusted(exact, labels[:rows], offsets, np.array(names, np.bytes_))


def _grown(table: Features, labels: Labels, rows: int, columns: int) -> tuple[Features, Labels]:
    """Return larger arrays that begin with these; unused rows take no memory."""
    larger, longer = np.empty((rows, columns)), np.empty(rows, np.int8)
    larger[: len(table), : table.shape[1]] = table
    larger[: len(table), table.shape[1] :] = 0.0
    longer[: len(labels)] = labels
    return larger, longer


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


@dataclass(frozen=True, slots=True)
class Member:
    """One file in a source: its path there, and its decompressed stream, which is open until the next member."""

    path: PurePosixPath
    display: str
    stream: BinaryIO


@dataclass(frozen=True, slots=True)
class Source:
    """A folder or archive that can be read: its members in order, and the progress of reading."""

    path: Path
    size: int
    members: Callable[[], Generator[Member, None, None]]
    position: Callable[[], int]


def open_source(path: Path, wanted: Callable[[PurePosixPath], bool]) -> Source:
    """Open a folder, an archive or a single file; only members with wanted paths are opened."""
    if not path.exists():
        raise MissingData(f"the file or folder {str(path)!r} does not exist")
    return _folder(path, wanted) if path.is_dir() else _file(path, wanted)


def split_of(path: PurePosixPath, prefix: str = "") -> tuple[int, str] | None:
    """Return the (fold, split) of a file by its path, or None if the path names no split.

    Parameters
    ----------
    path
        The path inside the folder or archive, without a compression suffix. A path without a ``FoldN`` folder is fold 1.
    prefix
        Only files with this prefix count, for archives with several sets.

    Examples
    --------
    >>> split_of(PurePosixPath("MQ2008/Fold3/vali.txt"))
    (3, 'validation')
    >>> split_of(PurePosixPath("set2.train.txt"), prefix="set1") is None
    True
    """
    found = _FILE.fullmatch(path.name)
    if found is None or (prefix and (found["prefix"] or "").lower() != prefix) or "__MACOSX" in path.parts:
        return None
    split = {"train": "train", "vali": "validation", "test": "test"}[found["split"].lower()]
    folds = [int(match[1]) for part in path.parts[:-1] if (match := _FOLD.fullmatch(part))]
    return (folds[-1] if folds else 1), split


def _folder(folder: Path, wanted: Callable[[PurePosixPath], bool]) -> Source:
    with reading(str(folder)):
        inside = {path: PurePosixPath(path.relative_to(folder).as_posix()) for path in sorted(folder.rglob("*"))}
        files = [path for path, name in inside.items() if wanted(_plain(name)) and path.is_file()]
        sizes = {path: path.stat().st_size for path in files}
    done = 0
    current: BinaryIO | None = None

    def members() -> Generator[Member, None, None]:
        nonlocal done, current
        for path in files:
            with reading(str(path)), path.open("rb") as current:
                yield Member(_plain(inside[path]), str(path), _opened(current, path.suffix.lower()))
            done, current = done + sizes[path], None

    return Source(folder, sum(sizes.values()), members, lambda: done + (current.tell() if current else 0))


def _file(path: Path, wanted: Callable[[PurePosixPath], bool]) -> Source:
    with reading(str(path)), path.open("rb") as probe:
        start = probe.read(8)
    for magic, format_name in _UNREADABLE.items():
        if start.startswith(magic) or path.suffix.lower() == f".{format_name.lower()}":
            raise DataFormatError(
                f"{path} is a {format_name} archive, which cannot be read here; unpack it (for example with"
                f" 7z x {path.name}) and give the folder, or pack it again as .zip, .tar.gz or .tar.xz"
            )
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "")
    current: BinaryIO | None = None

    def members() -> Generator[Member, None, None]:
        nonlocal current
        with reading(str(path)), path.open("rb") as current:
            yield from _zip(current, path, wanted) if kind == ".zip" else _stream(current, path, kind, wanted)
        current = None

    return Source(path, path.stat().st_size, members, lambda: current.tell() if current else 0)


def _stream(raw: BinaryIO, path: Path, kind: str, wanted: Callable[[PurePosixPath], bool]) -> Iterator[Member]:
    """Yield the members of a tar archive, or a single text; both may be compressed."""
    plain: Any = _opened(raw, kind)
    start = plain.peek(512)[:512]
    name = _plain(PurePosixPath(path.name))
    if start[257:262] == b"ustar" or name.suffix.lower() in _TAR_SUFFIXES:
        yield from _tar(plain, str(path), wanted, _DEEPEST)
    elif wanted(name):
        yield Member(name, str(path), plain)


def _tar(stream: BinaryIO, display: str, wanted: Callable[[PurePosixPath], bool], depth: int) -> Iterator[Member]:
    tail = _Tail(stream)
    with tarfile.open(fileobj=cast(BinaryIO, tail), mode="r|") as archive:
        for info in archive:
            inner = archive.extractfile(info) if info.isfile() else None
            if inner is None:
                continue
            name, label = PurePosixPath(info.name), f"{display}/{_printable(info.name)}"
            if (suffix := _plain(name).suffix.lower()) in _TAR_SUFFIXES and depth > 1:
                kind = _TAR_SUFFIXES[suffix] or name.suffix.lower()
                yield from _tar(_opened(cast(BinaryIO, inner), kind), label, wanted, depth - 1)
            elif wanted(_plain(name)):
                yield Member(_plain(name), label, _opened(cast(BinaryIO, inner), name.suffix.lower()))
    while tail.read(1 << 20):  # reading to the end makes the decompressor verify its checksum
        pass
    if len(tail.last) < _TAR_END or any(tail.last):
        raise tarfile.ReadError("the end of the archive is missing")


class _Tail:
    """A stream that remembers the last bytes read."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.last = stream, b""

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.last = (self.last + data[-_TAR_END:])[-_TAR_END:]
        return data


def _zip(raw: BinaryIO, path: Path, wanted: Callable[[PurePosixPath], bool]) -> Iterator[Member]:
    with zipfile.ZipFile(raw) as archive:
        for info in archive.infolist():
            name = PurePosixPath(info.filename)
            if not info.is_dir() and wanted(_plain(name)):
                with archive.open(info) as inner:
                    yield Member(_plain(name), f"{path}/{name}", _opened(cast(BinaryIO, inner), name.suffix.lower()))


def _plain(path: PurePosixPath) -> PurePosixPath:
    """Return the path without a compression suffix."""
    return path.with_suffix("") if path.suffix.lower() in _OPENERS else path


def _opened(stream: BinaryIO, suffix: str) -> BinaryIO:
    """Return the stream, decompressed according to the suffix."""
    if suffix not in _OPENERS:
        return stream
    return cast(BinaryIO, _OPENERS[suffix](stream))


def _printable(name: str) -> str:
    return name.encode(errors="backslashreplace").decode()


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Convert exceptions of the standard library for truncated, damaged or unreadable files into `DuelrankError`."""
    try:
        yield
    except _DAMAGE as error:
        raise DataFormatError(f"{name}: the file is truncated or damaged ({error})") from error
    except NotImplementedError as error:
        raise DataFormatError(f"{name}: cannot be decompressed here ({error})") from error
    except RuntimeError as error:  # zipfile raises it for encrypted members
        raise DataFormatError(f"{name}: cannot be read ({error})") from error
    except OSError as error:
        raise DataFormatError(f"{name}: cannot be read ({error.strerror or error})") from error
