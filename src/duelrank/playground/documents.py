"""The documents: docstrings of the installed Python's standard library, read from its source files and never imported."""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from duelrank.errors import DataFormatError

__all__ = ["Document", "Library", "read_library"]

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
