"""The report: one file that needs nothing else, whatever the texts in it are."""

import re
from functools import partial
from html.parser import HTMLParser

import pytest

from duelrank import parse
from duelrank.core.errors import StorageFailure
from duelrank.experiments import Picture, Report, Section
from duelrank.experiments.figures import learning_curves
from duelrank.experiments.report import QUESTIONS, file_stem

HOSTILE = "<script>alert('x')</script> & \"quoted\" <img src=http://example.org/x>"
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """A page's tags, ids and references, with every tag closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.references, self.text = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        self.note(attrs)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.note(attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def note(self, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "data", "srcset", "action"):
                self.references.append(value)
            self.references += re.findall(r"url\((.*?)\)", value or "")


@pytest.fixture(scope="module")
def sections(frame):
    runs = frame(n=2)
    pictures = [Picture(f"curves {n}", learning_curves(runs), 'Curves, with "quotes" & <tags>.') for n in range(3)]
    tables = (runs.table(),)
    return (
        Section("First", QUESTIONS["Q1"], "One.\n\nTwo.", tables, tuple(pictures[:2]), (("MGD", parse("mgd")),)),
        Section("Second", QUESTIONS["Q3"], "", tables, (pictures[2],), (("MGD", parse("mgd")),)),
    )


def page_of(sections, title="A title", made=None):
    return Page(Report(title, tuple(sections), made or {}).to_html())


@pytest.fixture(scope="module")
def page(sections):
    return page_of(sections, made={"Seeds": "1"})


def test_tables_figures_and_one_page_that_needs_nothing_else(tmp_path, sections):
    path = Report("A title", sections, {"Seeds": "1–3"}).write(tmp_path / "out")
    found = {str(file.relative_to(path.parent)) for file in path.parent.rglob("*") if file.is_file()}
    assert found == {
        "report.html",
        *(f"online-offline.{ending}" for ending in ("md", "csv", "tex")),  # the same table twice is one file
        *(f"figures/curves-{n}.{ending}" for n in range(3) for ending in ("svg", "png")),
    }
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert all(reference.startswith("#") for reference in page.references)
    assert not re.search(r"@import|https?:", text)
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(tag for tag, _ in page.tags)
    shown = " ".join(page.text)
    for expected in ("A title", QUESTIONS["Q1"], QUESTIONS["Q3"], "One.", "Two.", "1–3"):
        assert expected in shown


def test_tables_of_the_same_name_have_files_of_their_own(frame):
    tables = frame().table(), frame().table(baseline="dbgd")
    report = Report("x", (Section("x", tables=tables),), {})
    assert list(report.tables()) == ["online-offline", "online-offline-2"]


def test_the_report_opens_with_the_answer_of_its_first_section(frame):
    first, second = Section("x", answer="mgd is the best.\n\nIts weights are not."), Section("y", answer=HOSTILE)
    page = page_of([first, second])
    answers = [number for number, (tag, attrs) in enumerate(page.tags) if attrs.get("class") == "answer"]
    heads = [number for number, (tag, _) in enumerate(page.tags) if tag in ("h1", "h2")]
    assert heads[0] < answers[0] < answers[1] < heads[1] < heads[2] < answers[2]  # h1, the answer, x, y, its answer
    assert "".join(page.text).count("mgd is the best.") == 1
    assert ("script", {}) not in page.tags


def test_a_picture_has_a_form_for_wide_screens_and_one_for_phones(frame):
    picture = Picture.drawn("curves", "Curves.", partial(learning_curves, frame(n=2)))
    wide, narrow = picture.figure, picture.narrow
    assert len(wide.axes) == len(narrow.axes) == 2
    assert narrow.get_figwidth() < 5 < wide.get_figwidth()
    lefts = {panel.get_subplotspec().colspan.start for panel in narrow.axes}
    assert lefts == {0}
    assert all(panel.get_title() and panel.get_ylabel() for panel in narrow.axes)
    page = page_of([Section("x", figures=(picture,))])
    assert [attrs["class"].split()[-1] for _, attrs in page.tags if attrs.get("role") == "region"] == ["wide", "narrow"]
    assert len(page.ids) == len(set(page.ids))


def test_the_report_opens_with_a_picture_and_shows_each_once(page):
    order = [tag for tag, _ in page.tags if tag in ("h1", "svg", "h2")]
    assert order[:3] == ["h1", "svg", "h2"]
    assert order.count("svg") == 3


def test_recipes_show_all_parameters_once(page):
    text = "".join(page.text)
    assert text.count("exploration = UniformSphere(n_candidates=9)") == 1
    assert "step = Step(learning_rate=0.01" in text


def test_references_lead_somewhere_and_ids_are_unique(page):
    assert len(page.ids) == len(set(page.ids))
    assert {reference.removeprefix("#") for reference in page.references} <= set(page.ids)
    labels = {attrs["aria-labelledby"] for _, attrs in page.tags if "aria-labelledby" in attrs}
    assert labels <= set(page.ids)


def test_figures_are_described_and_styles_stay_outside(sections, page):
    drawings = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert all(attrs["role"] == "img" and attrs["aria-label"] == sections[0].figures[0].caption for attrs in drawings)
    assert sum(tag == "figcaption" for tag, _ in page.tags) == 3
    assert sum(tag == "style" for tag, _ in page.tags) == 1
    assert all("width" not in attrs for attrs in drawings)


def test_hostile_texts_are_only_texts():
    section = Section(HOSTILE, HOSTILE, HOSTILE, recipes=((HOSTILE, parse("mgd")),))
    page = page_of([section, section], HOSTILE, {HOSTILE: HOSTILE})
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.tags)
    assert (
        "".join(page.text).count(HOSTILE) == 13
    )  # two titles, two links, twice three texts, a recipe, two of provenance


def test_a_hostile_recipe_in_table_and_figure(frame):
    runs = frame(algorithms=("mgd", HOSTILE), n=2)
    picture = Picture(HOSTILE, learning_curves(runs), HOSTILE)
    page = page_of([Section("x", tables=(runs.table(),), figures=(picture,))])
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.tags)
    assert "/" not in file_stem(picture.name)


def test_an_old_report_is_replaced_or_kept(tmp_path):
    Report("old", (), {}).write(tmp_path)
    assert "new" in Report("new", (), {}).write(tmp_path).read_text(encoding="utf-8")
    blocked = tmp_path / "blocked"
    (blocked / "report.html").mkdir(parents=True)
    with pytest.raises(StorageFailure):
        Report("x", (), {}).write(blocked)
    assert [path.name for path in blocked.iterdir()] == ["report.html"]
