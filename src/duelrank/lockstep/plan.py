"""Plans batches: which runs can share a program, and how many of them fit on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duelrank.algorithms import Represented
from duelrank.datasets import Dataset, Fold
from duelrank.lockstep.library import Library, Place, opened, widest_query
from duelrank.lockstep.memory import usable
from duelrank.lockstep.twins.represented import prepared
from duelrank.lockstep.values import Sizes
from duelrank.simulation import RunSpec

__all__ = ["alike", "batches", "padded_count"]

_MOST_RUNS = 16_384


def alike(specs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    """Return specs in groups that can share a table of documents: equal settings, and queries of similar size.

    All queries of a table are treated as if they were as large as the largest, so a group takes in larger ones only up to
    twice the size of its smallest. What a representation does without learning is done to the table. Where one learns, the place of
    a column among all of them, and with it its random numbers, depends on the number of features, which must then be equal.
    """
    groups: dict[Any, list[RunSpec]] = {}
    counted: dict[Place, int] = {}
    for spec in specs:
        seen, n_features = prepared(spec.algorithm), 0
        if isinstance(spec.algorithm, Represented) and spec.algorithm.representation.learns:
            place = spec.dataset, spec.fold
            if place not in counted:
                counted[place] = opened(place, spec.split).n_features
            n_features = counted[place]
        groups.setdefault((spec.impressions, spec.length, spec.metric, spec.split, seen, n_features), []).append(spec)
    return [part for group in groups.values() for part in _by_size(group)]


def _by_size(specs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    folds: dict[Dataset, list[Fold]] = {}
    for place in dict.fromkeys((spec.dataset, spec.fold) for spec in specs):
        folds.setdefault(place[0], []).append(opened(place, specs[0].split))
    area = {
        dataset: (max(widest_query(fold.train) for fold in theirs), max(fold.n_features for fold in theirs))
        for dataset, theirs in folds.items()
    }
    found: list[tuple[tuple[int, int], set[Dataset]]] = []
    for dataset, (widest, columns) in sorted(area.items(), key=lambda item: item[1][0] * item[1][1]):
        if found:
            (least_widest, least_columns), members = found[-1]
            both = max(widest, least_widest) * max(columns, least_columns)
            if both <= 2 * least_widest * least_columns:
                members.add(dataset)
                continue
        found.append(((widest, columns), {dataset}))
    return [[spec for spec in specs if spec.dataset in members] for _, members in found]


def batches(specs: Sequence[RunSpec], library: Library, sizes: Sizes, room: int = 0) -> list[Sequence[RunSpec]]:
    """Return runs of one program in as few batches as memory allows, of about equal size.

    Parameters
    ----------
    room
        What a run needs beside what every run does, in bytes, in single precision.
    """
    free = usable() - library.n_bytes
    item = int(library.train.features.dtype.itemsize)
    each = _bytes_per_run(specs[0], sizes, item) + room * item // 4
    number = -(-len(specs) // int(max(1, min(_MOST_RUNS, free // each))))
    size = -(-len(specs) // number)
    return [specs[start : start + size] for start in range(0, len(specs), size)]


def padded_count(n: int) -> int:
    """Return the number of runs that a program is compiled for: the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …."""
    power = 1 << max(0, (n - 1).bit_length())
    return power * 3 // 4 if power >= 4 and n <= power * 3 // 4 else power


def _bytes_per_run(spec: RunSpec, sizes: Sizes, item: int) -> int:
    """Return a generous estimate: results, checkpoints, the documents of a query twice, and scores and ranks."""
    kept = spec.impressions * 16 + len(spec.checkpoints) * sizes.columns * item
    documents = 2 * sizes.widest * sizes.columns * item
    tables = sizes.widest * (8 * sizes.rankers + 16 * sizes.length) * item
    small = 16 * sizes.rankers * sizes.columns * item + 60_000
    return kept + documents + tables + small
