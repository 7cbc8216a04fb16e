"""Adds, downloads, lists, describes and removes the data sets on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from keyword import iskeyword
from pathlib import Path
from re import fullmatch
from typing import Any

from duelrank import registry
from duelrank.datasets import fetching
from duelrank.datasets.cache import Meta, open_fold
from duelrank.datasets.catalogue import CATALOGUE, Entry
from duelrank.datasets.files import discard, new_folder, publish, writing
from duelrank.datasets.installation import ImportReport, Progress, install
from duelrank.datasets.preparation import Preparation, prepare_fold
from duelrank.datasets.split import Fold
from duelrank.errors import DataFormatError, InvalidValue, MissingData, StorageFailure, UnknownName
from duelrank.home import home

__all__ = [
    "ImportReport",
    "Info",
    "add",
    "check_name",
    "fetch",
    "home",
    "info",
    "installed",
    "is_installed",
    "keep",
    "remove",
]


@dataclass(frozen=True)
class Info:
    """One data set: its catalogue entry and its installed description; one of them may be None.

    Parameters
    ----------
    name
        Of the set.
    entry
        What the catalogue says; None for a set of one's own.
    meta
        What the import found; None for a set that is not installed.
    path
        The folder of an installed set.

    Examples
    --------
    >>> from duelrank.datasets import info
    >>> found = info("mq2008")
    >>> found.entry.title, found.entry.n_features
    ('LETOR 4.0 MQ2008', 46)
    """

    name: str
    entry: Entry | None
    meta: Meta | None
    path: Path | None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible values."""
        return {
            "name": self.name,
            "installed": self.meta is not None,
            "path": str(self.path) if self.path else None,
            "catalogue": asdict(self.entry) if self.entry else None,
            "found": asdict(self.meta) if self.meta else None,
        }


def add(name: str, path: str | Path, *, replace: bool = False, progress: Progress | None = None) -> ImportReport:
    r"""Import LETOR text from a folder or an archive, so that the name can be used as a data set.

    Parameters
    ----------
    name
        A name of the catalogue, whose statistics are then checked, or any other name of lower-case words joined by dashes.
    path
        A folder, a ``.tar`` (``.gz``, ``.xz``, ``.bz2``), a ``.zip``, or a single compressed file.
    replace
        Whether to replace an installed set of that name, once the new one is complete.
    progress
        Called with (bytes read so far, bytes of the input).

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from duelrank.datasets import add, remove
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("train", "vali", "test"):
    ...         _ = Path(folder, f"{name}.txt").write_text("2 qid:1 1:0.9 2:0.1\n0 qid:1 1:0.2 2:0.8\n")
    ...     report = add("my-shop", folder)
    >>> remove("my-shop")
    >>> report.n_features, report.n_grades
    (2, 3)
    """
    check_name(name)
    if not replace and _raw(name).exists():
        raise InvalidValue(f"{name} is already installed in {_raw(name)}; replace it (--replace) or remove it first")
    return install(name, Path(path).expanduser(), _folder(name), replace, progress)


def fetch(name: str, *, mirror: str | None = None, progress: Progress | None = None) -> ImportReport:
    """Download a set of the catalogue from its open address, or from a mirror, and import it.

    Parameters
    ----------
    mirror
        The base URL of a mirror of the archives; DUELRANK_MIRROR by default.
    progress
        Called with (bytes so far, total bytes), during the download and again during the import.
    """
    entry = CATALOGUE.get(name)
    if entry is None:
        raise UnknownName.among("data set of the catalogue", name, CATALOGUE)
    if _raw(name).exists():
        raise InvalidValue(f"{name} is already installed in {_raw(name)}; remove it first")
    archive = fetching.download(entry, mirror or os.environ.get("DUELRANK_MIRROR"), home() / "downloads", progress)
    try:
        report = add(name, archive, progress=progress)
    except DataFormatError:
        if not entry.sha256:  # perhaps a page that a mirror sent instead: the next call asks again
            archive.unlink(missing_ok=True)
        raise
    archive.unlink(missing_ok=True)
    return report


def installed() -> dict[str, Info]:
    """Return the installed sets by name, without damaged ones, which raise an error when they are opened by name.

    Examples
    --------
    >>> from duelrank.datasets import installed
    >>> "mq2008" in installed()  # not before it was imported
    False
    """
    found: dict[str, Info] = {}
    for path in sorted((home() / "datasets").glob("*/raw/meta.json")):
        name = path.parent.parent.name
        try:
            found[name] = Info(name, CATALOGUE.get(name), Meta.read(path.parent), path.parent)
        except DataFormatError:
            continue
    return found


def is_installed(name: str) -> bool:
    """Whether a set of that name is installed."""
    return _raw(name).is_dir()


def keep(name: str, write: Callable[[Path], Meta]) -> None:
    """Install the files that a function writes; do nothing if the name, which contains a digest of the data, is installed."""
    if is_installed(name):
        return
    try:
        with new_folder(_folder(name)) as folder, writing("the cache", folder):
            write(folder).write(folder)
            publish(folder, _raw(name))  # if another process was faster, its copy is equal
    except StorageFailure as error:
        raise StorageFailure(f"{error}; set DUELRANK_HOME to another folder for data sets") from error
    finally:
        with suppress(OSError):
            _folder(name).rmdir()  # succeeds only if the folder is empty: nothing was installed


def info(name: str) -> Info:
    """Return the description of one data set, installed or not.

    Examples
    --------
    >>> from duelrank.datasets import info
    >>> info("mslr-web10k").entry.n_features
    136
    """
    if name not in CATALOGUE and not is_installed(name):
        raise UnknownName.among("data set", name, {*CATALOGUE, *installed()})
    here = is_installed(name)
    return Info(name, CATALOGUE.get(name), raw_meta(name) if here else None, _raw(name) if here else None)


def remove(name: str) -> None:
    """Delete an installed set and all files derived from it, but not the files that it was imported from."""
    if not is_installed(name):
        raise MissingData(f"{name} is not installed; installed: {', '.join(installed()) or 'none'}")
    folder = _folder(name)
    with new_folder(folder.parent) as trash, writing("the removal of a data set", folder):
        folder.rename(trash / name)  # in one step: a partly removed set would look damaged
    if folder.exists():
        raise StorageFailure(f"could not remove {folder}")


def check_name(name: str) -> None:
    """Raise `InvalidValue` if a data set cannot be added under the name."""
    check_spelling(name)
    known = registry.aliases().get(name)
    if known is not None and getattr(known, "name", None) != name:
        raise InvalidValue(f"the name {name!r} is taken: it stands for {known!r}")


def check_spelling(name: str) -> None:
    """Raise `InvalidValue` if the name is not valid in recipes and as a folder name."""
    pieces = str(name).split("-")
    if len(str(name)) > 100 or not all(fullmatch("[a-z][a-z0-9]*", piece) for piece in pieces):
        raise InvalidValue(
            f"the name of a data set must be lower-case letters, digits and dashes, such as my-set2, got {name!r}"
        )
    if words := [piece for piece in pieces if iskeyword(piece)]:
        raise InvalidValue(f"the name of a data set must not contain the Python keyword {words[0]!r}, got {name!r}")


def names() -> list[str]:
    """Return the names of all installed sets, damaged or not, without opening them."""
    found = (path.parent.name for path in sorted((home() / "datasets").glob("*/raw")))
    return [name for name in found if all(fullmatch("[a-z][a-z0-9]*", piece) for piece in name.split("-"))]


def raw_meta(name: str) -> Meta:
    """Return the description of an installed set, or raise `MissingData`, which says how to get it."""
    if not is_installed(name):
        raise MissingData(_how_to_get(name))
    try:
        return Meta.read(_raw(name))
    except DataFormatError as error:
        raise DataFormatError(f"{error}; {_again(name)}") from error


def open_prepared(name: str, number: int, preparation: Preparation) -> Fold:
    """Open one fold of an installed set; it is prepared on first use, and again if the prepared files are damaged."""
    meta = raw_meta(name)
    if number not in meta.folds:
        raise InvalidValue(f"fold of {name} must be from 1 to {len(meta.folds)}, got {number!r}")
    raw = _raw(name) / f"fold{number}"
    try:
        if preparation.nothing:
            return open_fold(raw, meta, number)
        target = _folder(name) / "prepared" / f"{meta.key}-{preparation.key}-fold{number}"
        try:
            return open_fold(target, Meta.read(target), number)
        except DataFormatError:
            discard(target)
        with new_folder(target.parent) as folder, writing("the prepared form of a fold", folder):
            prepare_fold(raw, meta, number, preparation, folder).write(folder)
            publish(folder, target)
    except DataFormatError as error:
        raise (DataFormatError(f"{error}; {_again(name)}") if "damaged" in str(error) else error) from error
    return open_fold(target, Meta.read(target), number)


def _folder(name: str) -> Path:
    return home() / "datasets" / name


def _raw(name: str) -> Path:
    return _folder(name) / "raw"


def _again(name: str) -> str:
    return f"import it again: duelrank data add {name} PATH --replace"


def _how_to_get(name: str) -> str:
    how = f"then: duelrank data add {name} PATH (a folder or archive)"
    entry = CATALOGUE.get(name)
    if entry is None:
        return f"the data set {name!r} is not installed in {home()}; {how[6:]}"
    fetched = f"duelrank data fetch {name}, or " if entry.url else ""
    return (
        f"{entry.title} ({name}) is not installed in {home()}. Get it: {fetched}from its owner at {entry.page}"
        f" ({entry.terms}), {how}"
    )
