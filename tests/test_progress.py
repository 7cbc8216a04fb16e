"""Progress: a bar on terminals, a line now and then everywhere else."""

import io
import sys

import pytest
from rich.console import Console

from duelrank.core import progress


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_there_is_a_line_now_and_then(clock, capsys):
    with progress.count_bar("runs") as update:
        for done in range(11):
            update(20 + done, 60)
            clock[0] += 6.0
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "runs: 23 of 60, 10.0/min, about 4 min left",  # 3 of 40 in 18 s
        "runs: 26 of 60, 10.0/min, about 3 min left",
        "runs: 29 of 60, 10.0/min, about 3 min left",
    ]


def test_short_work_stays_silent(clock, capsys):
    with progress.count_bar("runs") as update:
        update(0, 2)
        clock[0] += 10.0
        update(1, 2)
        clock[0] += 100.0
        update(2, 2)  # results show the end
    assert capsys.readouterr().err == ""


def test_a_total_that_is_not_known(clock, capsys):
    with progress.bytes_bar("download") as update:
        update(0, None)
        clock[0] += 20.0
        update(40, None)
    assert capsys.readouterr().err == "download: 40, 2.0/s\n"


def test_a_terminal_has_a_bar(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(Console, "is_terminal", True)
    with progress.count_bar("runs") as update:
        update(1, 2)
    assert "1/2" in shown.getvalue()


def test_a_notebook_without_widgets_has_lines_on_stderr(clock, monkeypatch, capsys):
    """Not among its results, and a warning of rich's that there are no widgets is an error here."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    with progress.count_bar("runs") as update:
        clock[0] += 20.0
        update(40, 80)
    assert capsys.readouterr() == ("", "runs: 40 of 80, 2.0/s\n")
