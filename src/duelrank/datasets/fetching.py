"""Downloads the archive of a published set from its owner or a mirror, and verifies its checksum."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import IO

from duelrank.datasets.catalogue import Entry
from duelrank.datasets.files import writing
from duelrank.datasets.installation import Progress
from duelrank.errors import DataFormatError, DuelrankError, MissingData

__all__ = ["download"]

_PIECE = 1 << 18  # bytes
_TIMEOUT = 60.0  # seconds without a byte


def download(entry: Entry, mirror: str | None, folder: Path, progress: Progress | None) -> Path:
    """Download an archive, verify its checksum if it is known, and return its path; one that is there already is used."""
    name = entry.archive or f"{entry.name}.tar.xz"
    url = f"{mirror.rstrip('/')}/{name}" if mirror else entry.url
    if not url:
        raise MissingData(
            f"{entry.title} has no public download address: get it from its owner at {entry.page}"
            f" ({entry.terms}), then: duelrank data add {entry.name} PATH; or name a mirror that has {name}"
        )
    path = folder / name
    if path.is_file() and (not entry.sha256 or _checksum(path) == entry.sha256):
        return path
    with writing(f"the download {name}", folder):
        folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{name}.partial-{secrets.token_hex(4)}"
    try:
        _receive(url, partial, progress)
        if entry.sha256 and (found := _checksum(partial)) != entry.sha256:
            raise DataFormatError(
                f"{url}: the checksum of the downloaded file is wrong (SHA-256 is {found}, not {entry.sha256})"
            )
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _receive(url: str, path: Path, progress: Progress | None) -> None:
    """Write what an address answers to a file."""
    from http.client import HTTPException
    from urllib.request import Request, urlopen  # imported here, because it imports a web client

    if not url.startswith(("http://", "https://")):
        raise MissingData(f"could not download {url}: addresses begin with http:// or https://")
    try:
        request = Request(url, headers={"User-Agent": "duelrank"})  # noqa: S310
        with urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
            total = int(answer.headers.get("Content-Length") or 0)
            done = _copy(answer, path, total, progress)
    except DuelrankError:
        raise
    except (OSError, HTTPException, ValueError) as error:  # ValueError: an address or a length that cannot be read
        raise MissingData(f"could not download {url}: {error}") from error
    if done < total:
        raise MissingData(f"could not download {url}: the connection ended after {done:,} of {total:,} bytes")


def _copy(source: IO[bytes], path: Path, total: int, progress: Progress | None) -> int:
    """Copy to a file piece by piece, and return the number of bytes."""
    done = 0
    with writing(f"the download {path.name}", path.parent):
        file = path.open("wb")
    with file:
        while piece := source.read(_PIECE):
            with writing(f"the download {path.name}", path.parent):
                file.write(piece)
            done += len(piece)
            if progress:
                progress(done, total or None)
    return done


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
