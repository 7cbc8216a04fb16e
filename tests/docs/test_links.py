"""Links between the Markdown pages of the repository, as a code host shows them: the file exists, and so does the place in it.

Links within the site are checked by `make docs`, those to other machines by `make links`.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md"))
    if page.is_file()
)
#: Anchors that a page of the site has and the file has not: the rest of the page is made from the code.
MADE = {"docs/reference/errors.md", "docs/reference/http.md", "docs/reference/cli.md"}


def prose(page: Path) -> str:
    """Return a page without what is shown as it is: code, and comments."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^( *)(```+).*?^\1\2$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def links(page: Path) -> set[str]:
    """Return what the links and images of a page lead to; a link whose text is code or an image counts too."""
    text = prose(page)
    inline = re.findall(r"\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)*)\)", text)
    return {*inline, *re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)}


def anchors(page: Path) -> set[str]:
    """Return the places of a page, named as code hosts and the site name headings."""
    names: Counter[str] = Counter()
    found = set()
    for head in re.findall(r"^#+ (.+?)\s*$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head)
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(f"{name}-{names[name]}" if names[name] else name)
        names[name] += 1
    return found


LINKS = [(page, link) for page in PAGES for link in sorted(links(page))]
INSIDE = [(page, link) for page, link in LINKS if not re.match(r"[a-z]+:", link)]


def test_there_are_links():
    assert len({page for page, _ in INSIDE}) > 20


@pytest.mark.parametrize(("page", "link"), INSIDE, ids=[f"{page.relative_to(ROOT)}:{link}" for page, link in INSIDE])
def test_a_link_leads_to_a_place_in_a_file_of_the_repository(page, link):
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    assert target.exists(), f"there is no {name}"
    assert target.is_relative_to(ROOT), "it leads out of the repository"
    assert target.suffix != ".md" or prose(target).strip(), (
        f"{name} is empty but on the site: link to what it shows there"
    )
    if anchor and target.relative_to(ROOT).as_posix() not in MADE:
        assert anchor in anchors(target), f"{name or page.name} has no heading #{anchor}"


def test_addresses_of_other_machines_are_secret_on_their_way():
    insecure = {link for _, link in LINKS if link.startswith("http://")}
    assert [link for link in insecure if not re.match(r"http://(localhost|127\.0\.0\.1)\b", link)] == []
