"""Reads one LETOR file into memory, without the cache."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from duelrank.datasets.reader import CHUNK_BYTES, read_blocks
from duelrank.datasets.sources import Member, Source, open_source
from duelrank.datasets.split import Split
from duelrank.errors import DataFormatError
from duelrank.types import Features, Labels

__all__ = ["read_letor"]


def read_letor(path: str | Path, *, n_features: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Split:
    r"""Read one LETOR (SVMlight) file, compressed or not, without any preparation.

    Parameters
    ----------
    n_features
        Minimum number of features: a sparse file need not contain the highest feature number.
    chunk_bytes
        Size of the text buffer.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from duelrank.datasets import read_letor
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:shoes 1:0.9 2:0.1\n0 qid:shoes 1:0.2 2:0.8\n")
    ...     split = read_letor(file)
    >>> split.labels.tolist(), split.features.tolist()
    ([2, 0], [[0.9, 0.1], [0.2, 0.8]])
    """
    source = open_source(Path(path), lambda _: True)
    with closing(source.members()) as members:  # also where an error ends the reading
        member = next(members, None)
        if member is None:
            raise DataFormatError(f"{path} contains no file")
        split = _read(source, member, n_features, chunk_bytes)
        if next(members, None) is not None:
            raise DataFormatError(f"{path} contains more than one file; import it as a data set instead")
    return split


def _read(source: Source, member: Member, n_features: int | None, chunk_bytes: int) -> Split:
    table, labels = np.empty((0, max(n_features or 1, 1))), np.empty(0, np.int8)
    starts: list[int] = []
    names: list[bytes] = []
    rows, widest = 0, n_features or 1
    for block in read_blocks(member.stream, member.display, table.shape[1], chunk_bytes):
        stop = rows + len(block.labels)
        if stop > len(table) or block.features.shape[1] > table.shape[1]:
            share = min(
                1.0, max(1, source.position()) / source.size
            )  # approximate share of the file that has been read
            room = int(1.1 * stop / share) + 16
            table, labels = _grown(table[:rows], labels[:rows], room, block.features.shape[1])
        table[rows:stop] = block.features
        labels[rows:stop] = block.labels
        starts += [rows + row for row, _ in block.queries]
        names += [name for _, name in block.queries]
        rows, widest = stop, max(widest, block.widest)
    if not rows:
        raise DataFormatError(f"{source.path} has no documents")
    offsets = np.array([*starts, rows], np.int64)
    exact = np.ascontiguousarray(table[:rows, :widest])
    return Split.trusted(exact, labels[:rows], offsets, np.array(names, np.bytes_))


def _grown(table: Features, labels: Labels, rows: int, columns: int) -> tuple[Features, Labels]:
    """Return larger arrays that begin with these; unused rows take no memory."""
    larger, longer = np.empty((rows, columns)), np.empty(rows, np.int8)
    larger[: len(table), : table.shape[1]] = table
    larger[: len(table), table.shape[1] :] = 0.0
    longer[: len(labels)] = labels
    return larger, longer
