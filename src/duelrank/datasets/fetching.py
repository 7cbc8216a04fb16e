"""Downloading the archive of a published set, from its open address or a mirror, checked before it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from duelrank.datasets.catalogue import Entry
from duelrank.datasets.files import writing
from duelrank.datasets.installation import Progress
from duelrank.errors import DataFormatError, MissingData

__all__ = ["download"]


def download(entry: Entry, mirror: str | None, folder: Path, progress: Progress | None) -> Path:
    """Return the path of the downloaded archive, whose checksum (where one is known) was found right."""
    import pooch  # brings a web client along, which nothing else needs

    name = entry.archive or f"{entry.name}.tar.xz"
    url = f"{mirror.rstrip('/')}/{name}" if mirror else entry.url
    if not url:
        raise MissingData(
            f"{entry.title} has no open address to download it from: get it from its owner at {entry.page}"
            f" ({entry.terms}), then: duelrank data add {entry.name} PATH; or name a mirror that has {name}"
        )
    known_hash = f"sha256:{entry.sha256}" if entry.sha256 else None
    with writing(f"the download {name}", folder):
        folder.mkdir(parents=True, exist_ok=True)
    downloader = pooch.HTTPDownloader(progressbar=_Bar(progress) if progress else False, timeout=60)
    try:
        pooch.get_logger().setLevel("ERROR")  # what it would tell a terminal is ours to tell
        found = pooch.retrieve(url, known_hash=known_hash, fname=name, path=folder, downloader=downloader)
    except ValueError as error:  # the checksum
        raise DataFormatError(f"{url}: not the file that was expected ({error})") from error
    except OSError as error:  # every error of the web client is one, too
        raise MissingData(f"could not download {url}: {error}") from error
    return Path(found)


class _Bar:
    """What pooch takes for a progress bar: something with a total that is told of every piece."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.total, self.done = progress, 0, 0

    def update(self, size: int) -> None:
        """Count one piece."""
        self.done += size
        self.progress(self.done, self.total or None)

    def reset(self) -> None:
        """Start over; pooch calls it once at the end, where there is nothing to do."""

    def close(self) -> Any:
        """Take leave."""
