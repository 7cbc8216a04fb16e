"""The site as a visitor sees it who has only the folder: no server, no network, a wide screen or a narrow one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md"))
WIDTHS = (1280, 400)

#: What is wrong with a page as it is drawn.
FAULTS = """() => {
    const article = document.querySelector("article"), root = document.documentElement, found = [];
    if (root.scrollWidth > root.clientWidth) found.push(`is ${root.scrollWidth} pixels wide`);
    const heads = article.querySelectorAll("h1").length;
    if (heads !== 1) found.push(`has ${heads} titles`);
    for (const image of article.querySelectorAll("img")) {
        if (!image.alt) found.push(`no text for ${image.src}`);
        if (!image.naturalWidth) found.push(`no image ${image.src}`);
    }
    for (const problem of article.querySelectorAll(".problematic, .system-message")) found.push(problem.innerText);
    return found;
}"""


def links(page, selector: str) -> set[str]:
    """Return the addresses that links of a page lead to."""
    return set(page.eval_on_selector_all(selector, "found => found.map(each => each.href)"))


def test_every_page_is_in_the_navigation_of_the_first_page(site, visit):
    reachable = {urldefrag(each).url for each in links(visit().page, ".sidebar-tree a")}
    expected = {f"{site.as_uri()}/{page}" for page in PAGES}
    # The link of a page to itself is "#".
    assert expected <= reachable | {f"{site.as_uri()}/index.html"}


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_are_whole(site, visit, width):
    """Nothing is wider than the screen but what scrolls by itself; every page has one title; images are there, and have a text."""
    tab, faults = visit(width=width), []
    for page in PAGES:
        tab.page.goto(f"{site.as_uri()}/{page}")
        faults += [f"{page}: {fault}" for fault in tab.page.evaluate(FAULTS)]
    assert faults == []


def test_no_line_of_code_is_cut_off_on_a_wide_screen(site, visit):
    tab, cut = visit(width=1280), []
    for page in PAGES:
        tab.page.goto(f"{site.as_uri()}/{page}")
        blocks = (
            "article pre",
            "found => found.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)",
        )
        cut += [f"{page}: {text[:80]}" for text in tab.page.eval_on_selector_all(*blocks)]
    assert cut == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_picture_with_a_dark_form_shows_the_one_of_the_theme(visit, dark):
    tab = visit("see-it-learn.html", dark=dark)
    shown = [each.get_attribute("src") for each in tab.page.locator("article img").all() if each.is_visible()]
    names = {Path(each).name for each in shown}
    forms = (
        {"playground-search.png", "playground-users.png"},
        {"playground-search-dark.png", "playground-users-dark.png"},
    )
    assert forms[dark] <= names
    assert forms[not dark].isdisjoint(names)


def test_links_lead_to_places_that_exist(site, visit):
    """Pages and anchors; Sphinx has checked those that we wrote, not those that it or the theme made."""
    tab, wanted, places = visit(), {}, set()
    for page in (*PAGES, "genindex.html", "py-modindex.html", "search.html"):
        tab.page.goto(f"{site.as_uri()}/{page}")
        wanted.update(dict.fromkeys(links(tab.page, "a[href]"), page))
        ids = tab.page.eval_on_selector_all("[id]", "found => found.map(each => each.id)")
        places |= {f"{site.as_uri()}/{page}", *(f"{site.as_uri()}/{page}#{each}" for each in ids)}
    inside = {link: page for link, page in wanted.items() if link.startswith(f"{site.as_uri()}/")}
    lost = {link: page for link, page in inside.items() if not leads(link, places)}
    assert lost == {}


def leads(link: str, places: set[str]) -> bool:
    """Whether a link leads to a place on a page that was looked at, or to another file of the site, such as a source."""
    link = unquote(link).removesuffix("#")
    path = Path(urlsplit(link).path)
    return link in places or (("_modules" in path.parts or path.suffix != ".html") and path.is_file())


def test_pictures_of_the_gallery_stand_side_by_side(visit):
    first, second = visit("gallery/index.html").page.locator(".gallery .picture").all()[:2]
    assert first.bounding_box()["y"] == second.bounding_box()["y"]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_search_finds_pages_without_a_server(visit, width):
    tab = visit(width=width)
    if width < 1000:
        tab.page.locator("label.mobile-header, .mobile-header label[for=__navigation]").first.click()
    tab.page.fill("input.sidebar-search", "interleaving")
    tab.page.press("input.sidebar-search", "Enter")
    found = tab.page.locator("ul.search a", has_text="Comparing rankers on live clicks")
    found.first.click()
    tab.page.wait_for_url("**/interleaving.html*")
    assert tab.text("h1").startswith("Comparing rankers on live clicks")


def test_a_search_for_nothing_says_so(visit):
    tab = visit("search.html?q=qwertzuiop")
    tab.page.get_by_text("did not match any documents").wait_for()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_told_from_what_is_behind_it(visit, dark):
    """The colours of text and of code follow the system's setting."""
    tab = visit(dark=dark)
    for selector in ("article p", "article pre", ".sidebar-tree a"):
        text, behind = tab.page.locator(selector).first.evaluate(COLOURS)
        assert contrast(text, behind) > 4.5, selector
        assert (lightness(text) > lightness(behind)) is dark, selector


#: The colour of an element's text, and the first colour behind it that is not transparent.
COLOURS = """element => {
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
    let behind = element;
    while (behind.parentElement && numbers(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
    return [numbers(getComputedStyle(element).color), numbers(getComputedStyle(behind).backgroundColor)];
}"""


def lightness(colour: list[float]) -> float:
    """Return the relative luminance of a colour, as WCAG defines it."""
    linear = [each / 3294.6 if each <= 10.0 else ((each / 255 + 0.055) / 1.055) ** 2.4 for each in colour[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[float], other: list[float]) -> float:
    """Return the contrast of two colours: 1 for equal ones, 21 for black and white."""
    low, high = sorted((lightness(one), lightness(other)))
    return (high + 0.05) / (low + 0.05)
