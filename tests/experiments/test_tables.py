"""Tables as text: right in each format, whatever the names contain."""

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from duelrank.experiments import performance_table, summarise
from duelrank.experiments.tables import (
    Cell,
    Column,
    Row,
    Table,
    to_csv,
    to_html,
    to_latex,
    to_markdown,
    to_terminal,
)

HOSTILE = "a_b & 50% #1 {x} ~^\\ <b>|$`*` \"q\" 'r'"
BASE = Row("mgd", (Cell("689.1", "(14.6)"), Cell(), Cell("–"), Cell()), "perfect", "mgd")
PROJECTED = Row(
    "MGD-DSP",
    (Cell("757.3", "(16.2)", "strong"), Cell("+9.9%‡", "", "up"), Cell("1.0"), Cell("−5.0%†", "", "down")),
    "perfect",
    "mgd",
)
COLUMNS = tuple(Column(head, dataset) for dataset in ("MQ2007", "mq2008") for head in ("mean (sd)", "change"))
TABLE = Table(
    "online", "Online nDCG@10", COLUMNS, (BASE, PROJECTED), ("A note.",), "algorithm", "user", (("MGD-DSP", "mgd-dsp"),)
)
PLAIN = Table("plain", "Plain", (Column("a"), Column("b")), (Row("x", (Cell("1"), Cell("2"))),))


def named(name):
    return replace(TABLE, rows=(replace(BASE, name=name), PROJECTED))


class TestMarkdown:
    def test_the_form(self):
        lines = to_markdown(TABLE).splitlines()
        assert lines[0] == "| user | algorithm | MQ2007: mean (sd) | change | mq2008: mean (sd) | change |"
        assert lines[1] == "| --- | --- | ---: | ---: | ---: | ---: |"
        assert lines[2] == "| perfect | mgd | 689.1 (14.6) |  | – |  |"
        assert lines[3] == "|  | MGD-DSP | **757.3** (16.2) | +9.9%‡ | 1.0 | −5.0%† |"
        assert lines[5] == "A note."
        assert lines[-1] == "- MGD-DSP: `mgd-dsp`"
        assert str(TABLE) == to_markdown(TABLE)

    def test_without_sections_groups_notes_or_recipes(self):
        assert to_markdown(PLAIN) == "| algorithm | a | b |\n| --- | ---: | ---: |\n| x | 1 | 2 |\n"

    def test_names_do_not_break_the_table(self):
        lines = to_markdown(named(HOSTILE)).splitlines()
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in lines[:4]}
        assert bars == {7}
        assert "<b>" not in lines[2].replace("\\<", "")

    def test_a_recipe_with_backticks_stays_code(self):
        assert "- X: ``` x``y ```" in to_markdown(replace(TABLE, recipes=(("X", "x``y"),)))


class TestCsv:
    def test_a_line_per_cell_with_numbers_in_full(self, frame):
        made = performance_table(summarise(frame(), "offline"), {"mgd-dsp": HOSTILE})
        lines = list(csv.DictReader(io.StringIO(to_csv(made))))
        records = made.records()
        assert len(lines) == len(records) == 6
        for line, record in zip(lines, records, strict=True):
            assert {name: "" if value is None else str(value) for name, value in record.items()} == line
            assert float(line["mean"]) == record["mean"]


class TestLatex:
    def test_the_form(self):
        text = to_latex(TABLE)
        assert r"&  & \multicolumn{2}{c}{\textbf{MQ2007}} & \multicolumn{2}{c}{\textbf{mq2008}} \\" in text
        assert r"\multirow{2}{*}{perfect} & mgd & 689.1 {\tiny (14.6)} &  & -- &  \\" in text
        assert (
            r"& MGD-DSP & \textbf{757.3} {\tiny (16.2)} & +9.9\%$^{\ddagger}$ & 1.0 & $-$5.0\%$^{\dagger}$ \\" in text
        )
        assert r"\texttt{mgd-dsp}" in text
        assert text.index(r"\caption") < text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")

    def test_families_are_set_apart(self):
        rows = (BASE, PROJECTED, replace(BASE, name="dbgd", family="dbgd"))
        assert to_latex(replace(TABLE, rows=rows)).count(r"\cmidrule(lr){2-6}") == 1

    def test_everything_is_balanced_and_escaped(self):
        text = to_latex(named(HOSTILE))
        bare = re.sub(r"\\[\\&%$#_{}]", "", text)  # without what is escaped
        assert bare.count("{") == bare.count("}")
        assert bare.count("$") % 2 == 0
        assert sorted(re.findall(r"\\begin\{(\S+?)\}", text)) == sorted(re.findall(r"\\end\{(\S+?)\}", text))
        assert not re.search(r"[#_|<>]", bare)
        rows = [line for line in bare.splitlines() if " & " in line and "multicolumn" not in line]
        assert {line.count("&") for line in rows} == {5}

    @pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
    @pytest.mark.slow
    def test_it_compiles(self, tmp_path):
        packages = r"\usepackage[T1]{fontenc}\usepackage{textcomp,booktabs,multirow}"
        body = to_latex(named(HOSTILE)) + to_latex(PLAIN)
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
        read = Cells(to_html(TABLE))
        assert read.rows == [5, 4, 5, 5, 5]  # groups, heads (the first column is the first row's), user, two algorithms
        assert read.headers == ["col", *["colgroup"] * 2, *["col"] * 4, "rowgroup", "row", "row"]
        assert Cells(to_html(PLAIN)).rows == [3, 3]

    def test_the_form(self):
        text = to_html(TABLE)
        assert "<td><strong>757.3</strong> <small>(16.2)</small></td>" in text
        assert '<td class="up">+9.9%‡</td>' in text
        assert '<td class="down">−5.0%†</td>' in text
        assert "<caption><strong>Online nDCG@10.</strong> A note.</caption>" in text
        assert TABLE._repr_html_() == text

    def test_all_texts_are_escaped(self):
        hostile = "<script>alert('x')</script>"
        cell = Cell(hostile, hostile, "strong")
        made = Table(
            hostile, hostile, (Column(hostile, hostile),), (Row(hostile, (cell,), hostile),), (hostile,), hostile
        )
        text = to_html(made)
        assert "<script" not in text
        assert (
            text.count("&lt;script&gt;") == 10
        )  # title twice, note, row head, group, head, section, name, text, detail
        Cells(text)


class TestTerminal:
    def lines(self, table, width):
        console = Console(width=width, color_system=None)
        with console.capture() as capture:
            console.print(to_terminal(table, width))
        return capture.get().splitlines()

    @pytest.mark.parametrize("width", [40, 60, 80, 120])
    def test_nothing_is_lost_however_narrow(self, frame, width):
        runs = frame(algorithms=("mgd", "mgd-dsp", "dbgd"), datasets=("mq2007", "mq2008", "mslr-web10k"))
        table = performance_table(summarise(runs, "online"))
        lines = self.lines(table, width)
        text = " ".join(lines)
        assert max(map(len, lines)) <= width
        assert "…" not in text
        blocks = sum(line.split()[:2] in (["algorithm", "mean"], ["algorithm", "change"]) for line in lines)
        assert sum(line.split()[:1] == ["mgd-dsp"] for line in lines) == 2 * blocks  # in each, with both users
        for row in table.rows:
            for cell in row.cells:
                assert f"{cell.text} {cell.detail}".strip() in text
        assert (blocks == 1) == (width == 120)

    def test_long_names_take_several_lines(self):
        name = "mgd(n_candidates=49, learning_rate=0.03, initial='random')"
        lines = self.lines(named(name), 60)
        start = next(number for number, line in enumerate(lines) if line.strip().startswith("mgd("))
        found = "".join(line[:21].strip() for line in lines[start : start + 4]).replace(" ", "")
        assert name.replace(" ", "") in found
        assert max(map(len, lines)) <= 60

    def test_the_best_has_a_star_which_the_notes_explain(self):
        table = replace(TABLE, notes=("Bold: the best.",))
        text = " ".join(self.lines(table, 100))
        assert "*757.3 (16.2)" in text
        assert "*: the best." in text

    @pytest.mark.parametrize(("width", "shown"), [(120, {"p", "µs"}), (80, {"p"}), (62, set()), (40, {"p", "µs"})])
    def test_spare_columns_give_way_before_a_table_is_split(self, frame, width, shown):
        runs = frame(algorithms=("mgd", "mgd-dsp"), n=3)
        lines = self.lines(
            performance_table([summarise(runs, each) for each in ("online", "offline")], detailed=True), width
        )
        heads = [line.split() for line in lines if line.split()[:1] == ["algorithm"]]
        assert (len(heads) == 1) == (width > 40)  # 40 columns are too few for both measures, with or without p
        assert {"p", "µs"} & {word for words in heads for word in words} == shown
        text = " ".join(" ".join(lines).split())
        assert ("µs: microseconds" in text) == ("µs" in shown)
        assert ("A wider terminal also shows" in text) == (shown != {"p", "µs"})
