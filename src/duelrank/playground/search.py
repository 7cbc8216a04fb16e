"""The playground's search engine: Python's docstrings, a full-text index, and the features of each candidate."""

from __future__ import annotations

import ast
import math
import re
import sqlite3
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import DataFormatError, MissingExtra
from duelrank.core.types import Features

Kind: TypeAlias = Literal["module", "class", "function"]

#: Names and descriptions of the features; the first four depend on document and query, the others on the document.
FEATURES: dict[str, str] = {
    "name": "BM25 of the query in the dotted name",
    "intro": "BM25 of the query in the first paragraph",
    "text": "BM25 of the query in the rest of the docstring",
    "exact": "share of the name that the query covers",
    "class": "it is a class",
    "module": "it is a module",
    "private": "its name, or that of its module, begins with an underscore",
    "depth": "the number of dots in its dotted name",
    "length": "characters of its name",
    "words": "words of its docstring, on a logarithmic scale",
    "imports": "modules that import its module, on a logarithmic scale",
}
#: Maximum number of candidates of a query.
N_CANDIDATES = 50

# BM25 of each column alone is a feature. Candidates are selected by a sum in which matches in the name count most.
_BEST = """
SELECT rowid, -bm25(found, 1.0, 0.0, 0.0), -bm25(found, 0.0, 1.0, 0.0), -bm25(found, 0.0, 0.0, 1.0)
FROM found WHERE found MATCH ? ORDER BY bm25(found, 4.0, 2.0, 1.0), rowid LIMIT ?
"""
#: Folders without documentation for users.
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
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Document:
    """One docstring; ``id`` is the dotted name of its object, such as ``json.JSONDecoder.decode``."""

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
        """The text after the first paragraph, if any."""
        return self.text.partition("\n\n")[2]


@dataclass(frozen=True)
class Library:
    """All documents, and the number of modules that import each module."""

    documents: list[Document]
    importers: Counter[str]


def read_library(root: Path | None = None) -> Library:
    """Read the docstrings of all modules, classes and functions below a folder, by default the standard library."""
    root = root or Path(sysconfig.get_path("stdlib"))
    found, importers = dict[str, Document](), Counter[str]()
    for path in _files(root):
        parts = path.relative_to(root).with_suffix("").parts
        if (tree := _parsed(path)) is not None:
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            importers.update(_imported(tree.body, parts[:-1]))
            for document in _documents(tree, module):
                found.setdefault(document.id, document)  # the first of several definitions of a name
    if not found:
        raise DataFormatError(f"there are no Python source files with docstrings in {root}")
    return Library(list(found.values()), importers)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in _LEFT_OUT:
            yield from _files(path)
        elif path.suffix == ".py":
            yield path


def _parsed(path: Path) -> ast.Module | None:
    """Return the syntax tree of a file, or None if this version of Python cannot parse it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as invalid escape sequences
        try:
            return ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            return None


def _documents(tree: ast.Module, module: str) -> Iterator[Document]:
    if text := ast.get_docstring(tree):
        yield Document(module, "module", module, text)
    yield from _defined(tree.body, module, module)


def _defined(body: Iterable[ast.stmt], owner: str, module: str) -> Iterator[Document]:
    """Yield the definitions in a module or class, also conditional ones, but not those within functions."""
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


@dataclass(frozen=True)
class Candidates:
    """The documents found for a query, in the order of the first stage, with one row of features each."""

    query: str
    documents: Sequence[Document]
    features: Features


class Search:
    """Finds docstrings with SQLite's full-text search; thread-safe.

    Parameters
    ----------
    library
        The documents to search.
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
                f"the playground needs FTS5, which the SQLite {sqlite3.sqlite_version} of this Python does not have "
                f"({error}); the Python of python.org, conda or your distribution usually has it"
            ) from None
        rows = ((row, words(each.id), each.summary, each.body) for row, each in enumerate(self.documents))
        self._database.executemany("INSERT INTO found (rowid, name, summary, body) VALUES (?, ?, ?, ?)", rows)

    def document(self, id: str) -> Document | None:
        """Return a document by its dotted name, or None."""
        row = self._rows.get(id)
        return None if row is None else self.documents[row]

    def candidates(self, query: str, most: int = N_CANDIDATES) -> Candidates:
        """Return the best documents of the first stage; a document must contain a word that begins with a word of the query."""
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
        """Close the index."""
        self._database.close()


def words(name: str) -> str:
    """Split a name into words: ``json.JSONDecoder`` is "json JSON Decoder JSONDecoder"."""
    found = [word for part in re.split(r"[._]", name) for word in [*_WORD.findall(part), part]]
    return " ".join(dict.fromkeys(found))


def static_features(documents: Sequence[Document], importers: Counter[str]) -> Features:
    """Return the features that do not depend on a query, (n_documents, n_features − 4)."""
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
    """Return the share of a name that the words of a query cover, from 0 to 1."""
    lowered = name.lower().strip("_")
    spelled = sum(len(word) for word in set(query.lower().split()) if word in lowered)
    return min(1.0, spelled / max(1, len(lowered)))


def matching(query: str, documents: Sequence[Document], bm25: NDArray[np.float64]) -> Features:
    """Return the features that depend on the query, (n_documents, 4), given BM25 in name, summary and text."""
    exact = np.array([exactness(query, each.name) for each in documents])
    return np.column_stack([bm25.reshape(len(documents), 3), exact])
