"""No test reads or writes the user's home, whenever it asks for one."""

import os
from pathlib import Path

import pytest

from duelrank.core.home import home

KEPT = Path(os.environ["DUELRANK_TESTS_KEEP"])
COLLECTED = home()


@pytest.fixture(scope="session")
def of_the_session() -> Path:
    return home()


def test_collecting_tests_fixtures_of_a_session_and_tests_have_homes_of_their_own(of_the_session):
    assert KEPT not in (COLLECTED, of_the_session, home())
    assert home() != of_the_session
