"""What the ranker sees of a document: eleven numbers that a person understands, and their names."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from duelrank.playground.documents import Document
from duelrank.types import Features

__all__ = ["FEATURES", "exactness", "matching", "static_features", "words"]

#: Names of the features, and what each of them says; the first four are of a document and a query, the others of a document.
FEATURES: dict[str, str] = {
    "name match": "BM25 of the query in the dotted name",
    "summary match": "BM25 of the query in the first paragraph",
    "text match": "BM25 of the query in the rest of the docstring",
    "exact name": "how much of the name the query spells",
    "class": "it is a class",
    "module": "it is a module",
    "private": "its name, or that of its module, begins with an underscore",
    "depth": "the number of dots in its dotted name",
    "long name": "characters of its name",
    "long text": "words of its docstring, on a logarithmic scale",
    "imported": "modules that import its module, on a logarithmic scale",
}

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words(name: str) -> str:
    """Return a name in words: ``json.JSONDecoder`` is "json JSON Decoder JSONDecoder"."""
    found = [word for part in re.split(r"[._]", name) for word in [*_WORD.findall(part), part]]
    return " ".join(dict.fromkeys(found))


def static_features(documents: Sequence[Document], importers: Counter[str]) -> Features:
    """Return what can be said of documents before there is a query, (n_documents, n_features − 4)."""
    rows = [
        (
            each.kind == "class",
            each.kind == "module",
            any(part.startswith("_") and not part.startswith("__") for part in each.id.split(".")),
            each.id.count("."),
            len(each.name),
            math.log1p(len(each.text.split())),
            math.log1p(importers[each.module]),
        )
        for each in documents
    ]
    return np.array(rows, np.float64)


def exactness(query: str, name: str) -> float:
    """Return how much of a name the words of a query spell, from 0 to 1."""
    lowered = name.lower().strip("_")
    spelled = sum(len(word) for word in set(query.lower().split()) if word in lowered)
    return min(1.0, spelled / max(1, len(lowered)))


def matching(query: str, documents: Sequence[Document], bm25: NDArray[np.float64]) -> Features:
    """Return what can be said of documents and a query, (n_documents, 4), given BM25 in name, summary and text."""
    exact = np.array([exactness(query, each.name) for each in documents])
    return np.column_stack([bm25.reshape(len(documents), 3), exact])
