"""The binary cache of imported data sets: one ``.npy`` file per array, with raw and with preprocessed features."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import DataFormatError
from duelrank.core.files import ArrayWriter, read_rows, write_array, write_json, writing
from duelrank.datasets.reader import BLOCK_BYTES, Block
from duelrank.datasets.split import SPLITS, Fold, Split, has_relevant
from duelrank.kernels.datasets import mark_varying, scale_queries

FORMAT = 1  # version of the file format; files of another version are not read


@dataclass(frozen=True)
class Preparation:
    """The preprocessing steps of raw data.

    Parameters
    ----------
    drop_constant
        Drop features that are constant in all training documents; the same ones in validation and test.
    scale
        "query": scale every feature to [0, 1] within each query, 0 if it is constant there; "none": do not scale.
    drop_irrelevant_test
        Drop test queries without a relevant document: all their rankings are equally good.

    Examples
    --------
    >>> from duelrank.datasets import Preparation
    >>> Preparation(scale="none")
    Preparation(drop_constant=True, scale='none', drop_irrelevant_test=True)
    """

    drop_constant: bool = True
    scale: Literal["query", "none"] = "query"
    drop_irrelevant_test: bool = True

    @property
    def nothing(self) -> bool:
        """Whether the raw data does not change."""
        return self == Preparation(drop_constant=False, scale="none", drop_irrelevant_test=False)

    @property
    def key(self) -> str:
        """The name of the folder for data prepared like this."""
        steps = {"varying": self.drop_constant, "scaled": self.scale == "query", "relevant": self.drop_irrelevant_test}
        return "-".join(step for step, taken in steps.items() if taken) or "raw"


@dataclass(frozen=True)
class SplitSize:
    """The size of one split."""

    queries: int = 0
    documents: int = 0


@dataclass(frozen=True)
class Meta:
    """The description of a cache folder, stored with the arrays as JSON."""

    name: str
    key: str  # changes with every import, so that files derived from an earlier import are not used
    n_features: int
    n_grades: int
    folds: dict[int, dict[str, SplitSize]]
    kept: list[int] | None = None  # indices of the kept raw features, from 0; None: all
    warnings: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write ``meta.json`` into a cache folder."""
        write_json(folder / "meta.json", {"format": FORMAT, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> Meta:
        """Read ``meta.json`` of a cache folder; raise `DataFormatError` if it has another format or is damaged."""
        try:
            content: dict[str, Any] = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise DataFormatError(
                    f"the cache in {folder} has another format; this version of duelrank reads format {FORMAT}"
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


def open_fold(folder: Path, meta: Meta, number: int) -> Fold:
    """Memory-map the arrays of one fold; data is read on first use."""
    train, validation, test = (
        open_split(folder, split, meta.folds[number][split], meta.n_features) for split in SPLITS
    )
    return Fold(train=train, validation=validation, test=test, n_grades=meta.n_grades)


def open_split(folder: Path, split: str, size: SplitSize, n_features: int) -> Split:
    """Memory-map the arrays of one split; raise `DataFormatError` if one is missing or does not match its description."""
    wanted = {
        "features": (size.documents, n_features),
        "labels": (size.documents,),
        "offsets": (size.queries + 1,),
        "ids": (size.queries,),
    }
    found = {name: _open(array_path(folder, split, name), shape) for name, shape in wanted.items()}
    if found["offsets"][0] != 0 or found["offsets"][-1] != size.documents:
        raise DataFormatError(f"the cache in {folder} is damaged: the offsets of {split} do not match its documents")
    return Split.trusted(**found)


def _open(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    try:
        # An empty array cannot be memory-mapped.
        array: NDArray[Any] = np.load(path, mmap_mode=None if 0 in shape else "r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataFormatError(
            f"the cache in {path.parent} is damaged: {path.name} cannot be opened ({error})"
        ) from error
    if array.shape != shape:
        raise DataFormatError(f"the cache in {path.parent} is damaged: {path.name} is {array.shape}, expected {shape}")
    return array


@dataclass
class Written:
    """Statistics of a written split."""

    size: SplitSize
    columns: int  # number of features in the file
    widest: int  # highest feature number
    highest: int  # label


def write_split(folder: Path, split: str, blocks: Iterable[Block], columns: int = 0) -> Written:
    """Write the documents of one split block by block, with one block in memory at a time; there may be none."""
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
    """The growing files of one split; a block with more features than before makes them be rewritten with more columns."""

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
        """Close the files, finished or not."""
        self.features.abandon()
        self.labels.abandon()

    def finish(self) -> Written:
        """Write the data that is known only at the end."""
        self.features.finish()
        self.labels.finish()
        rows, columns = self.features.rows, self.features.columns or 0
        write_array(array_path(self.folder, self.split, "offsets"), np.array([*self.starts, rows], np.int64))
        write_array(array_path(self.folder, self.split, "ids"), np.array(self.names, np.bytes_ if self.names else "S1"))
        return Written(SplitSize(len(self.names), rows), columns, self.widest, self.highest)


def resize(folder: Path, split: str, written: Written, columns: int) -> None:
    """Change the number of feature columns of a written split: pad with zeros on the right, or truncate."""
    if written.columns == columns:
        return
    with writing("the cache", folder):
        path = array_path(folder, split, "features")
        before = path.rename(path.with_suffix(".before"))
        with ArrayWriter(path, np.float64, columns) as writer:
            _copy(before, written.size.documents, written.columns, writer)
        before.unlink()


def _copy(path: Path, rows: int, columns: int, writer: ArrayWriter) -> None:
    for piece in read_rows(path, columns, cuts(rows, columns)):
        writer.append(piece[:, : writer.columns])


def cuts(rows: int, columns: int) -> NDArray[np.int64]:
    """Return the indices that divide rows into pieces of a few MiB."""
    step = max(1, BLOCK_BYTES // (8 * max(1, columns)))
    return np.append(np.arange(0, max(rows, 1), step), rows).astype(np.int64)


def array_path(folder: Path, split: str, array: str) -> Path:
    """Return the path of one array of a split."""
    return folder / f"{split}.{array}.npy"


def prepare_fold(raw: Path, meta: Meta, number: int, preparation: Preparation, target: Path) -> Meta:
    """Write the prepared form of one raw fold into a folder, in pieces of a few MiB; return its description."""
    splits = {name: open_split(raw, name, meta.folds[number][name], meta.n_features) for name in SPLITS}
    columns = _kept(raw, meta, number, preparation.drop_constant)
    sizes: dict[str, SplitSize] = {}
    for name, split in splits.items():
        kept = np.ones(len(split), np.bool_)
        if name == "test" and preparation.drop_irrelevant_test:
            kept = has_relevant(split.labels, split.offsets)
            if not kept.any():
                raise DataFormatError(
                    f"{meta.name}, fold {number}: none of the {len(split)} test queries has a relevant document;"
                    " drop_irrelevant_test=False keeps them"
                )
        blocks = _blocks(array_path(raw, name, "features"), split, kept, columns, preparation.scale == "query")
        sizes[name] = write_split(target, name, blocks, len(columns)).size
    return Meta(meta.name, meta.key, len(columns), meta.n_grades, {number: sizes}, kept=columns.tolist())


def _kept(raw: Path, meta: Meta, number: int, drop_constant: bool) -> NDArray[np.int64]:
    everything = np.arange(meta.n_features)
    if not drop_constant:
        return everything
    rows = meta.folds[number]["train"].documents
    varying = np.zeros(meta.n_features, np.bool_)
    reference: NDArray[np.float64] | None = None
    for piece in read_rows(array_path(raw, "train", "features"), meta.n_features, cuts(rows, meta.n_features)):
        reference = piece[0].copy() if reference is None else reference
        mark_varying(piece, reference, varying)
    if not varying.any():
        raise DataFormatError(
            f"{meta.name}, fold {number}: every feature is constant in all training documents;"
            " drop_constant=False keeps them"
        )
    return everything[varying]


def _blocks(
    path: Path, split: Split, kept: NDArray[np.bool_], columns: NDArray[np.int64], scale: bool
) -> Iterator[Block]:
    """Yield the kept queries of a raw split with the kept columns, whole queries at a time."""
    bounds = _query_cuts(split)
    pieces = read_rows(path, split.n_features, split.offsets[bounds])
    for first, last, piece in zip(bounds[:-1].tolist(), bounds[1:].tolist(), pieces, strict=True):
        offsets = split.offsets[first : last + 1] - split.offsets[first]
        if scale:
            values = np.empty((len(piece), len(columns)))
            scale_queries(piece, offsets, columns, values)
        else:
            values = piece[:, columns]
        chosen = np.repeat(kept[first:last], np.diff(offsets))
        sizes = np.diff(offsets)[kept[first:last]]
        starts = (np.cumsum(sizes) - sizes).tolist()
        names = split.ids[first:last][kept[first:last]].tolist()
        labels = split.labels[split.offsets[first] : split.offsets[last]]
        yield Block(values[chosen], labels[chosen], list(zip(starts, names, strict=True)), len(columns))


def _query_cuts(split: Split) -> NDArray[np.int64]:
    """Return indices of queries that divide a split into pieces of a few MiB, or of one query if it is larger."""
    rows = max(1, BLOCK_BYTES // (8 * max(1, split.n_features)))
    chosen = np.unique(np.searchsorted(split.offsets, np.arange(0, split.n_documents, rows), side="left"))
    return np.unique(np.concatenate([[0], chosen, [len(split)]])).astype(np.int64)
