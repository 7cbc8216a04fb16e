"""Tables as text: right in each format, whatever the names contain."""

import csv
import io
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from duelrank.experiments.comparison import Spread
from duelrank.experiments.frame import Frame
from duelrank.experiments.published import beside_published
from duelrank.experiments.rendering import to_csv, to_html, to_latex, to_markdown
from duelrank.experiments.rendering.words import change, mark, number
from duelrank.experiments.tables import Cell, Table, TableRow, table

HOSTILE = "a_b & 50% #1 {x} ~^\\ <b>|$`*` \"q\" 'r'"


def cell(mean, std=2.0, **other):
    return Cell(Spread(mean, std), 15, **other)


BASE = TableRow("perfect", "mgd", "", (cell(689.1, 14.6), None))
PROJECTED = TableRow(
    "perfect",
    "mgd-dsp",
    "mgd",
    (cell(757.3, 16.2, change=0.0990, p=0.001, best=True), cell(1.0, None, change=-0.05, p=0.03)),
)
TABLE = Table("online", "nDCG@10", ("mq2007", "mq2008"), (BASE, PROJECTED))
LABELS = {"mgd-dsp": "MGD-DSP", "mq2007": "MQ2007"}


@pytest.fixture
def beside(run):
    rows = [
        run("mgd", fold=i, online=value, dataset=d)
        for d in ("mq2007", "mq2008")
        for i, value in enumerate((690.0, 705.0))
    ]
    return beside_published(Frame.of(rows), "online", {"mgd": "mgd"})


class TestWords:
    def test_numbers(self):
        assert number(757.25, 1) == "757.2"
        assert number(-1.23, 1, sign=True) == "−1.2"
        assert number(0.5, 1, sign=True) == "+0.5"
        assert number(-0.01, 1, sign=True) == number(0.01, 1, sign=True) == "0.0"
        assert number(float("nan"), 1) == "–"

    def test_marks(self):
        assert [mark(p) for p in (None, 0.2, 0.05, 0.049, 0.01, 0.009)] == ["", "", "", "†", "†", "‡"]

    def test_changes(self):
        assert [change(found) for found in PROJECTED.cells] == ["+9.9%‡", "−5.0%†"]
        assert change(BASE.cells[0]) == ""


class TestMarkdown:
    def test_the_paper_s_form(self):
        lines = to_markdown(TABLE, LABELS).splitlines()
        assert lines[0] == "| user | algorithm | MQ2007 | mq2008 |"
        assert lines[2] == "| Perfect | mgd | 689.1 (14.6) |  |"
        assert lines[3] == "|  | MGD-DSP | **757.3** (16.2) (+9.9%‡) | 1.0 (−5.0%†) |"
        assert lines[-1] == "- MGD-DSP: `mgd-dsp`"

    def test_decimals_follow_the_measure_unless_asked(self):
        offline = Table("offline", "nDCG@10", ("mq2007", "mq2008"), TABLE.rows)
        assert "689.100 (14.600)" in to_markdown(offline)
        assert "689 (15)" in to_markdown(TABLE, digits=0)

    def test_names_do_not_break_the_table(self):
        lines = to_markdown(TABLE, {"mgd": HOSTILE}).splitlines()
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in lines[:4]}
        assert bars == {5}
        assert "<b>" not in lines[2].replace("\\<", "")

    def test_a_recipe_with_backticks_stays_code(self):
        row = TableRow("perfect", "x``y", "", (cell(1.0), cell(1.0)))
        assert "- X: ``` x``y ```" in to_markdown(Table("online", "nDCG@10", TABLE.datasets, (row,)), {"x``y": "X"})

    def test_the_explanation_says_what_was_tested(self):
        text = to_markdown(TABLE)
        assert "of 15 runs" in text
        assert "for the 2 tests of this table" in text
        alone = to_markdown(Table("online", "nDCG@10", TABLE.datasets, (BASE,)))
        assert "t-test" not in alone
        assert "percent" not in alone

    def test_beside(self, beside):
        lines = to_markdown(beside, LABELS).splitlines()
        assert lines[0] == "| user | algorithm | MQ2007 | published | SE | mq2008 | published | SE |"
        near, far = (row.errors for row in beside.rows[0].cells)
        assert abs(near) < 2 < abs(far)
        assert lines[2] == (
            f"| Perfect | mgd | 697.5 (10.6) | 689.1 (14.6) | {near:+.1f} "
            f"| 697.5 (10.6) | 859.4 (38.1) | **{far:+.1f}** |".replace("-", "−")
        )
        assert "1 of 2 cells are within 2 standard errors" in lines[-1]


class TestCsv:
    def read(self, text):
        return list(csv.DictReader(io.StringIO(text)))

    def test_numbers_are_whole(self, frame):
        made = table(frame(), "offline")
        lines = self.read(to_csv(made, {"mgd-dsp": HOSTILE}))
        cells = [(row, found) for row in made.rows for found in row.cells]
        for line, (row, found) in zip(lines, cells, strict=True):
            assert (line["user"], line["algorithm"], line["base"]) == (row.user, row.algorithm, row.base)
            assert float(line["mean"]) == found.value.mean
            assert line["change"] == ("" if found.change is None else repr(found.change))
            assert line["p"] == ("" if found.p is None else repr(found.p))
        assert {line["label"] for line in lines} == {"mgd", HOSTILE, "dbgd"}

    def test_beside(self, beside):
        first, second = self.read(to_csv(beside))
        assert (first["dataset"], second["dataset"]) == ("mq2007", "mq2008")
        assert float(first["errors"]) == beside.rows[0].cells[0].errors
        assert (first["published"], first["published_mean"], first["published_std"]) == ("mgd", "689.1", "14.6")


class TestLatex:
    def test_the_paper_s_form(self):
        text = to_latex(TABLE, LABELS)
        assert r"\multirow{2}{*}{Perfect} & mgd & 689.1 {\tiny (14.6)} & -- \\" in text
        assert (
            r"& MGD-DSP & \textbf{757.3} {\tiny (16.2)} (+9.9\%$^{\ddagger}$) & 1.0 ($-$5.0\%$^{\dagger}$) \\" in text
        )
        assert r"\texttt{mgd-dsp}" in text
        assert text.index(r"\caption") < text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")

    def test_families_are_set_apart(self):
        rows = (BASE, PROJECTED, TableRow("perfect", "dbgd", "", BASE.cells))
        assert to_latex(Table("online", "nDCG@10", TABLE.datasets, rows)).count(r"\cmidrule(lr){2-4}") == 1

    def test_everything_is_balanced_and_escaped(self):
        text = to_latex(TABLE, {"mgd": HOSTILE, "mgd-dsp": "x"})
        bare = re.sub(r"\\[\\&%$#_{}]", "", text)  # without what is escaped
        assert bare.count("{") == bare.count("}")
        assert bare.count("$") % 2 == 0
        assert sorted(re.findall(r"\\begin\{(\S+?)\}", text)) == sorted(re.findall(r"\\end\{(\S+?)\}", text))
        assert not re.search(r"[#_|<>]", bare)
        assert {line.count("&") for line in bare.splitlines() if line.endswith(r" \\") or " & " in line} == {3}

    @pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
    @pytest.mark.slow
    def test_it_compiles(self, tmp_path):
        packages = r"\usepackage[T1]{fontenc}\usepackage{textcomp,booktabs,multirow}"
        body = to_latex(TABLE, {"mgd": HOSTILE, "mgd-dsp": "x"}) + to_latex(TABLE, {"mgd-dsp": HOSTILE})
        source = rf"\documentclass{{article}}{packages}\begin{{document}}{body}\end{{document}}"
        (tmp_path / "t.tex").write_text(source)
        command = ["pdflatex", "-draftmode", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]


class Cells(HTMLParser):
    """The tags of a table, and how many columns each of its rows spans."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.headers = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        given = dict(attrs)
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += int(given.get("colspan", 1))
        if tag == "th":
            self.headers.append(given.get("scope"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class TestHtml:
    def test_rows_are_of_one_width_and_headers_have_a_scope(self):
        read = Cells(to_html(TABLE, LABELS))
        assert read.rows == [3, 3, 3, 3]  # the head, the user, two algorithms
        assert read.headers == ["col", "col", "col", "rowgroup", "row", "row"]

    def test_beside(self, beside):
        text = to_html(beside, LABELS)
        read = Cells(text)
        assert read.rows == [7, 6, 7, 7]  # of the second row of the head, one column is the first row's
        assert None not in read.headers
        assert re.search(r"<td><strong>−\d", text)

    def test_the_paper_s_form(self):
        text = to_html(TABLE, LABELS)
        assert '<td><strong>757.3</strong> <small>(16.2)</small> <span class="change up">+9.9%‡</span></td>' in text
        assert '<span class="change down">−5.0%†</span>' in text
        assert "<caption><strong>Online nDCG@10.</strong>" in text

    def test_names_are_escaped(self):
        text = to_html(TABLE, {"mgd": "<script>alert('x')</script>", "mq2007": "<i>", "perfect": "<b>"})
        assert not re.search(r"<(script|i|b)\b", text)
        assert "&lt;script&gt;" in text
        Cells(text)
