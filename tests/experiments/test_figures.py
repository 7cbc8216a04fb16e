"""Figures: what is drawn, not how its pixels look."""

from pathlib import Path

import pytest

from duelrank.errors import InvalidValue
from duelrank.experiments import Comparison, Curve, Row, Spread
from duelrank.experiments.figures import check_target, learning_curves

PAIRS = (("mgd", None), ("mgd-dsp", "mgd"), ("dbgd", None))


def comparison(users=("perfect", "informational")):
    value = Spread(0.5, None)
    rows = tuple(Row(name, user, base, 1, value, value, None, None, 1.0) for user in users for name, base in PAIRS)
    curves = tuple(
        Curve(name, user, base, (1, 10, 100), (0.1, 0.2 + i / 10, 0.5))
        for user in users
        for i, (name, base) in enumerate(PAIRS)
    )
    return Comparison("nDCG@10", rows, curves)


def test_a_panel_per_user_with_its_data():
    figure = learning_curves(comparison())
    assert [panel.get_title() for panel in figure.axes] == ["perfect", "informational"]
    for panel in figure.axes:
        assert panel.get_xscale() == "log"
        drawn = {line.get_label(): line.get_ydata().tolist() for line in panel.get_lines()}
        assert drawn == {"mgd": [0.1, 0.2, 0.5], "mgd-dsp": [0.1, pytest.approx(0.3), 0.5], "dbgd": [0.1, 0.4, 0.5]}
    assert figure.axes[0].get_ylabel() == "offline nDCG@10"


def test_families_share_a_colour_and_differ_in_grey():
    lines = {line.get_label(): line for line in learning_curves(comparison()).axes[0].get_lines()}
    assert lines["mgd"].get_color() == lines["mgd-dsp"].get_color() != lines["dbgd"].get_color()
    assert (lines["mgd"].get_linestyle(), lines["mgd-dsp"].get_linestyle()) == ("--", "-")
    assert lines["mgd"].get_marker() != lines["dbgd"].get_marker()
    assert lines["dbgd"].get_linestyle() == "-"  # dashed means: its projection is there too


def test_it_can_be_saved(tmp_path):
    target = tmp_path / "curves.png"
    learning_curves(comparison(("perfect",)), "a title").savefig(target)
    assert target.stat().st_size > 1_000


def test_unknown_endings_are_refused_before_work_is_done():
    check_target(Path("curves.pdf"))
    with pytest.raises(InvalidValue, match=r"\.png"):
        check_target(Path("curves.docx"))
