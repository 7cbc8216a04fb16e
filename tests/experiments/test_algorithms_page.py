"""The page of algorithms says what the registry says, and the one in docs is not stale."""

from pathlib import Path

import pytest

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidValue
from duelrank.core.registry import aliases, classes
from duelrank.experiments.algorithms_page import LeagueResults, algorithms_page, read_league, sections
from duelrank.projection import DocumentSpace

DOCS = Path(__file__).parents[2] / "docs"
LEAGUE = """dataset,metric,runs,algorithm,user,measure,mean
mq2008,nDCG@10,15,mgd,perfect,online,812.34
mq2008,nDCG@10,15,mgd,perfect,offline,0.5
mq2008,nDCG@10,15,dbgd,perfect,online,900
"""


def test_every_algorithm_and_part_is_on_the_page():
    page = algorithms_page(LeagueResults({}))
    for name in aliases(Algorithm):
        assert f"`{name}`" in page
    for kind in ("exploration", "multileaver", "inference", "projection", "examination", "update"):
        for name, cls in classes().items():
            if cls.kind == kind:
                assert f"### {name}\n" in page


def test_numbers_are_those_of_the_league_and_order_the_page():
    lines = algorithms_page(read_league(LEAGUE)).splitlines()
    rows = [line for line in lines if line.startswith("| [`")]
    assert rows[0].startswith("| [`dbgd`](#dbgd)")
    assert rows[0].endswith("| 900.0 |  |")
    assert rows[1].endswith("| 812.3 | 0.500 |")


def test_docstrings_come_apart():
    said = sections(DocumentSpace)
    assert said["Summary"].startswith("Project the gradient onto the span")
    assert said["Description"].startswith("With an orthonormal basis")
    assert said["Parameters"].startswith("examination\n")
    assert "SIGIR 2019" in said["References"]


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "", LEAGUE.replace("900", "fast")])
def test_another_file_is_refused(text):
    with pytest.raises(InvalidValue, match="not the CSV file of a league table"):
        read_league(text)


def test_the_page_in_docs_is_not_stale():
    """To renew it: ``make docs``."""
    measured = read_league((DOCS / "league.csv").read_text())
    assert (DOCS / "algorithms.md").read_text() == algorithms_page(measured)


def test_the_page_in_docs_has_numbers_for_every_algorithm():
    measured = read_league((DOCS / "league.csv").read_text())
    assert len(measured.users) == 3
    wanted = {
        (name, user, measure)
        for name in aliases(Algorithm)
        for user in measured.users
        for measure in ("online", "offline")
    }
    assert wanted - set(measured.means) == set()
