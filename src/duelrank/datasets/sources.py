"""Reads text from folders, archives and compressed files in one pass, without unpacking to disk."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from duelrank.errors import DataFormatError, MissingData

__all__ = ["Member", "Source", "open_source", "reading"]

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.LZMAFile, ".bz2": bz2.BZ2File}
_TAR_SUFFIXES = {".tar": "", ".tgz": ".gz", ".txz": ".xz", ".tbz2": ".bz2"}
_MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"BZh": ".bz2", b"PK\x03\x04": ".zip", b"PK\x05\x06": ".zip"}
_UNREADABLE = {b"Rar!": "RAR", b"7z\xbc\xaf": "7-Zip"}
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile)
_TAR_END = 1024  # a complete tar archive ends with two blocks of zeros
_DEEPEST = 2  # a tar archive may contain another one


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
