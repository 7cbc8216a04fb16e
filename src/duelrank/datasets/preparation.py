"""Prepares a fold for learning, as is standard in the literature; each step is an option."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.datasets.cache import Meta, SplitSize, array_path, cuts, open_split, write_split
from duelrank.datasets.files import read_rows
from duelrank.datasets.layout import SPLITS
from duelrank.datasets.reader import BLOCK_BYTES, Block
from duelrank.datasets.split import Split
from duelrank.errors import DataFormatError
from duelrank.kernels.preparation import mark_varying, scale_queries

__all__ = ["Preparation", "prepare_fold"]


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


def prepare_fold(raw: Path, meta: Meta, number: int, preparation: Preparation, target: Path) -> Meta:
    """Write the prepared form of one raw fold into a folder, in pieces of a few MiB; return its description."""
    splits = {name: open_split(raw, name, meta.folds[number][name], meta.n_features) for name in SPLITS}
    columns = _kept(raw, meta, number, preparation.drop_constant)
    sizes: dict[str, SplitSize] = {}
    for name, split in splits.items():
        kept = np.ones(len(split), np.bool_)
        if name == "test" and preparation.drop_irrelevant_test:
            kept = _relevant(split)
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


def _relevant(split: Split) -> NDArray[np.bool_]:
    if len(split) == 0:
        return np.zeros(0, np.bool_)
    return np.add.reduceat(split.labels > 0, split.offsets[:-1], dtype=np.int64) > 0


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
