"""The binary cache: ``.npy`` files that open with mmap, one folder per fold, and a ``meta.json`` about them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.datasets.files import ArrayWriter, read_rows, write_array, write_json, writing
from duelrank.datasets.layout import SPLITS
from duelrank.datasets.reader import BLOCK_BYTES, Block
from duelrank.datasets.split import Fold, Split
from duelrank.errors import DataFormatError

__all__ = ["FORMAT", "Meta", "SplitSize", "array_path", "open_fold", "open_split", "resize", "write_split"]

FORMAT = 1  # of the files; another one is never read as if it were this


@dataclass(frozen=True)
class SplitSize:
    """How much one split holds."""

    queries: int = 0
    documents: int = 0


@dataclass(frozen=True)
class Meta:
    """What a cache folder holds; kept beside the arrays as JSON."""

    name: str
    key: str  # changes with every import, so that nothing derived from an earlier one is mistaken for this one's
    n_features: int
    n_grades: int
    folds: dict[int, dict[str, SplitSize]]
    kept: list[int] | None = None  # of the raw features, from 0; None: all of them
    warnings: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write it into a cache folder."""
        write_json(folder / "meta.json", {"format": FORMAT, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> Meta:
        """Read that of a cache folder; `DataFormatError` where it is of another format or damaged."""
        try:
            content: dict[str, Any] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise DataFormatError(
                    f"the cache in {folder} has another format than {FORMAT}, the one of this version"
                )
            folds = {
                int(number): {name: SplitSize(**size) for name, size in splits.items()}
                for number, splits in content.pop("folds").items()
            }
            return cls(folds=folds, **content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, DataFormatError):
                raise
            raise DataFormatError(f"the cache in {folder} is damaged: meta.json cannot be read ({error})") from error


def array_path(folder: Path, split: str, array: str) -> Path:
    """Return where one array of a split is."""
    return folder / f"{split}.{array}.npy"


@dataclass
class Written:
    """What was written of one split."""

    size: SplitSize
    columns: int  # of the features as they are in the file
    widest: int  # highest feature number
    highest: int  # label


def write_split(folder: Path, split: str, blocks: Iterable[Block], columns: int = 0) -> Written:
    """Write the documents of one split as they come, holding one block at a time; there may be none."""
    with writing("the cache", folder):
        folder.mkdir(parents=True, exist_ok=True)
        spool = _Spool(folder, split, columns)
        try:
            for block in blocks:
                spool.add(block)
            return spool.finish()
        finally:
            spool.abandon()


class _Spool:
    """The growing files of one split; a block of more features than before has them written anew, wider."""

    def __init__(self, folder: Path, split: str, columns: int) -> None:
        self.folder, self.split = folder, split
        self.features = ArrayWriter(array_path(folder, split, "features"), np.float64, columns)
        self.labels = ArrayWriter(array_path(folder, split, "labels"), np.int8)
        self.starts: list[int] = []
        self.names: list[bytes] = []
        self.widest, self.highest = 0, 0

    def add(self, block: Block) -> None:
        """Append one block."""
        if block.features.shape[1] > (self.features.columns or 0):
            self._widen(block.features.shape[1])
        self.starts += [self.features.rows + row for row, _ in block.queries]
        self.names += [name for _, name in block.queries]
        self.features.append(block.features)
        self.labels.append(block.labels)
        self.widest, self.highest = block.widest, max(self.highest, int(block.labels.max(initial=0)))

    def _widen(self, columns: int) -> None:
        before = self.features
        before.finish()
        if before.rows == 0:
            self.features = ArrayWriter(before.path, np.float64, columns)
            return
        narrow = before.path.rename(before.path.with_suffix(".narrow"))
        self.features = ArrayWriter(before.path, np.float64, columns)
        _copy(narrow, before.rows, before.columns or 0, self.features)
        narrow.unlink()

    def abandon(self) -> None:
        """Close the growing files, finished or not."""
        self.features.abandon()
        self.labels.abandon()

    def finish(self) -> Written:
        """Write what is only known at the end."""
        self.features.finish()
        self.labels.finish()
        rows, columns = self.features.rows, self.features.columns or 0
        write_array(array_path(self.folder, self.split, "offsets"), np.array([*self.starts, rows], np.int64))
        write_array(array_path(self.folder, self.split, "ids"), np.array(self.names, np.bytes_ if self.names else "S1"))
        return Written(SplitSize(len(self.names), rows), columns, self.widest, self.highest)


def _copy(path: Path, rows: int, columns: int, writer: ArrayWriter) -> None:
    for piece in read_rows(path, columns, cuts(rows, columns)):
        writer.append(piece[:, : writer.columns])


def cuts(rows: int, columns: int) -> NDArray[np.int64]:
    """Return where to cut rows into pieces of a few MiB."""
    step = max(1, BLOCK_BYTES // (8 * max(1, columns)))
    return np.append(np.arange(0, max(rows, 1), step), rows).astype(np.int64)


def resize(folder: Path, split: str, written: Written, columns: int) -> None:
    """Give the features of a written split another number of columns: zeros on the right, or fewer."""
    if written.columns == columns:
        return
    with writing("the cache", folder):
        path = array_path(folder, split, "features")
        before = path.rename(path.with_suffix(".before"))
        with ArrayWriter(path, np.float64, columns) as writer:
            _copy(before, written.size.documents, written.columns, writer)
        before.unlink()


def open_fold(folder: Path, meta: Meta, number: int) -> Fold:
    """Map the arrays of one fold; nothing is read before it is used."""
    train, validation, test = (
        open_split(folder, split, meta.folds[number][split], meta.n_features) for split in SPLITS
    )
    return Fold(train=train, validation=validation, test=test, n_grades=meta.n_grades)


def open_split(folder: Path, split: str, size: SplitSize, n_features: int) -> Split:
    """Map the arrays of one split; `DataFormatError` where one is missing or not as described."""
    wanted = {
        "features": (size.documents, n_features),
        "labels": (size.documents,),
        "offsets": (size.queries + 1,),
        "ids": (size.queries,),
    }
    found = {name: _open(array_path(folder, split, name), shape) for name, shape in wanted.items()}
    if found["offsets"][0] != 0 or found["offsets"][-1] != size.documents:
        raise DataFormatError(f"the cache in {folder} is damaged: the offsets of {split} do not fit its documents")
    return Split.trusted(**found)


def _open(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    try:
        # An array without items cannot be mapped.
        array: NDArray[Any] = np.load(path, mmap_mode=None if 0 in shape else "r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataFormatError(
            f"the cache in {path.parent} is damaged: {path.name} cannot be opened ({error})"
        ) from error
    if array.shape != shape:
        raise DataFormatError(f"the cache in {path.parent} is damaged: {path.name} is {array.shape}, expected {shape}")
    return array
