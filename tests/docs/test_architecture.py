"""The page on the architecture and the recipes name files that exist, and the tree on the page leaves out none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import duelrank

ROOT = Path(__file__).parents[2]
PACKAGE = Path(duelrank.__file__).parent
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
ARCHITECTURE = (ROOT / PAGES[0]).read_text(encoding="utf-8")
#: Rooms in which everyone adds files of their own; the tree does not list them.
OPEN_ROOMS = {"algorithms", "cli"}
BUILT = {"dist/"}


def tree() -> dict[str, set[str]]:
    """Return the modules of each room as the page shows them; those of the package itself are under ''."""
    block = re.search(r"```text\nsrc/duelrank/\n(.*?)```", ARCHITECTURE, re.DOTALL)
    assert block is not None
    rooms: dict[str, set[str]] = {"": set()}
    for line in block[1].splitlines():
        names = line.partition("#")[0]
        if head := re.match(r"  (\w+(?:/\w+)*)/", names):
            room = head[1]
            rooms[room] = set()
            names = names[head.end() :]
        elif not names.startswith("   "):
            room = ""
        rooms[room] |= set(re.findall(r"(\w+)\.py", names))
    return rooms


def modules(room: str) -> set[str]:
    return {path.stem for path in (PACKAGE / room).glob("*.py")} - {"__init__", "__main__"}


def test_the_tree_has_every_room():
    rooms = {str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")} - {"."}
    assert tree().keys() - {""} == rooms


@pytest.mark.parametrize("room", sorted(tree().keys() - OPEN_ROOMS))
def test_the_tree_has_every_module(room):
    assert tree()[room] == modules(room)


def test_the_modules_of_the_service_are_described():
    block = re.search(r"```text\nsrc/duelrank/service/\n(.*?)```", ARCHITECTURE, re.DOTALL)
    assert block is not None
    assert set(re.findall(r"^  (\w+)\.py ", block[1], re.MULTILINE)) == modules("service")


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page):
    named = set(
        re.findall(r"`([\w./-]*/[\w./-]+\.(?:py|md|toml|yaml)|[\w./-]+/)`", (ROOT / page).read_text(encoding="utf-8"))
    )
    assert [name for name in sorted(named - BUILT) if not ((ROOT / name).exists() or (PACKAGE / name).exists())] == []
