"""Recognises folds and splits by file names, as in the published data sets."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

__all__ = ["SHARES", "SPLITS", "place"]

SPLITS = ("train", "validation", "test")
SHARES = (0.6, 0.2, 0.2)  # shares of the queries, as in the published sets with five folds

#: ``train.txt``, LETOR 3's ``trainingset.txt`` and Yahoo!'s ``set1.train.txt``.
_FILE = re.compile(r"(?:(?P<prefix>set\d+)\.)?(?P<split>train|vali|test)(?:ing|d|dation)?(?:set)?\.txt", re.IGNORECASE)
_FOLD = re.compile(r"fold[ _-]?(\d+)", re.IGNORECASE)


def place(path: PurePosixPath, prefix: str = "") -> tuple[int, str] | None:
    """Return the (fold, split) of a file by its path, or None if the path names no split.

    Parameters
    ----------
    path
        The path inside the folder or archive, without a compression suffix. A path without a ``FoldN`` folder is fold 1.
    prefix
        Only files with this prefix count, for archives with several sets.

    Examples
    --------
    >>> place(PurePosixPath("MQ2008/Fold3/vali.txt"))
    (3, 'validation')
    >>> place(PurePosixPath("set2.train.txt"), prefix="set1") is None
    True
    """
    found = _FILE.fullmatch(path.name)
    if found is None or (prefix and (found["prefix"] or "").lower() != prefix) or "__MACOSX" in path.parts:
        return None
    split = {"train": "train", "vali": "validation", "test": "test"}[found["split"].lower()]
    folds = [int(match[1]) for part in path.parts[:-1] if (match := _FOLD.fullmatch(part))]
    return (folds[-1] if folds else 1), split
