"""A small library of Python files with docstrings, some of which try to do harm, and the search over it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duelrank.playground import Search, read_library
from duelrank.playground.search import Library

HARM = "<img src=x onerror=\"document.title='harmed'\"><script>document.title='harmed'</script>"


def write_library(root) -> None:
    """Write some modules about files, whose docstrings differ in length and depth."""
    (root / "files").mkdir(parents=True)
    (root / "files" / "__init__.py").write_text('"""Work with files.\n\nMore about files."""\nimport os, shutil\n')
    for number in range(6):
        lines = [f'"""File number {number}."""', "from . import open_file" if number else "import os"]
        for each in range(5):
            words = "read a file " * (each + 1)
            lines.append(f'def read_file_{number}_{each}():\n    """Read file {each}.\n\n    {words}."""\n')
        lines.append(f'class File{number}:\n    """A file."""\n    def read(self):\n        """Read it, the file."""\n')
        lines.append('    def _hidden(self):\n        """Read the file in secret."""\n')
        (root / "files" / f"part{number}.py").write_text("\n".join(lines))
    (root / "harm.py").write_text(f'"""A file of harm {HARM}."""\ndef harm():\n    {f"Harm a file {HARM}."!r}\n')
    (root / "broken.py").write_text("print 'a file for another Python'\n")
    (root / "trap.py").write_text('"""A file that must not be imported."""\nraise SystemExit("it was imported")\n')
    (root / "test").mkdir()
    (root / "test" / "test_file.py").write_text('"""A file of tests."""\n')


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Library:
    root = tmp_path_factory.mktemp("library")
    write_library(root)
    return read_library(root)


@pytest.fixture(scope="session")
def search(library) -> Iterator[Search]:
    found = Search(library)
    yield found
    found.close()
