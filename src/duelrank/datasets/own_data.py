"""Makes data sets from users' own data: arrays, data frames and LETOR files.

The data is written once into the cache of imported sets, under a name that contains a digest of the data. So it opens fast, also in
worker processes, and a recipe with that name always refers to the same data. `duelrank data list` lists it, `duelrank data remove`
deletes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from hashlib import blake2b
from keyword import iskeyword
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.core.errors import InvalidValue, ShapeMismatch
from duelrank.core.randomness import stream
from duelrank.core.registry import counted
from duelrank.core.types import checked_table
from duelrank.datasets import library
from duelrank.datasets.cache import Meta, Preparation, write_split
from duelrank.datasets.library import Imported
from duelrank.datasets.reader import Block, open_source, read_letor, split_of
from duelrank.datasets.split import SHARES, SPLITS, Fold, Split, checked_labels
from duelrank.kernels.random import permutation

#: Shares of the queries for training, validation and test; or, for each document, the name of its split.
SplitLike: TypeAlias = tuple[float, float, float] | Sequence[str] | NDArray[Any]

_ARCHIVES = {".zip", ".tar", ".tgz", ".txz", ".tbz2"}


def from_arrays(
    features: ArrayLike,
    labels: ArrayLike,
    query_ids: ArrayLike,
    split: SplitLike,
    seed: int,
    name: str,
    preparation: Preparation | None,
) -> Imported:
    """Validate, group by query, split and store; see `Dataset.from_arrays`."""
    table = checked_table(features)
    if 0 in table.shape:
        raise ShapeMismatch(f"a data set needs at least one document and one feature, got shape {table.shape}")
    grades = checked_labels(labels, len(table))
    rows, offsets, ids = _grouped(query_ids, len(table))
    if not np.array_equal(rows, np.arange(len(rows))):
        table, grades = table[rows], grades[rows]
        table.flags.writeable = False  # so that it is not copied again
    whole = Split(table, grades, offsets, ids)
    parts = _drawn(split, len(whole), seed) if _are_shares(split) else _given(split, rows, offsets)
    return _keep(_divided(whole, parts), name, preparation)


def from_dataframe(
    frame: Any,
    label: str,
    query: str,
    features: str | Sequence[str] | None,
    split: SplitLike | str,
    seed: int,
    name: str,
    preparation: Preparation | None,
) -> Imported:
    """Convert the columns of a frame to arrays; see `Dataset.from_dataframe`."""
    if not hasattr(frame, "columns"):
        raise InvalidValue(f"expected a data frame, got {type(frame).__name__}; Dataset.from_arrays takes arrays")
    if not (features is None or isinstance(features, (str, Iterable))):
        raise InvalidValue(f"features must be the names of columns, or of one column of arrays, got {features!r}")
    known = [str(column) for column in frame.columns]
    special = [label, query, *([split] if isinstance(split, str) else [])]
    for column in [*special, *([features] if isinstance(features, str) else features or [])]:
        if column not in known:
            raise InvalidValue(f"the frame has no column {column!r}; it has {', '.join(known)}")
    if isinstance(features, str):
        table: Any = [np.asarray(row) for row in frame[features]]
    else:
        chosen = [column for column in known if column not in special] if features is None else list(features)
        table = np.column_stack([_numbers(frame, column) for column in chosen]) if chosen else np.empty((len(frame), 0))
    division = np.asarray(frame[split]) if isinstance(split, str) else split
    return from_arrays(table, np.asarray(frame[label]), np.asarray(frame[query]), division, seed, name, preparation)


def _numbers(frame: Any, column: str) -> NDArray[np.float64]:
    values = np.asarray(frame[column])
    if values.dtype.kind not in "biuf":
        raise InvalidValue(
            f"column {column!r} is not numeric ({values.dtype}); select the feature columns with features=[...]"
        )
    return values.astype(np.float64)


def from_letor(
    path: str | Path, split: tuple[float, float, float], seed: int, name: str | None, preparation: Preparation | None
) -> Imported:
    """Import a folder or archive, or split a single file; see `Dataset.from_letor`."""
    source = Path(path).expanduser()
    many = source.is_dir() or bool(_ARCHIVES & {suffix.lower() for suffix in source.suffixes})
    wanted: Callable[[PurePosixPath], bool] = (
        (lambda inside: split_of(inside) is not None) if many else (lambda _: True)
    )
    digest = blake2b(digest_size=6)
    with closing(open_source(source, wanted).members()) as members:
        for member in members:
            digest.update(str(member.path).encode() if many else repr((split, seed)).encode())
            while piece := member.stream.read(1 << 20):
                digest.update(piece)
    named = _named(_plain_name(source) if name is None else name, digest.hexdigest())
    if not library.is_installed(named):
        if many:
            library.add(named, source)
        else:
            whole = read_letor(source)
            fold = _divided(whole, _drawn(split, len(whole), seed))
            library.keep(named, lambda folder: _write(fold, named, folder))
    return _prepared(named, preparation)


def _plain_name(path: Path) -> str:
    """Return a valid name of a data set from the name of a file or folder."""
    pieces = re.findall("[a-z][a-z0-9]*", path.resolve().name.split(".")[0].lower())
    return "-".join(piece for piece in pieces if not iskeyword(piece))[:60].rstrip("-") or "letor"


def from_splits(
    train: Split, test: Split, validation: Split | None, name: str, preparation: Preparation | None
) -> Imported:
    """Store three splits; see `Dataset.from_splits`."""
    if validation is None:
        validation = _select(train, np.zeros(len(train), np.bool_))
    n_grades = 1 + max(1, *(int(split.labels.max(initial=0)) for split in (train, validation, test)))
    return _keep(Fold(train, validation, test, n_grades), name, preparation)


def _keep(fold: Fold, name: str, preparation: Preparation | None) -> Imported:
    if not len(fold.train) or not len(fold.test):
        found = f"{len(fold.train)} and {len(fold.test)}"
        raise InvalidValue(f"a data set needs queries for training and for test, got {found}")
    named = _named(name, _digest_of(fold))
    library.keep(named, lambda folder: _write(fold, named, folder))
    return _prepared(named, preparation)


def _write(fold: Fold, name: str, folder: Path) -> Meta:
    sizes = {}
    for split_name, split in zip(SPLITS, (fold.train, fold.validation, fold.test), strict=True):
        starts = list(zip(split.offsets[:-1].tolist(), split.ids.tolist(), strict=True))
        blocks = [Block(split.features, split.labels, starts, split.n_features)] if len(split) else []
        sizes[split_name] = write_split(folder / "fold1", split_name, blocks, split.n_features).size
    return Meta(name, name.rpartition("-")[2], fold.n_features, fold.n_grades, {1: sizes})


def _prepared(name: str, preparation: Preparation | None) -> Imported:
    if preparation is None:
        preparation = Preparation(drop_constant=False, scale="none", drop_irrelevant_test=False)
    return Imported(name, preparation.drop_constant, preparation.scale, preparation.drop_irrelevant_test)


def _named(name: str, digest: str) -> str:
    named = f"{name}-d{digest}"  # each word of a name must begin with a letter
    library.check_spelling(named)
    return named


def _digest_of(fold: Fold) -> str:
    digest = blake2b(digest_size=6)
    for split in (fold.train, fold.validation, fold.test):
        digest.update(repr(split.features.shape).encode())
        for array in (split.features, split.labels, split.offsets):
            digest.update(np.ascontiguousarray(array).data if array.size else b"")
        digest.update(b"\n".join(split.ids.tolist()))
    return digest.hexdigest()


def _grouped(query_ids: ArrayLike, n_documents: int) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Return the row indices grouped by query, in order of first appearance, the offsets of the queries, and their names."""
    given = np.asarray(query_ids)
    if given.shape != (n_documents,):
        raise ShapeMismatch(f"query_ids must be one id per document: {n_documents} documents, got shape {given.shape}")
    if given.dtype.kind in "fO" and any(item is None or item != item for item in given.tolist()):
        raise InvalidValue("query_ids must not have missing values")
    if given.dtype.kind == "O":  # ids of several types cannot be sorted
        given = given.astype(str)
    ids, first, member = np.unique(given, return_index=True, return_inverse=True)
    order = np.argsort(first)
    position = np.empty(len(ids), np.int64)
    position[order] = np.arange(len(ids))
    rows = np.argsort(position[member], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(position[member], minlength=len(ids)))])
    return rows, offsets, [item.decode() if isinstance(item, bytes) else str(item) for item in ids[order].tolist()]


def _are_shares(split: Any) -> bool:
    return np.ndim(split) == 1 and len(split) == len(SPLITS) and all(isinstance(share, (int, float)) for share in split)


def _drawn(shares: Any, n_queries: int, seed: int) -> NDArray[np.int64]:
    """Draw the split of each query: training (0), validation (1) or test (2)."""
    numbers = np.asarray(shares if _are_shares(shares) else (), np.float64)
    if numbers.shape != (3,) or not (numbers >= 0.0).all() or not 0.0 < numbers.sum() < np.inf:
        raise InvalidValue(f"split must be three shares of at least 0, such as {SHARES}, got {shares!r}")
    if n_queries < np.count_nonzero(numbers):
        raise InvalidValue(f"{np.count_nonzero(numbers)} splits need more than {counted(n_queries, 'query')}")
    sizes = np.maximum(np.floor(n_queries * numbers / numbers.sum() + 0.5), numbers > 0.0).astype(np.int64)
    sizes[np.argmax(sizes)] += n_queries - sizes.sum()
    parts = np.empty(n_queries, np.int64)
    parts[permutation(stream(seed, "split"), n_queries)] = np.repeat(np.arange(3), sizes)
    return parts


def _given(split: Any, rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the split of each query from the given splits of its documents."""
    names = np.asarray(split).astype(str)
    allowed = f"split must be three shares, or one of {', '.join(SPLITS)} for each document"
    if names.shape != rows.shape:
        raise ShapeMismatch(f"{allowed}: {len(rows)} documents, got shape {names.shape}")
    if unknown := sorted(set(names.tolist()) - set(SPLITS)):
        raise InvalidValue(f"{allowed}, found {unknown[0]!r}")
    parts: NDArray[np.int64] = np.select([names[rows] == known for known in SPLITS], range(len(SPLITS)))
    firsts = parts[offsets[:-1]]
    if (np.repeat(firsts, np.diff(offsets)) != parts).any():
        raise InvalidValue("all documents of a query must belong to one split")
    return firsts


def _divided(whole: Split, parts: NDArray[np.int64]) -> Fold:
    """Split queries by the numbers of their splits: 0 is training, 1 validation, 2 test."""
    train, validation, test = (_select(whole, parts == number) for number in range(3))
    return Fold(train, validation, test, n_grades=1 + max(1, int(whole.labels.max(initial=0))))


def _select(split: Split, kept: NDArray[np.bool_]) -> Split:
    sizes = np.diff(split.offsets)
    rows = np.repeat(kept, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes[kept])])
    return Split.trusted(split.features[rows], split.labels[rows], offsets, split.ids[kept])
