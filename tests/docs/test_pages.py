"""Every code block of every page is run, or checked as far as it can be, or marked as something that is only shown.

Python with prompts is run by pytest as a doctest, notebooks by `make docs`, Python without prompts by a test that this file names.
Commands are read by the parser of the command line. Where a block cannot be run, the line above it says why:
`<!-- not run: needs a cluster -->`.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from duelrank.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
SHOWN = {"text", "json", "yaml", "xml", "dockerfile", "bibtex", "html", "javascript", "typescript", "java", "php"}
#: Tests that run the Python of a page that has no prompts: "page" or "page#section" -> test.
RUN_BY = {
    "CONTRIBUTING.md": "tests/test_contributing.py",
    "docs/how-to/browser-events.md": "tests/browser",
    "docs/hybrid.md#With the service": "tests/client/test_pages.py",
    "docs/serving.md#From nothing to the first learned click": "tests/client/test_serving_page.py",
    "docs/serving.md#Memory of queries": "tests/client/test_serving_page.py",
    "docs/serving.md#Modes, and a safe way into production": "tests/client/test_serving_page.py",
    "docs/start/first-learned-click.md#As a service": "tests/client/test_pages.py",
    "docs/engines.md": "tests/engines",
    "docs/how-to/shop.md#An example": "tests/client/test_pages.py",
    "docs/how-to/own-algorithm.md#Check it": "tests/test_own_algorithm.py",
    "docs/how-to/own-algorithm.md#The file": "tests/test_own_algorithm.py",
    "docs/how-to/own-algorithm.md#Your own network": "tests/test_own_algorithm.py",
    "docs/see-it-learn.md#How to put this behind your own search": "tests/client/test_pages.py",
    "docs/experiments.md": "tests/docs/test_pages.py",
    "docs/tuning.md#": "tests/docs/test_pages.py",
}
#: What makes the Python of a page, which is of a useful size, small enough for a test.
SMALL = {
    "docs/experiments.md": {'"mq2008", runs=15': '"synthetic(n_queries=10)", runs=1, impressions=20, workers=1'},
    "docs/tuning.md": {
        '["mq2007", "mq2008"], trials=300': '["synthetic(n_queries=10)"], trials=1, impressions=20, workers=1'
    },
}


@dataclass(frozen=True)
class Block:
    """A code block: where it is, what it is in, and why it is not run, if it says so."""

    page: str
    section: str
    line: int
    language: str
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def run_by(self) -> str | None:
        return RUN_BY.get(self.page) or RUN_BY.get(f"{self.page}#{self.section}")


def blocks(path: Path) -> list[Block]:
    found, section, before = [], "", ""
    lines = iter(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        fence = re.match(r"( *)(```+)(\{?[\w-]*\}?)", line)
        if fence:
            rest = iter(lambda: next(lines)[1], f"{fence[1]}{fence[2]}")
            text = "".join(f"{each.removeprefix(fence[1])}\n" for each in rest)
            reason = re.fullmatch(r"<!-- not run: (.+) -->", before.strip())
            page = path.relative_to(ROOT).as_posix()
            found.append(Block(page, section, number, fence[3], text, reason[1] if reason else ""))
        elif line.startswith("## "):
            section = line.removeprefix("## ")
        before = line
    return found


def run(block: Block, names: dict[str, object]) -> None:
    """Run the Python of a block, made small."""
    code = re.sub(r"\A(?::[^\n]*\n)+", "", block.text)  # the options of a cell
    for written, small in SMALL.get(block.page, {}).items():
        code = code.replace(written, small)
    exec(compile(code, str(block), "exec"), names)


BLOCKS = [block for page in PAGES for block in blocks(page)]
PYTHON = [block for block in BLOCKS if block.language == "python" and not block.text.startswith(">>>")]


def commands(block: Block) -> list[str]:
    """Return the calls of duelrank in a block of commands."""
    joined = block.text.replace("\\\n", " ")
    lines = [
        line.removeprefix("$ ") for line in joined.splitlines() if block.language == "bash" or line.startswith("$ ")
    ]
    return [found[1] for line in lines if (found := re.match(r"(?:\w+=\S+ )*(?:\.venv/bin/)?duelrank (.*)", line))]


COMMANDS = [
    (block, command)
    for block in BLOCKS
    if block.language in ("console", "bash") and not block.run_by
    for command in commands(block)
]


def test_every_block_says_what_it_is():
    known = {"python", "console", "bash", "toml", "{code-cell}", "{toctree}", "{eval-rst}", *SHOWN}
    assert [f"{block} {block.language!r}" for block in BLOCKS if block.language not in known] == []


def test_all_python_is_run_or_says_why_not():
    assert [str(block) for block in PYTHON if not block.run_by and not block.reason] == []


def test_no_block_that_is_run_says_that_it_is_not():
    assert [str(block) for block in PYTHON if block.run_by and block.reason] == []


@pytest.mark.parametrize("place", RUN_BY)
def test_whatever_runs_a_page_exists_and_names_it(place):
    test, page = ROOT / RUN_BY[place], place.partition("#")[0]
    files = [test] if test.is_file() else list(test.glob("test_*.py"))
    assert any(Path(page).name in file.read_text(encoding="utf-8") for file in files)
    assert any(block.run_by == RUN_BY[place] and block.page == page for block in PYTHON)


@pytest.mark.parametrize("block", [each for each in PYTHON if each.run_by == "tests/docs/test_pages.py"], ids=str)
def test_python_runs_when_it_is_made_small(block, tmp_path, monkeypatch, clean_registry):
    monkeypatch.chdir(tmp_path)
    run(block, {"__name__": "page"})


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_that_is_not_run_here_imports_what_there_is(block):
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "duelrank":
            module = importlib.import_module(node.module)
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_toml_can_be_read(block):
    assert tomllib.loads(block.text)


@pytest.mark.parametrize(("block", "command"), COMMANDS, ids=[str(block) for block, _ in COMMANDS])
def test_the_command_line_takes_the_commands(block, command):
    """With ``--help`` at the end nothing is run, but an option that there is not is an error."""
    arguments = arguments_of(command)
    result = CliRunner().invoke(app, [*arguments, "--help"])
    assert result.exit_code == 0, result.output


def arguments_of(command: str) -> list[str]:
    """Return the words of a command up to a pipe or the like, without the files that it loads."""
    words = shlex.split(command, comments=True)
    end = next(
        (place for place, word in enumerate(words) if word in ("|", ">", "&", "&&", ";", "<", "2>&1")), len(words)
    )
    words = words[:end]
    while "--load" in words:
        place = words.index("--load")
        del words[place : place + 2]
    return words


@pytest.mark.parametrize("page", SMALL)
def test_what_makes_a_page_small_is_on_it(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [written for written in SMALL[page] if written not in text] == []


def test_every_figure_is_in_the_gallery():
    index = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\.\./figures/([\w-]+\.png)", index))
    drawn = {figure.name for figure in (DOCS / "figures").iterdir()}
    assert {name.replace("-dark.", ".") for name in drawn} == shown  # the site shows NAME-dark.png in its dark theme
    assert shown <= drawn
