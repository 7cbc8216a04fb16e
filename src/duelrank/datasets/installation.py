"""Imports a folder or archive of LETOR files as an installed data set, completely or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any

from duelrank.datasets.cache import Meta, SplitSize, Written, resize, write_split
from duelrank.datasets.catalogue import CATALOGUE, Entry
from duelrank.datasets.files import discard, new_folder, publish, writing
from duelrank.datasets.layout import SPLITS, place
from duelrank.datasets.reader import Block, read_blocks
from duelrank.datasets.sources import Member, Source, open_source
from duelrank.errors import DataFormatError

__all__ = ["ImportReport", "Progress", "install"]

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class ImportReport:
    """The result of an import: sizes by fold and split, and differences from the catalogue.

    Parameters
    ----------
    name
        Of the set.
    folds
        From each fold and split to its numbers of queries and documents.
    n_features, n_grades
        Of all folds.
    warnings
        Differences from the catalogue, as sentences.
    seconds, bytes_read
        How long the import took, and how much text it read.
    """

    name: str
    folds: dict[int, dict[str, SplitSize]]
    n_features: int
    n_grades: int
    warnings: list[str]
    seconds: float
    bytes_read: int

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible values."""
        return asdict(self)


def install(name: str, source_path: Path, target: Path, replace: bool, progress: Progress | None) -> ImportReport:
    """Import a source into ``target / "raw"``; on any error, nothing changes."""
    started = time.perf_counter()
    entry = CATALOGUE.get(name)
    prefix = entry.prefix if entry else ""
    source = open_source(source_path, lambda path: place(path, prefix) is not None)
    try:
        with new_folder(target) as folder:
            written = _read_all(source, folder, prefix, entry, progress)
            meta = _finish(name, folder, written, entry)
            with writing("the cache", folder):
                meta.write(folder)
            _put(folder, target, replace)
    finally:
        with suppress(OSError):
            target.rmdir()  # succeeds only if the folder is empty: nothing was installed
    return ImportReport(
        name, meta.folds, meta.n_features, meta.n_grades, meta.warnings, time.perf_counter() - started, source.size
    )


def _put(folder: Path, target: Path, replace: bool) -> None:
    raw = target / "raw"
    if not replace or not raw.exists():
        publish(folder, raw)  # if another process was faster, its copy is equal
        return
    with new_folder(target) as trash, writing("the new cache in place of the old one", target):
        raw.rename(trash / "raw")
        try:
            publish(folder, raw)
        except BaseException:
            (trash / "raw").rename(raw)
            raise
    discard(target / "prepared")


def _read_all(
    source: Source, folder: Path, prefix: str, entry: Entry | None, progress: Progress | None
) -> dict[tuple[int, str], Written]:
    written: dict[tuple[int, str], Written] = {}
    origins: dict[tuple[int, str], str] = {}
    width = entry.n_features if entry else 1
    with closing(source.members()) as members:  # also where an error ends the reading
        for member in members:
            where = _place(member.path, prefix)
            if where in origins:
                raise DataFormatError(
                    f"two files for the {where[1]} queries of fold {where[0]}: {origins[where]} and {member.display};"
                    " give the folder of one data set"
                )
            origins[where] = member.display
            blocks = _watched(member, source, width, progress)
            written[where] = write_split(folder / f"fold{where[0]}", where[1], blocks)
            width = max(width, written[where].columns)
            if where[1] != "validation" and written[where].size.documents == 0:
                raise DataFormatError(f"{member.display} has no documents")
    _check_complete(source, written, entry)
    return written


def _place(path: PurePosixPath, prefix: str) -> tuple[int, str]:
    where = place(path, prefix)
    assert where is not None  # only such members are returned
    return where


def _watched(member: Member, source: Source, width: int, progress: Progress | None) -> Iterator[Block]:
    for block in read_blocks(member.stream, member.display, width):
        if progress is not None:
            progress(min(source.position(), source.size), source.size)
        yield block


def _check_complete(source: Source, written: dict[tuple[int, str], Written], entry: Entry | None) -> None:
    expected = entry.files if entry else "FoldN/{train,vali,test}.txt or {train,vali,test}.txt"
    if not written:
        raise DataFormatError(f"{source.path} has no files with the expected names: {expected}")
    for fold in sorted({fold for fold, _ in written}):
        for split in ("train", "test"):
            if (fold, split) not in written:
                raise DataFormatError(f"{source.path} has no {split} file for fold {fold}; expected: {expected}")
    folds = {fold for fold, _ in written}
    if folds != set(range(1, len(folds) + 1)):
        raise DataFormatError(f"{source.path} has the folds {sorted(folds)}, expected 1 to {len(folds)} without gaps")


def _finish(name: str, folder: Path, written: dict[tuple[int, str], Written], entry: Entry | None) -> Meta:
    """Give all splits the same number of features, and compare the set with the catalogue."""
    widest = max(max(item.widest for item in written.values()), 1)
    n_features = max(widest, entry.n_features) if entry and entry.sparse else widest
    n_grades = max(1 + max(item.highest for item in written.values()), entry.n_grades if entry else 2)
    n_folds = len({fold for fold, _ in written})
    folds: dict[int, dict[str, SplitSize]] = {number: {} for number in range(1, n_folds + 1)}
    for number in folds:
        for split in SPLITS:
            place_of = folder / f"fold{number}"
            if (number, split) not in written:
                written[number, split] = write_split(place_of, split, [], n_features)
            resize(place_of, split, written[number, split], n_features)
            folds[number][split] = written[number, split].size
    meta = Meta(name, token_hex(8), n_features, n_grades, folds)
    meta.warnings.extend(_mismatches(meta, entry) if entry else [])
    return meta


def _mismatches(meta: Meta, entry: Entry) -> Iterator[str]:
    """Return the differences between an imported set and the catalogue."""
    if len(meta.folds) != entry.n_folds:
        yield f"{entry.title}: expected {entry.n_folds} folds, found {len(meta.folds)}"
    for what, expected, found in (
        ("features", entry.n_features, meta.n_features),
        ("grades", entry.n_grades, meta.n_grades),
    ):
        if expected != found:
            yield f"{entry.title}: expected {expected} {what}, found {found}"
    for number, splits in meta.folds.items():
        queries = sum(size.queries for size in splits.values())
        documents = sum(size.documents for size in splits.values())
        if (queries, documents) != (entry.queries, entry.documents):
            yield (
                f"{entry.title}, fold {number}: expected {entry.queries:,} queries and {entry.documents:,} documents,"
                f" found {queries:,} and {documents:,}"
            )
