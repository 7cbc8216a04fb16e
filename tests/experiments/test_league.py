"""The league table: one line per algorithm, best online first, and the same numbers in every format."""

import csv

import pytest

from duelrank.errors import InvalidValue
from duelrank.experiments.frame import Frame
from duelrank.experiments.league import league
from duelrank.experiments.rendering import league_csv, league_html, league_markdown

USERS = ("perfect", "informational")


def runs(algorithm: str, online: float, offline: float, dataset: str = "mq2008", n: int = 2) -> list[dict[str, object]]:
    """Runs of an algorithm that is ten worse with the second user."""
    return [
        {
            "algorithm": algorithm, "dataset": dataset, "user": user, "fold": 1, "seed": seed, "metric": "nDCG@10", "split": "test",
            "impressions": 1000, "length": 10, "seconds": 0.05, "online": online - 10.0 * number + seed, "offline": offline,
        }
        for number, user in enumerate(USERS)
        for seed in range(n)
    ]  # fmt: skip


FRAME = Frame.of([*runs("mgd", 800.0, 0.6), *runs("pdgd", 900.0, 0.5), *runs("dbgd", 700.0, 0.4)])


def test_the_best_online_is_first_and_means_are_per_user():
    found = league(FRAME)
    assert [standing.algorithm for standing in found.standings] == ["pdgd", "mgd", "dbgd"]
    assert found.users == USERS
    assert [spread.mean for spread in found.standings[0].online] == [900.5, 890.5]
    assert found.standings[0].mean("online") == 895.5
    assert found.standings[0].microseconds == pytest.approx(50.0)
    assert found.best("offline", 0) == 0.6


def test_two_data_sets_or_uneven_runs_are_refused():
    for rows in ([*runs("mgd", 1, 1), *runs("mgd", 1, 1, "mq2007")], [*runs("mgd", 1, 1), *runs("dbgd", 1, 1, n=3)]):
        with pytest.raises(InvalidValue, match="over one data set, with as many runs"):
            league(Frame.of(rows))


def test_markdown_marks_the_best_of_each_column():
    text = league_markdown(league(FRAME), {"pdgd": "PDGD_1"})
    lines = text.splitlines()
    assert lines[0] == (
        "|  | algorithm | online perfect | online informational | offline perfect | offline informational |"
    )
    assert lines[2] == r"| 1 | PDGD\_1 | **900.5** | **890.5** | 0.500 | 0.500 |"
    assert lines[3] == "| 2 | mgd | 800.5 | 790.5 | **0.600** | **0.600** |"
    assert "mq2008: means of 2 runs" in text


def test_html_escapes_labels():
    assert "<td><strong>900.5</strong></td>" in league_html(league(FRAME), {"pdgd": "<b>"})
    assert "1. &lt;b&gt;" in league_html(league(FRAME), {"pdgd": "<b>"})


def test_csv_has_every_number():
    lines = list(csv.DictReader(league_csv(league(FRAME)).splitlines()))
    assert len(lines) == 3 * 2 * 2
    assert lines[0] == {
        "dataset": "mq2008", "metric": "nDCG@10", "algorithm": "pdgd", "user": "perfect", "measure": "online", "runs": "2",
        "mean": "900.5", "std": "0.7071067811865476", "microseconds": "50.0",
    }  # fmt: skip
