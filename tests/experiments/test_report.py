"""The report: one file that needs nothing else, whatever the texts in it are."""

import re
from html.parser import HTMLParser

import pytest

from duelrank.errors import StorageFailure
from duelrank.experiments.facts import duration, facts_of
from duelrank.experiments.figures import run_curves, to_svg
from duelrank.experiments.rendering import to_html
from duelrank.experiments.report import QUESTIONS, Picture, Section, write_report
from duelrank.experiments.tables import table

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


@pytest.fixture
def sections(frame):
    runs = frame(n=2)
    picture = Picture(to_svg(run_curves(runs)), 'Curves, with "quotes" & <tags>.')
    return [
        Section("First", QUESTIONS["Q1"], "One.\n\nTwo.", (to_html(table(runs, "online")),), (picture, picture)),
        Section("Second", QUESTIONS["Q3"], recipes=(("MGD", "mgd(n_candidates=49)"),), figures=(picture,)),
    ]


def test_everything_is_in_one_file(tmp_path, sections):
    path = write_report(tmp_path / "out", "A title", sections, {"Seeds": "1–3"})
    assert [found.name for found in path.parent.iterdir()] == ["report.html"]
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert all(reference.startswith("#") for reference in page.references)
    assert not re.search(r"@import|https?:", text)
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(tag for tag, _ in page.tags)
    shown = " ".join(page.text)
    for expected in ("A title", QUESTIONS["Q1"], QUESTIONS["Q3"], "One.", "Two.", "mgd(n_candidates=49)", "1–3"):
        assert expected in shown


def test_references_lead_somewhere_and_ids_are_unique(tmp_path, sections):
    page = Page(write_report(tmp_path, "A title", sections, {"Seeds": "1"}).read_text(encoding="utf-8"))
    assert len(page.ids) == len(set(page.ids))
    assert {reference.removeprefix("#") for reference in page.references} <= set(page.ids)
    labels = {attrs["aria-labelledby"] for _, attrs in page.tags if "aria-labelledby" in attrs}
    assert labels <= set(page.ids)


def test_figures_are_described_and_styles_stay_outside(tmp_path, sections):
    page = Page(write_report(tmp_path, "A title", sections, {}).read_text(encoding="utf-8"))
    drawings = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert len(drawings) == 3
    assert all(attrs["role"] == "img" and attrs["aria-label"] == sections[0].figures[0].caption for attrs in drawings)
    assert sum(tag == "figcaption" for tag, _ in page.tags) == 3
    assert sum(tag == "style" for tag, _ in page.tags) == 1
    assert all("width" not in attrs for attrs in drawings)


def test_hostile_texts_are_only_texts(tmp_path):
    section = Section(HOSTILE, HOSTILE, HOSTILE, recipes=((HOSTILE, HOSTILE),))
    path = write_report(tmp_path, HOSTILE, [section, section], {HOSTILE: HOSTILE})
    page = Page(path.read_text(encoding="utf-8"))
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.tags)
    assert "".join(page.text).count(HOSTILE) == 16  # two titles, two links, twice five texts, two of a fact


def test_a_hostile_recipe_in_table_and_figure(tmp_path, frame):
    runs = frame(algorithms=("mgd", HOSTILE), n=2)
    picture = Picture(to_svg(run_curves(runs)), HOSTILE)
    section = Section("x", tables=(to_html(table(runs, "online")),), figures=(picture,))
    page = Page(write_report(tmp_path, "x", [section], {}).read_text(encoding="utf-8"))
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.tags)


def test_an_old_report_is_replaced_or_kept(tmp_path, sections):
    write_report(tmp_path, "old", [], {})
    assert "new" in write_report(tmp_path, "new", [], {}).read_text(encoding="utf-8")
    blocked = tmp_path / "blocked"
    (blocked / "report.html").mkdir(parents=True)
    with pytest.raises(StorageFailure):
        write_report(blocked, "x", [], {})
    assert [path.name for path in blocked.iterdir()] == ["report.html"]


def test_the_paper_s_questions():
    assert list(QUESTIONS) == ["Q1", "Q2", "Q3"]


class TestFacts:
    def test_what_the_runs_say(self, frame):
        facts = facts_of(frame(), wall_seconds=75.0, command="duelrank suite")
        assert facts["Runs"] == "30"
        assert (facts["Folds"], facts["Seeds"], facts["Impressions per run"]) == ("1–5", "1", "100")
        assert facts["Time in runs"].startswith("45.0 s")  # 30 runs of 1 s, and 0.5 s of evaluation
        assert facts["Wall time"] == "1 min 15 s"
        assert facts["Command"] == "duelrank suite"
        assert re.match(r"Python \d.*duelrank \d.*numpy \d.*numba \d", facts["Versions"])
        assert re.search(r"\d+ cores?, \w", facts["Machine"])

    def test_what_is_not_known_is_left_out(self, frame):
        assert {"Wall time", "Command"}.isdisjoint(facts_of(frame()))

    def test_durations(self):
        assert [duration(s) for s in (0.04, 59.94, 60, 3599, 3600, 90_061)] == [
            "0.0 s",
            "59.9 s",
            "1 min 0 s",
            "59 min 59 s",
            "1 h 0 min",
            "25 h 1 min",
        ]
