"""The playground's search: documents, their features, queries, and the tastes of users."""

from __future__ import annotations

import ast
import math
import re
import sqlite3
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import DataFormatError, InvalidValue, MissingExtra, UnknownName
from duelrank.core.types import Features, Labels, Weights
from duelrank.kernels.ranking import linear_scores
from duelrank.representation import QueryScaled

Kind: TypeAlias = Literal["module", "class", "function"]

#: Folders whose docstrings nobody searches for.
_LEFT_OUT = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "encodings",
        "idle_test",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
        "turtledemo",
    }
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Document:
    """One docstring; ``id`` is the dotted name of what it describes, such as ``json.JSONDecoder.decode``."""

    id: str
    kind: Kind
    module: str
    text: str

    @property
    def name(self) -> str:
        """The last part of the dotted name."""
        return self.id.rpartition(".")[2]

    @property
    def summary(self) -> str:
        """The first paragraph, on one line."""
        return " ".join(self.text.partition("\n\n")[0].split())

    @property
    def body(self) -> str:
        """What follows the first paragraph; empty for many."""
        return self.text.partition("\n\n")[2]


@dataclass(frozen=True)
class Library:
    """All documents, and how many modules import each module."""

    documents: list[Document]
    importers: Counter[str]


def read_library(root: Path | None = None) -> Library:
    """Read the docstrings of all modules, classes and functions below a folder: the standard library, where none is given."""
    root = root or Path(sysconfig.get_path("stdlib"))
    found, importers = dict[str, Document](), Counter[str]()
    for path in _files(root):
        parts = path.relative_to(root).with_suffix("").parts
        if (tree := _parsed(path)) is not None:
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            importers.update(_imported(tree.body, parts[:-1]))
            for document in _documents(tree, module):
                found.setdefault(document.id, document)  # of two definitions of one name, the first
    if not found:
        raise DataFormatError(
            f"there are no Python source files with docstrings in {root}; this Python came without them"
        )
    return Library(list(found.values()), importers)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in _LEFT_OUT:
            yield from _files(path)
        elif path.suffix == ".py":
            yield path


def _parsed(path: Path) -> ast.Module | None:
    """Return the syntax of a file, None where it is for another Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old-fashioned escapes in strings
        try:
            return ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            return None


def _documents(tree: ast.Module, module: str) -> Iterator[Document]:
    if text := ast.get_docstring(tree):
        yield Document(module, "module", module, text)
    yield from _defined(tree.body, module, module)


def _defined(body: Iterable[ast.stmt], owner: str, module: str) -> Iterator[Document]:
    """Yield what is defined in a module or a class, also under a condition; what is inside of a function has no name outside."""
    for node in body:
        if isinstance(node, _DEFINITIONS):
            id, is_class = f"{owner}.{node.name}", isinstance(node, ast.ClassDef)
            if text := ast.get_docstring(node):
                yield Document(id, "class" if is_class else "function", module, text)
            if is_class:
                yield from _defined(node.body, id, module)
        elif isinstance(node, ast.If | ast.Try):
            yield from _defined([*node.body, *node.orelse], owner, module)


def _imported(body: Iterable[ast.stmt], package: tuple[str, ...]) -> set[str]:
    """Return the modules that a module imports when it is loaded."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            found.add(".".join([*above, *([node.module] if node.module else [])]))
        elif isinstance(node, ast.If | ast.Try):
            found |= _imported([*node.body, *node.orelse], package)
    return found


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


#: From −1 (they hate it) to 1 (they love it); what is not named leaves them cold.
DEFAULT_TASTE: dict[str, float] = {
    "name match": 0.4,
    "exact name": 1.0,
    "module": 0.3,
    "private": -0.8,
    "depth": -0.6,
    "imported": 0.6,
}
N_GRADES = 5
# Of the candidates of a query, these shares have at least the grades 1, 2, 3 and 4.
_SHARES = (0.5, 0.3, 0.16, 0.06)


def as_weights(taste: Mapping[str, float]) -> Weights:
    """Return a taste by name as weights in the order of the features."""
    for name, value in taste.items():
        if name not in FEATURES:
            raise UnknownName.among("feature", name, FEATURES)
        if not -1.0 <= value <= 1.0:
            raise InvalidValue(f"a taste is from -1 (hate) to 1 (love), got {value!r} for {name!r}")
    return np.array([taste.get(name, 0.0) for name in FEATURES])


def grades(weights: Weights, features: Features) -> Labels:
    """Return the grades of the candidates of one query: the few that a taste likes best have 4, about half of them have 0.

    The taste is a linear utility of the features, each scaled to from 0 to 1 within the query. Candidates of equal utility have
    equal grades, and candidates that are all alike have 0.
    """
    utility = linear_scores(weights, QueryScaled().apply(features, {}))
    ordered = np.sort(utility)[::-1]
    least = [ordered[max(1, round(share * len(ordered))) - 1] for share in _SHARES]
    reached = np.sum([utility >= each for each in least], axis=0)
    return np.where(utility > ordered[-1], reached, 0).astype(np.int8)


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
