"""One vote per user and day, in bounded memory."""

from __future__ import annotations

import pytest

from duelrank.core.errors import InvalidValue
from duelrank.guard import Voters
from duelrank.guard.voters import MOST_VOTERS

DAY = 86_400.0


def user(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_one_vote_per_day() -> None:
    voters = Voters()
    assert voters.admit(user(1), 10 * DAY)
    assert not voters.admit(user(1), 10 * DAY + 1)
    assert voters.admit(user(2), 11 * DAY - 1)
    assert not voters.admit(user(1), 11 * DAY - 1)
    assert voters.admit(user(1), 11 * DAY)
    assert voters.day == 11


def test_a_vote_that_arrives_late_is_of_the_present_day() -> None:
    """Else an old time would be a way to vote twice."""
    voters = Voters()
    assert voters.admit(user(1), 10 * DAY)
    assert not voters.admit(user(1), 9 * DAY)
    assert voters.admit(user(2), 9 * DAY)
    assert (voters.day, len(voters)) == (10, 2)


def test_a_new_day_forgets_the_last() -> None:
    voters = Voters()
    for number in range(50):
        voters.admit(user(number), DAY)
    voters.admit(user(0), 2 * DAY)
    assert len(voters) == 1


def test_what_is_remembered_is_bounded_and_the_first_are_forgotten_first() -> None:
    voters = Voters()
    for number in range(MOST_VOTERS + 10):
        assert voters.admit(user(number), DAY)
    assert len(voters) == MOST_VOTERS
    assert len(voters.hashes) == 8 * MOST_VOTERS
    assert not voters.admit(user(10), DAY)
    assert voters.admit(user(9), DAY)
    assert len(voters) == MOST_VOTERS


def test_stored_ones_go_on_as_if_nothing_had_happened() -> None:
    voters = Voters()
    for number in range(MOST_VOTERS):
        voters.admit(user(number), 3 * DAY)
    restored = Voters(voters.day, voters.hashes)
    asked = [(user(number), 3 * DAY) for number in (5, MOST_VOTERS, 0, 1, 0)] + [(user(7), 4 * DAY)]
    assert [restored.admit(*each) for each in asked] == [voters.admit(*each) for each in asked]
    assert (restored.day, restored.hashes) == (voters.day, voters.hashes)


def test_damaged_ones_are_refused() -> None:
    with pytest.raises(InvalidValue, match="8 bytes each"):
        Voters(1, b"1234567")
