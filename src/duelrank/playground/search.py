"""The search: an index in memory that finds the candidates of a query. What comes after it, the ranker decides."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from duelrank.errors import MissingExtra
from duelrank.playground.documents import Document, Library
from duelrank.playground.features import matching, static_features, words
from duelrank.types import Features

__all__ = ["Candidates", "Search"]

#: So many documents of a query go to the ranker.
N_CANDIDATES = 50
# BM25 of each column by itself is a feature. A match in the name counts most for being a candidate at all; their order is the
# ranker's affair.
_BEST = """
SELECT rowid, -bm25(found, 1.0, 0.0, 0.0), -bm25(found, 0.0, 1.0, 0.0), -bm25(found, 0.0, 0.0, 1.0)
FROM found WHERE found MATCH ? ORDER BY bm25(found, 4.0, 2.0, 1.0), rowid LIMIT ?
"""


@dataclass(frozen=True)
class Candidates:
    """What the search has found for a query, the first stage's best first: documents, and one row of features for each."""

    query: str
    documents: Sequence[Document]
    features: Features


class Search:
    """Finds docstrings with SQLite's full-text search; may be asked from any thread.

    Parameters
    ----------
    library
        What to search in.
    """

    def __init__(self, library: Library) -> None:
        self.documents = library.documents
        self._rows = {each.id: row for row, each in enumerate(self.documents)}
        self._static = static_features(self.documents, library.importers)
        self._database, self._asking = sqlite3.connect(":memory:", check_same_thread=False), Lock()
        try:
            self._database.execute(
                "CREATE VIRTUAL TABLE found USING fts5(name, summary, body, content='', tokenize='porter unicode61')"
            )
        except sqlite3.OperationalError as error:
            raise MissingExtra(
                f"the playground searches with FTS5, which the SQLite {sqlite3.sqlite_version} of this Python does not have "
                f"({error}); the Python of python.org, conda or your distribution usually does"
            ) from None
        rows = ((row, words(each.id), each.summary, each.body) for row, each in enumerate(self.documents))
        self._database.executemany("INSERT INTO found (rowid, name, summary, body) VALUES (?, ?, ?, ?)", rows)

    def document(self, id: str) -> Document | None:
        """Return a document by its dotted name, None where there is none."""
        row = self._rows.get(id)
        return None if row is None else self.documents[row]

    def candidates(self, query: str, most: int = N_CANDIDATES) -> Candidates:
        """Return the best documents of the first stage; a document needs one of the words, or one that begins like it."""
        asked = re.findall(r"\w+", query.replace("_", " "))[:20]
        if not asked:
            return Candidates(query, [], np.empty((0, 4 + self._static.shape[1])))
        match = " OR ".join(f'"{word}"*' for word in asked)
        with self._asking:
            found = self._database.execute(_BEST, (match, most)).fetchall()
        rows = [row for row, *_ in found]
        documents = [self.documents[row] for row in rows]
        bm25 = np.array([scores for _, *scores in found], np.float64)
        features = np.hstack([matching(" ".join(asked), documents, bm25), self._static[rows]])
        return Candidates(query, documents, features)

    def close(self) -> None:
        """Let go of the index."""
        self._database.close()
