"""Reading one LETOR file into memory, for files that are small enough and need no cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from duelrank.datasets.reader import CHUNK_BYTES, read_blocks
from duelrank.datasets.sources import open_source
from duelrank.errors import DataFormatError
from duelrank.types import Features, Labels, Split

__all__ = ["read_letor"]


def read_letor(path: str | Path, *, n_features: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Split:
    """Read one file of LETOR (SVMlight) text, compressed or not, exactly as it is.

    Parameters
    ----------
    n_features
        How many features there are at least: a sparse file need not name the highest one.
    chunk_bytes
        How much text is held at a time.
    """
    source = open_source(Path(path), lambda _: True)
    members = source.members()
    member = next(members, None)
    if member is None:
        raise DataFormatError(f"{path} holds no file")
    features: list[Features] = []
    labels: list[Labels] = []
    starts: list[int] = []
    names: list[bytes] = []
    rows, width, widest = 0, max(n_features or 1, 1), n_features or 0
    for block in read_blocks(member.stream, member.display, width, chunk_bytes):
        starts += [rows + row for row, _ in block.queries]
        names += [name for _, name in block.queries]
        features.append(block.features.copy())
        labels.append(block.labels.copy())
        rows, widest = rows + len(block.labels), max(widest, block.widest)
    if next(members, None) is not None:
        raise DataFormatError(f"{path} holds more than one file; add it as a data set instead")
    if not rows:
        raise DataFormatError(f"{path}: found no documents, expected at least one")
    table = np.zeros((rows, max(widest, 1)))
    for start, piece in zip(np.cumsum([0, *map(len, features)]).tolist(), features, strict=False):
        table[start : start + len(piece), : piece.shape[1]] = piece[:, :widest]
    return Split(table, np.concatenate(labels), np.array([*starts, rows], np.int64), np.array(names, np.bytes_))
