"""Downloads the archive of a published set from its owner or a mirror, and verifies its checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from duelrank.datasets.catalogue import Entry
from duelrank.datasets.files import writing
from duelrank.datasets.installation import Progress
from duelrank.errors import DataFormatError, MissingData

__all__ = ["download"]


def download(entry: Entry, mirror: str | None, folder: Path, progress: Progress | None) -> Path:
    """Download an archive, verify its checksum if it is known, and return its path."""
    import pooch  # imported here, because it imports a web client

    name = entry.archive or f"{entry.name}.tar.xz"
    url = f"{mirror.rstrip('/')}/{name}" if mirror else entry.url
    if not url:
        raise MissingData(
            f"{entry.title} has no public download address: get it from its owner at {entry.page}"
            f" ({entry.terms}), then: duelrank data add {entry.name} PATH; or name a mirror that has {name}"
        )
    known_hash = f"sha256:{entry.sha256}" if entry.sha256 else None
    with writing(f"the download {name}", folder):
        folder.mkdir(parents=True, exist_ok=True)
    downloader = pooch.HTTPDownloader(progressbar=_Bar(progress) if progress else False, timeout=60)
    try:
        pooch.get_logger().setLevel("ERROR")  # progress and errors are reported by us
        found = pooch.retrieve(url, known_hash=known_hash, fname=name, path=folder, downloader=downloader)
    except ValueError as error:  # the checksum
        raise DataFormatError(f"{url}: the checksum of the downloaded file is wrong ({error})") from error
    except OSError as error:  # base class of all errors of the web client
        raise MissingData(f"could not download {url}: {error}") from error
    return Path(found)


class _Bar:
    """A progress bar with the interface that pooch expects."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.total, self.done = progress, 0, 0

    def update(self, size: int) -> None:
        """Count one piece."""
        self.done += size
        self.progress(self.done, self.total or None)

    def reset(self) -> None:
        """Do nothing; pooch calls this at the end."""

    def close(self) -> Any:
        """Do nothing."""
