"""The data sets installed on this machine: import, download, removal, and look-up by name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from keyword import iskeyword
from pathlib import Path
from re import fullmatch
from secrets import token_hex
from typing import Any, Literal

from duelrank.core import registry
from duelrank.core.errors import DataFormatError, InvalidValue, MissingData, StorageFailure, UnknownName
from duelrank.core.files import discard, new_folder, publish, writing
from duelrank.core.home import home
from duelrank.core.registry import Part, alias, register, source
from duelrank.datasets.base import Dataset
from duelrank.datasets.cache import Meta, Preparation, SplitSize, Written, open_fold, prepare_fold, resize, write_split
from duelrank.datasets.catalogue import CATALOGUE, Entry, Progress, download
from duelrank.datasets.reader import Block, Member, Source, open_source, read_blocks, split_of
from duelrank.datasets.split import SPLITS, Fold


@register
@dataclass(frozen=True, repr=False)
class Imported(Dataset):
    """A data set that was imported from LETOR files with `duelrank data add`.

    Parameters
    ----------
    name
        The name in the catalogue, or the name given at the import.
    drop_constant
        Drop features that are constant in all training documents; the same ones in validation and test.
    scale
        "query": scale every feature to [0, 1] within each query, 0 if it is constant there; "none": do not scale.
    drop_irrelevant_test
        Drop test queries without a relevant document.

    Examples
    --------
    Data of your own becomes an imported set too, here one that is not scaled:

    >>> from dataclasses import replace
    >>> from duelrank import Dataset
    >>> prices, grades = [[5.0], [90.0], [20.0], [60.0], [10.0], [30.0]], [2, 0, 1, 0, 2, 1]
    >>> data = Dataset.from_arrays(prices, grades, query_ids=[1, 1, 2, 2, 3, 3])
    >>> [each.fold().test.features.tolist() for each in (data, replace(data, scale="none"))]
    [[[0.0], [1.0]], [[20.0], [60.0]]]
    """

    name: str
    drop_constant: bool = True
    scale: Literal["query", "none"] = "query"
    drop_irrelevant_test: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_spelling(self.name)

    @property
    def n_folds(self) -> int:
        """Number of folds: as installed, or else as published."""
        known = info(self.name)
        return len(known.meta.folds) if known.meta else CATALOGUE[self.name].n_folds

    @property
    def n_grades(self) -> int:
        """Number of relevance grades; labels are from 0 to n_grades − 1."""
        known = info(self.name)
        return known.meta.n_grades if known.meta else CATALOGUE[self.name].n_grades

    def fold(self, number: int = 1) -> Fold:
        """Open one fold; the first use prepares it, which takes about as long as reading it."""
        preparation = Preparation(self.drop_constant, self.scale, self.drop_irrelevant_test)
        return _open_prepared(self.name, number, preparation)


@dataclass(frozen=True)
class Info:
    """A data set of the catalogue, an installed one, or both.

    Parameters
    ----------
    name
        Name of the data set.
    entry
        Its entry in the catalogue, if it has one.
    meta
        The description of its installed files, if it is installed.
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
    _check_name(name)
    if not replace and _raw(name).exists():
        raise InvalidValue(f"{name} is already installed in {_raw(name)}; replace it (--replace) or remove it first")
    return _install(name, Path(path).expanduser(), _folder(name), replace, progress)


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
    archive = download(entry, mirror or os.environ.get("DUELRANK_MIRROR"), home() / "downloads", progress)
    try:
        report = add(name, archive, progress=progress)
    except DataFormatError:
        if not entry.sha256:  # a mirror may have sent an error page: the next call downloads again
            archive.unlink(missing_ok=True)
        raise
    archive.unlink(missing_ok=True)
    return report


def remove(name: str) -> None:
    """Delete an installed set and all files derived from it, but not the files that it was imported from."""
    if not is_installed(name):
        raise MissingData(f"{name} is not installed; installed: {', '.join(installed()) or 'none'}")
    folder = _folder(name)
    with new_folder(folder.parent) as trash, writing("the removal of a data set", folder):
        folder.rename(trash / name)  # in one step: a partly removed set would look damaged
    if folder.exists():
        raise StorageFailure(f"could not remove {folder}")


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
    return Info(name, CATALOGUE.get(name), _raw_meta(name) if here else None, _raw(name) if here else None)


def installed() -> dict[str, Info]:
    """Return the installed sets by name, without damaged ones, which raise an error when they are opened by name.

    Examples
    --------
    >>> from duelrank.datasets import installed
    >>> "mq2008" in installed()  # it has not been imported
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


def _names() -> list[str]:
    """Return the names of all installed sets, damaged or not, without opening them."""
    found = (path.parent.name for path in sorted((home() / "datasets").glob("*/raw")))
    return [name for name in found if all(fullmatch("[a-z][a-z0-9]*", piece) for piece in name.split("-"))]


def is_installed(name: str) -> bool:
    """Whether a set of that name is installed."""
    return _raw(name).is_dir()


def _check_name(name: str) -> None:
    """Raise `InvalidValue` if a data set cannot be added under the name."""
    check_spelling(name)
    known = registry.aliases().get(name)
    if known is not None and getattr(known, "name", None) != name:
        raise InvalidValue(f"the name {name!r} is taken: it means {known!r}")


def check_spelling(name: str) -> None:
    """Raise `InvalidValue` if the name is not valid in recipes and as a folder name."""
    pieces = str(name).split("-")
    if len(str(name)) > 100 or not all(fullmatch("[a-z][a-z0-9]*", piece) for piece in pieces):
        raise InvalidValue(
            f"the name of a data set must be lower-case letters, digits and dashes, such as my-set2, got {name!r}"
        )
    if words := [piece for piece in pieces if iskeyword(piece)]:
        raise InvalidValue(f"the name of a data set must not contain the Python keyword {words[0]!r}, got {name!r}")


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


def _raw_meta(name: str) -> Meta:
    """Return the description of an installed set, or raise `MissingData` with instructions to get it."""
    if not is_installed(name):
        raise MissingData(_how_to_get(name))
    try:
        return Meta.read(_raw(name))
    except DataFormatError as error:
        raise DataFormatError(f"{error}; {_again(name)}") from error


def _open_prepared(name: str, number: int, preparation: Preparation) -> Fold:
    """Open one fold of an installed set; it is prepared on first use, and again if the prepared files are damaged."""
    meta = _raw_meta(name)
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


@dataclass(frozen=True)
class ImportReport:
    """The result of an import: sizes by fold and split, and differences from the catalogue.

    Parameters
    ----------
    name
        Name of the data set.
    folds
        Numbers of queries and documents, by fold and split.
    n_features, n_grades
        Numbers of features and grades, in all folds.
    warnings
        Differences from the catalogue, as sentences.
    seconds, bytes_read
        Duration of the import, and the size of its input.
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


def _install(name: str, source_path: Path, target: Path, replace: bool, progress: Progress | None) -> ImportReport:
    """Import a source into ``target / "raw"``; on any error, nothing changes."""
    started = time.perf_counter()
    entry = CATALOGUE.get(name)
    prefix = entry.prefix if entry else ""
    source = open_source(source_path, lambda path: split_of(path, prefix) is not None)
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
    with closing(source.members()) as members:  # closes the file after an error, too
        for member in members:
            where = split_of(member.path, prefix)
            assert where is not None  # only such members are opened
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


for _name in CATALOGUE:
    alias(_name, Imported(name=_name))


@source
def _added() -> Mapping[str, Part]:
    """Return the imported sets that are not in the catalogue."""
    return {name: Imported(name=name) for name in _names() if name not in CATALOGUE}
