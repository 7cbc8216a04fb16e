"""Kernels of ranking: score documents with all rankers at once and sort them; ties are in a random order."""

from __future__ import annotations

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats, Ints, Labels, Stream
from duelrank.kernels.lanes import lane_dot, lane_dots
from duelrank.kernels.random import permutation

_ALL_BUT_SIGN = (1 << 63) - 1


@kernel
def scores(rankers: Floats, features: Floats) -> Floats:
    """Score every document with every ranker: (n_rankers, n_documents).

    A score does not depend on the other rankers and documents, so equal ones get equal scores.
    """
    rows, documents = np.ascontiguousarray(rankers), np.ascontiguousarray(features)
    n_rankers, n_documents = rows.shape[0], documents.shape[0]
    table = np.empty((n_rankers, n_documents))
    for i in range(0, n_rankers - 1, 2):
        for j in range(0, n_documents - 1, 2):
            lane_dots(rows, i, documents, j, table)
    for i in range(n_rankers):
        alone = n_rankers % 2 == 1 and i == n_rankers - 1
        for j in range(0 if alone else n_documents - n_documents % 2, n_documents):
            table[i, j] = lane_dot(rows[i], documents[j])
    return table


@kernel
def linear_scores(weights: Floats, features: Floats) -> Floats:
    """Score every document with one ranker."""
    return scores(weights.copy().reshape(1, -1), features)[0]


@kernel
def best_first(keys: Floats) -> Ints:
    """Return the indices of the keys from the largest down; equal keys stay in order."""
    table = np.empty((1, keys.shape[0]))
    for k in range(keys.shape[0]):
        table[0, k] = keys[k]
    return sorted_rows(table, np.arange(keys.shape[0]))[0]


@kernel
def sorted_rows(table: Floats, shuffled: Ints) -> Ints:
    """Rank the documents by each row of scores, best first; ties in the order of ``shuffled``.

    The sort works on whole numbers in the order of the scores. Their last bits are replaced by the place of the document in
    ``shuffled``, so that the sort returns the document with its score, and breaks ties by that place. Scores that differ only in
    these bits are then ordered by an insertion sort, which has little to do.
    """
    n_rankers, n_documents = table.shape
    last = 1  # becomes a mask of the bits that a place needs
    while last < n_documents:
        last = 2 * last
    last -= 1
    keys = _whole_keys(table, shuffled, last)
    if n_rankers == 1:
        keys = _sorted_alone(keys)
    else:
        _sort_columns(keys, n_rankers)
    ranked = np.empty((n_rankers, n_documents), np.int64)
    for i in range(n_rankers):
        n_close, before = 0, 0
        for rank in range(n_documents):
            key = keys[rank * n_rankers + i]
            ranked[i, rank] = shuffled[last - (key & last)]
            n_close += rank > 0 and key | last == before | last
            before = key
        if n_close > 0:
            _insertion_sort(ranked[i], table[i])
    return ranked


@kernel
def _whole_keys(table: Floats, shuffled: Ints, last: int) -> Ints:
    """Return whole numbers in the order of the scores, document by document for all rankers; the last bits count down the places.

    The bits of non-negative floats are in the order of the floats; those of negative floats are in reverse order, so they are
    inverted.
    """
    n_rankers, n_documents = table.shape
    gathered = np.empty((n_documents, n_rankers))
    for place in range(n_documents):
        for i in range(n_rankers):
            gathered[place, i] = table[i, shuffled[place]] + 0.0  # −0 becomes 0
    keys = gathered.view(np.int64)
    for place in range(n_documents):
        for i in range(n_rankers):
            key = keys[place, i] ^ ((keys[place, i] >> 63) & _ALL_BUT_SIGN)
            keys[place, i] = (key | last) - place
    return keys.ravel()


@kernel
def _sorted_alone(keys: Ints) -> Ints:
    """Return distinct keys from the largest down; the input is overwritten.

    This is a merge sort with branch-free merges: on scores, half of the branches would be mispredicted.
    """
    n, width = keys.shape[0], 4
    for start in range(0, n, width):
        for i in range(start + 1, min(start + width, n)):
            key, j = keys[i], i
            while j > start and keys[j - 1] < key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
    merged = np.empty(n, np.int64)
    while width < n:
        for start in range(0, n, 2 * width):
            _merge(keys, merged, start, min(start + width, n), min(start + 2 * width, n))
        keys, merged = merged, keys
        width *= 2
    return keys


@kernel
def _merge(keys: Ints, merged: Ints, start: int, middle: int, stop: int) -> None:
    i, j, k = start, middle, start
    while i < middle and j < stop:
        left = keys[i] > keys[j]
        merged[k] = keys[i] if left else keys[j]
        i += left
        j += 1 - left
        k += 1
    while i < middle:
        merged[k] = keys[i]
        i, k = i + 1, k + 1
    while j < stop:
        merged[k] = keys[j]
        j, k = j + 1, k + 1


@kernel
def _sort_columns(keys: Ints, width: int) -> None:
    """Sort each column of a table, stored row by row with this width, from the largest down, in place.

    In Batcher's merge exchange (Knuth, The Art of Computer Programming 3, algorithm 5.2.2M) the compared rows depend only on the
    number of rows. So all columns are sorted together, in vector registers and without branches.
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
        upper[k] = one ^ other ^ smaller  # the larger; max() would compile to masked stores, which are slow
        lower[k] = smaller


@kernel
def _insertion_sort(order: Ints, keys: Floats) -> None:
    """Sort a nearly sorted order by the keys of its items, best first and stable, in place."""
    for i in range(1, order.shape[0]):
        item, j = order[i], i
        while j > 0 and keys[order[j - 1]] < keys[item]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = item


@kernel
def _rankers(weights: Floats, directions: Floats, delta: float) -> Floats:
    """Return the current weights (row 0) and those of each candidate, weights + delta · direction."""
    n_candidates, n_features = directions.shape
    rankers = np.empty((n_candidates + 1, n_features))
    for k in range(n_features):
        rankers[0, k] = weights[k]
    for i in range(n_candidates):
        for k in range(n_features):
            rankers[i + 1, k] = weights[k] + delta * directions[i, k]
    return rankers


@kernel
def add_boosts(table: Floats, boosts: Floats) -> None:
    """Add the boost of each document to its scores by all rankers, in place; an empty array means no boosts."""
    for document in range(boosts.shape[0]):
        for i in range(table.shape[0]):
            table[i, document] += boosts[document]


@kernel
def rankings(
    weights: Floats, directions: Floats, delta: float, features: Floats, boosts: Floats, stream: Stream
) -> Ints:
    """Rank with the current weights (row 0) and with each candidate; all break ties in the same order."""
    table = scores(_rankers(weights, directions, delta), features)
    add_boosts(table, boosts)
    return sorted_rows(table, permutation(stream, features.shape[0]))


@kernel
def separate_rankings(
    weights: Floats, directions: Floats, delta: float, features: Floats, boosts: Floats, stream: Stream
) -> Ints:
    """Rank with the current weights (row 0) and with each candidate; each breaks ties in its own order."""
    table = scores(_rankers(weights, directions, delta), features)
    add_boosts(table, boosts)
    return _sorted_separately(table, stream)


@kernel
def compared_rankings(
    weights: Floats, directions: Floats, delta: float, features: Floats, boosts: Floats, separate: bool, stream: Stream
) -> tuple[Ints, Ints]:
    """Rank as `rankings` or `separate_rankings` do, with the boosts and without them, with the same ties."""
    table, again = scores(_rankers(weights, directions, delta), features), stream.copy()
    alone = _sorted_separately(table, again) if separate else sorted_rows(table, permutation(again, features.shape[0]))
    add_boosts(table, boosts)
    if separate:
        return _sorted_separately(table, stream), alone
    return sorted_rows(table, permutation(stream, features.shape[0])), alone


@kernel
def _sorted_separately(table: Floats, stream: Stream) -> Ints:
    n_rankers, n_documents = table.shape
    shuffled, gathered = np.empty(table.shape, np.int64), np.empty(table.shape)
    for i in range(n_rankers):
        order = permutation(stream, n_documents)
        for place in range(n_documents):
            shuffled[i, place], gathered[i, place] = order[place], table[i, order[place]]
    ranked = sorted_rows(gathered, np.arange(n_documents))
    for i in range(n_rankers):
        for rank in range(n_documents):
            ranked[i, rank] = shuffled[i, ranked[i, rank]]
    return ranked


@kernel
def ranked_labels(weights: Floats, features: Floats, labels: Labels, offsets: Ints, stream: Stream) -> Labels:
    """Rank every query of a split and return the labels of all its documents in ranked order, query after query."""
    ranked = np.empty(labels.shape[0], np.int8)
    rankers = weights.copy().reshape(1, -1)
    for query in range(offsets.shape[0] - 1):
        start, stop = offsets[query], offsets[query + 1]
        order = sorted_rows(scores(rankers, features[start:stop]), permutation(stream, stop - start))[0]
        for position in range(stop - start):
            ranked[start + position] = labels[start + order[position]]
    return ranked
