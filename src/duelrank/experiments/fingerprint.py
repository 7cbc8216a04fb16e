"""Whether data is still the data that something was computed from: a set may be imported anew under its old name."""

from __future__ import annotations

import hashlib
from math import ceil

from duelrank.datasets import Fold

__all__ = ["fingerprint"]

_SAMPLED_ROWS = 1000  # of the features of a split; all labels and queries count


def fingerprint(fold: Fold) -> str:
    """Return twenty hexadecimal digits that change with the queries, the labels and a thousand documents of each split."""
    digest = hashlib.blake2b(digest_size=10)
    for split in (fold.train, fold.validation, fold.test):
        sampled = split.features[:: ceil(split.n_documents / _SAMPLED_ROWS) or 1]
        for array in (split.offsets, split.labels, sampled):
            digest.update(array.tobytes())
    return digest.hexdigest()
