"""Score the documents with every ranker at once and sort them, ties in a random order: one for all rankers, or one for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.random import permutation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Sums may be reordered, so that they run in vector registers; nothing else is relaxed.
_SUMS = {"reassoc", "contract"}
_ALL_BUT_SIGN = (1 << 63) - 1


@kernel(fastmath=_SUMS)
def scores(rankers: Floats, features: Floats) -> Floats:
    """Score every document with every ranker: (n_rankers, n_documents).

    Four rankers share each pass over a document. The last block overlaps the one before instead of being shorter, so that all
    rows are summed in the same order and equal rankers get equal scores.
    """
    n_rankers, n_features = rankers.shape
    n_documents = features.shape[0]
    table = np.empty((n_rankers, n_documents))
    if n_rankers < 4:
        for i in range(n_rankers):
            for document in range(n_documents):
                total = 0.0
                for k in range(n_features):
                    total += features[document, k] * rankers[i, k]
                table[i, document] = total
        return table
    for block in range(0, n_rankers, 4):
        i = min(block, n_rankers - 4)
        for document in range(n_documents):
            a = b = c = d = 0.0
            for k in range(n_features):
                x = features[document, k]
                a += x * rankers[i, k]
                b += x * rankers[i + 1, k]
                c += x * rankers[i + 2, k]
                d += x * rankers[i + 3, k]
            table[i, document] = a
            table[i + 1, document] = b
            table[i + 2, document] = c
            table[i + 3, document] = d
    return table


@kernel
def sort_descending(keys: Floats, order: Ints, spare_keys: Floats, spare_order: Ints) -> bool:
    """Sort keys and order together, best first and stable, in place; returns whether the result lies in the spares.

    A merge sort whose merges choose without branching: on scores a branch would be mispredicted every second time.
    """
    n = keys.shape[0]
    for start in range(0, n, 4):
        for i in range(start + 1, min(start + 4, n)):
            key, item, j = keys[i], order[i], i
            while j > start and keys[j - 1] < key:
                keys[j], order[j] = keys[j - 1], order[j - 1]
                j -= 1
            keys[j], order[j] = key, item
    width, swapped = 4, False
    while width < n:
        for start in range(0, n, 2 * width):
            _merge(keys, order, spare_keys, spare_order, start, min(start + width, n), min(start + 2 * width, n))
        keys, spare_keys = spare_keys, keys
        order, spare_order = spare_order, order
        width, swapped = 2 * width, not swapped
    return swapped


@kernel
def _merge(keys: Floats, order: Ints, to_keys: Floats, to_order: Ints, start: int, middle: int, stop: int) -> None:
    i, j, k = start, middle, start
    while i < middle and j < stop:
        left = keys[i] >= keys[j]
        to_keys[k] = keys[i] if left else keys[j]
        to_order[k] = order[i] if left else order[j]
        i += left
        j += 1 - left
        k += 1
    while i < middle:
        to_keys[k], to_order[k] = keys[i], order[i]
        i, k = i + 1, k + 1
    while j < stop:
        to_keys[k], to_order[k] = keys[j], order[j]
        j, k = j + 1, k + 1


@kernel
def best_first(keys: Floats) -> Ints:
    """Indices of the keys from the largest down; of equal ones the first comes first."""
    n = keys.shape[0]
    order, spare_order = np.arange(n), np.empty(n, np.int64)
    return spare_order if sort_descending(keys.copy(), order, np.empty(n), spare_order) else order


@kernel
def sorted_rows(table: Floats, shuffled: Ints) -> Ints:
    """Rank the documents by each row of scores, best first; ties in the order in which they are shuffled."""
    if table.shape[0] == 1:
        ranked = np.empty(table.shape, np.int64)
        ranked[0] = shuffled[best_first(table[0][shuffled])]
        return ranked
    return _sorted_together(table, shuffled)


@kernel
def _sorted_together(table: Floats, shuffled: Ints) -> Ints:
    """Rank by all rows of scores at once.

    What is sorted are whole numbers that are ordered as the scores are. Their last bits make room for the place of the document
    before the sort: so it comes out of the sort with its score, and of equal scores the one that was shuffled first comes first.
    Scores that differ in these bits only are sorted by an insertion sort, which finds hardly anything to do.
    """
    n_rankers, n_documents = table.shape
    last = 1  # as many bits set as a place needs
    while last < n_documents:
        last = 2 * last
    last -= 1
    keys = _whole_keys(table, shuffled, last)
    _sort_columns(keys.ravel(), n_rankers)
    ranked = np.empty((n_rankers, n_documents), np.int64)
    for i in range(n_rankers):
        close = False
        for rank in range(n_documents):
            key = keys[rank, i]
            ranked[i, rank] = shuffled[last - (key & last)]
            close |= rank > 0 and key | last == keys[rank - 1, i] | last
        if close:
            _insertion_sort(ranked[i], table[i])
    return ranked


@kernel
def _whole_keys(table: Floats, shuffled: Ints, last: int) -> Ints:
    """Whole numbers (n_documents, n_rankers) in the order of the scores; the last bits count down the places of the documents.

    The bits of a float are ordered as it is; below zero they are ordered the other way round, and turned.
    """
    n_rankers, n_documents = table.shape
    gathered = np.empty((n_documents, n_rankers))
    for place in range(n_documents):
        for i in range(n_rankers):
            gathered[place, i] = table[i, shuffled[place]] + 0.0  # −0 becomes 0, which it equals
    keys = gathered.view(np.int64)
    for place in range(n_documents):
        for i in range(n_rankers):
            key = keys[place, i]
            key ^= (key >> 63) & _ALL_BUT_SIGN
            keys[place, i] = (key | last) - place
    return keys


@kernel
def _sort_columns(keys: Ints, width: int) -> None:
    """Sort each column of a table, given as its rows of this width one after the other, from the largest down, in place.

    Batcher's merge exchange (Knuth, The Art of Computer Programming 3, algorithm 5.2.2M): which rows are compared depends on their
    number alone. So all columns are sorted in step, in vector registers, and there is no branch to be mispredicted.
    """
    n = keys.shape[0] // width
    half = 1
    while 2 * half < n:
        half *= 2
    run = half
    while run > 0:
        apart, start, reach = run, 0, half
        while True:
            for first in range(start, n - apart, 2 * run):
                stop = min(first + run, n - apart)
                _exchange(keys[first * width : stop * width], keys[(first + apart) * width : (stop + apart) * width])
            if reach == run:
                break
            apart, start, reach = reach - run, run, reach // 2
        run //= 2


@kernel
def _exchange(upper: Ints, lower: Ints) -> None:
    """Move the larger of each two keys up and the smaller one down, in place."""
    for k in range(upper.shape[0]):
        one, other = upper[k], lower[k]
        smaller = min(one, other)
        upper[k] = (
            one ^ other ^ smaller
        )  # the larger; as a maximum it would be stored under a mask, three times as slow
        lower[k] = smaller


@kernel
def _insertion_sort(order: Ints, keys: Floats) -> None:
    """Sort an order that is nearly right by the keys of its items, best first and stable, in place."""
    for i in range(1, order.shape[0]):
        item, j = order[i], i
        while j > 0 and keys[order[j - 1]] < keys[item]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = item


@kernel
def _rankers(weights: Floats, directions: Floats, delta: float) -> Floats:
    """The current weights (row 0) and those of each candidate, weights + delta · direction."""
    n_candidates, n_features = directions.shape
    rankers = np.empty((n_candidates + 1, n_features))
    for k in range(n_features):
        rankers[0, k] = weights[k]
        for i in range(n_candidates):
            rankers[i + 1, k] = weights[k] + delta * directions[i, k]
    return rankers


@kernel
def rankings(weights: Floats, directions: Floats, delta: float, features: Floats, stream: NDArray[np.uint64]) -> Ints:
    """Rank with the current weights (row 0) and with each candidate, ties in one order that all share."""
    table = scores(_rankers(weights, directions, delta), features)
    return sorted_rows(table, permutation(stream, features.shape[0]))


@kernel
def separate_rankings(
    weights: Floats, directions: Floats, delta: float, features: Floats, stream: NDArray[np.uint64]
) -> Ints:
    """Rank with the current weights (row 0) and with each candidate, ties in an order of its own for each."""
    table = scores(_rankers(weights, directions, delta), features)
    n_rankers, n_documents = table.shape
    shuffled, gathered = np.empty(table.shape, np.int64), np.empty(table.shape)
    for i in range(n_rankers):
        shuffled[i] = permutation(stream, n_documents)
        gathered[i] = table[i][shuffled[i]]
    ranked = sorted_rows(gathered, np.arange(n_documents))
    for i in range(n_rankers):
        ranked[i] = shuffled[i][ranked[i]]
    return ranked


@kernel
def ranked_labels(
    weights: Floats, features: Floats, labels: NDArray[np.int8], offsets: Ints, stream: NDArray[np.uint64]
) -> NDArray[np.int8]:
    """Rank every query of a split and return the labels of all its documents in ranked order, query after query."""
    ranked = np.empty(labels.shape[0], np.int8)
    rankers = weights.copy().reshape(1, -1)
    for query in range(offsets.shape[0] - 1):
        start, stop = offsets[query], offsets[query + 1]
        order = sorted_rows(scores(rankers, features[start:stop]), permutation(stream, stop - start))[0]
        for position in range(stop - start):
            ranked[start + position] = labels[start + order[position]]
    return ranked
