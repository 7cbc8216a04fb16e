"""Kernels of the memory of queries: packed records of many queries, and clicks and views of the documents of one query."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats, Ints, Stream
from duelrank.kernels.random import below, uniform

HEAD = 4  # numbers of a record before its model

_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


@kernel
def recall(bucket: Ints, key: int) -> tuple[int, int, int]:
    """Return the rounds of a key's record, and where its model starts and stops; zeros if the key is unknown.

    A bucket is a flat array of records, one after the other: key, time of the last use, rounds, size of the model, model.
    """
    at = 0
    while at < bucket.shape[0]:
        stop = at + HEAD + bucket[at + 3]
        if bucket[at] == key:
            return bucket[at + 2], at + HEAD, stop
        at = stop
    return 0, 0, 0


@kernel
def newer_records(bucket: Ints, since: int) -> Ints:
    """Return the records of a bucket whose last use is after a time, one after the other."""
    found, size, at = np.empty(bucket.shape[0], np.int64), 0, 0
    while at < bucket.shape[0]:
        stop = at + HEAD + bucket[at + 3]
        if bucket[at + 1] > since:
            for i in range(at, stop):
                found[size] = bucket[i]
                size += 1
        at = stop
    return found[:size].copy()


@kernel
def text_keys(letters: Any, lengths: Ints) -> Ints:
    """Return a 64-bit hash of each text: FNV-1a, then the last steps of SplitMix64, because FNV mixes high bits badly.

    Parameters
    ----------
    letters
        The bytes of all texts, one after the other.
    lengths
        The number of bytes of each text.
    """
    keys, at = np.empty(lengths.shape[0], np.int64), 0
    for text in range(lengths.shape[0]):
        key = _OFFSET
        for i in range(at, at + lengths[text]):
            key = (key ^ np.uint64(letters[i])) * _PRIME
        at += lengths[text]
        key = (key ^ (key >> _S30)) * _MIX_1
        key = (key ^ (key >> _S27)) * _MIX_2
        keys[text] = np.int64(key ^ (key >> _S31))
    return keys


@kernel
def boosts(model: Ints, rate: float, documents: Ints, strength: float, doubt: float) -> Floats:
    """Return strength · (clicks − rate · views) / (views + doubt) of each document, rounded to single precision.

    A document that is not known has 0; if all have 0, the result is empty.

    Parameters
    ----------
    model
        The packed form of a query: the number of documents, their keys, the bits of their clicks and of their views.
    rate
        Clicks per view of all queries.
    documents
        The keys of the documents to rank.
    """
    n, some = model[0], False
    counts, found = model[1 + n : 1 + 3 * n].view(np.float64), np.zeros(documents.shape[0])
    for i in range(documents.shape[0]):
        for j in range(n):
            if model[1 + j] == documents[i]:
                boost = strength * (counts[j] - rate * counts[n + j]) / (counts[n + j] + doubt)
                found[i] = np.float32(boost)
                some = some or found[i] != 0.0
                break
    return found if some else found[:0]


@kernel
def raised(boosts: Floats, model: Ints, documents: Ints, stream: Stream) -> Floats:
    """Return the boosts with the largest one also for a random document that has less than one view; unchanged if all have more.

    ``model`` is the packed form of a query, as in `boosts`, and ``documents`` are the keys of the documents.
    """
    n = model[0]
    views, found = model[1 + 2 * n : 1 + 3 * n].view(np.float64), boosts.copy()
    hardly_seen = chosen = 0
    for i in range(documents.shape[0]):
        seen = False
        for j in range(n):
            seen = seen or (model[1 + j] == documents[i] and views[j] >= 1.0)
        if not seen:
            hardly_seen += 1
            if below(stream, hardly_seen) == 0:  # the k-th replaces the earlier choice with probability 1/k
                chosen = i
    if hardly_seen > 0:
        largest = 0.0
        for i in range(boosts.shape[0]):
            largest = max(largest, boosts[i])
        found[chosen] = largest
    return found


@kernel
def drawn(
    model: Ints, rate: float, documents: Ints, strength: float, doubt: float, curious: float, stream: Stream
) -> Floats:
    """Return the boosts of a list that explores: in a share ``curious`` of the lists, one document is `raised`."""
    found = boosts(model, rate, documents, strength, doubt)
    if found.shape[0] > 0 and curious > 0.0 and uniform(stream) < curious:
        found = raised(found, model, documents, stream)
    return found


@kernel
def count(
    known: Ints, counts: Floats, shown: Ints, clicks: Floats, seen: Floats, kept: float, most: int
) -> tuple[Ints, Floats]:
    """Count the clicks and views of a list; return the places of the documents to remember, and their clicks and views.

    A place is an index into the known documents, followed by the shown ones. The most recently seen documents are last, of one list
    the upper ones; if there are more than ``most``, the first ones are forgotten.

    Parameters
    ----------
    known, counts
        The keys of the known documents, and their clicks and views, (2, n_known).
    shown, clicks, seen
        The keys, clicks and probabilities of having been seen, by position.
    kept
        Factor on the earlier counts.
    """
    n_known, n_shown = known.shape[0], shown.shape[0]
    places, after = np.empty(n_known + n_shown, np.int64), np.empty((2, n_known + n_shown))
    at, position_of = 0, np.full(n_known, -1)
    place_of = np.full(n_shown, -1)
    for i in range(n_shown):
        for j in range(n_known):
            if known[j] == shown[i]:
                position_of[j], place_of[i] = i, j
                break
    for j in range(n_known):
        if position_of[j] < 0 or (seen[position_of[j]] == 0.0 and clicks[position_of[j]] == 0.0):
            places[at], after[0, at], after[1, at] = j, kept * counts[0, j], kept * counts[1, j]
            at += 1
    for i in range(n_shown - 1, -1, -1):
        if seen[i] > 0.0 or clicks[i] > 0.0:
            j = place_of[i]
            places[at] = n_known + i if j < 0 else j
            after[0, at] = clicks[i] + (kept * counts[0, j] if j >= 0 else 0.0)
            after[1, at] = (1.0 if clicks[i] > 0.0 else seen[i]) + (kept * counts[1, j] if j >= 0 else 0.0)
            at += 1
    first = max(0, at - most)
    return places[first:at].copy(), after[:, first:at].copy()
