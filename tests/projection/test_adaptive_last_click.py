"""Adaptive k: it starts as LastClick, and goes where users go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.errors import InvalidRecipe
from duelrank.core.types import Feedback, Impression, Query
from duelrank.projection import AdaptiveLastClick, LastClick

FLAGS = st.lists(st.booleans(), max_size=12)
LISTS = st.lists(st.lists(st.booleans(), min_size=1, max_size=12), max_size=30)
N = 10


def shown(n: int) -> Impression:
    return Impression(Query("q", np.ones((max(n, 1), 2))), np.arange(n))


def weights(examination, flags, memory=None) -> list[float]:
    return examination.weights(memory or {}, shown(len(flags)), Feedback(flags)).tolist()


def after(examination, lists, memory=None):
    memory = memory or {}
    for flags in lists:
        memory = examination.observe(memory, shown(len(flags)), Feedback(flags))
    return memory


def users(n_lists, attraction, after_click, seed=0):
    """Clicks of users who stop only after a click."""
    rng = np.random.default_rng(seed)
    for _ in range(n_lists):
        clicks = np.zeros(N, bool)
        for position in range(N):
            clicks[position] = rng.random() < attraction
            if clicks[position] and rng.random() >= after_click:
                break
        yield clicks


def beyond(examination, memory) -> int:
    """How far it sees below a click at the top."""
    return int(sum(weights(examination, [True] + [False] * (N - 1), memory))) - 1


@given(FLAGS, st.integers(0, 15), st.floats(0.01, 1))
def test_it_starts_as_last_click(flags, k, level):
    assert weights(AdaptiveLastClick(level=level, beyond=k), flags) == weights(LastClick(k), flags)


@given(LISTS, FLAGS, st.floats(0, 1), st.floats(0, 1))
def test_it_sees_the_top_of_the_list_down_to_the_last_click_at_least(lists, flags, level, forgetting):
    examination = AdaptiveLastClick(level=level, forgetting=forgetting)
    seen = weights(examination, flags, after(examination, lists))
    last = max((position for position, flag in enumerate(flags, 1) if flag), default=0)
    assert set(seen) <= {0.0, 1.0}
    assert seen == sorted(seen, reverse=True)
    assert sum(seen) >= last
    assert any(flags) or not any(seen)


@given(LISTS, FLAGS, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_level_never_sees_more(lists, flags, one, other):
    memory = after(AdaptiveLastClick(), lists)
    low, high = (sum(weights(AdaptiveLastClick(level=level), flags, memory)) for level in sorted((one, other)))
    assert low >= high


@pytest.mark.parametrize("attraction", [0.2, 0.5])
def test_users_who_stop_after_a_click_make_k_small(attraction):
    examination = AdaptiveLastClick()
    assert beyond(examination, after(examination, users(1000, attraction, 0.0))) == 0


@pytest.mark.parametrize("attraction", [0.2, 0.5])
def test_users_who_read_everything_make_k_large(attraction):
    """All but the farthest: with an attraction of 0.5 a gap of nine without a click comes once in five hundred clicks."""
    examination = AdaptiveLastClick()
    assert beyond(examination, after(examination, users(2000, attraction, 1.0))) >= 6


def test_the_level_is_a_probability():
    """Half of the users go on after a click: just below it, of those who did not click again, (1 − a)/(2 − a) have looked."""
    attraction, share = 0.3, (1 - 0.3) / (2 - 0.3)
    memory = after(AdaptiveLastClick(forgetting=1.0), users(4000, attraction, 0.5))
    assert beyond(AdaptiveLastClick(level=share - 0.1), memory) >= 1
    assert beyond(AdaptiveLastClick(level=share + 0.1), memory) == 0


def test_a_change_of_users_is_followed():
    examination = AdaptiveLastClick(forgetting=0.99)
    memory = after(examination, users(1000, 0.3, 1.0))
    assert beyond(examination, memory) >= 4
    assert beyond(examination, after(examination, users(1000, 0.3, 0.0, seed=1), memory)) == 0


@given(LISTS)
def test_memory_is_one_table(lists):
    memory = after(AdaptiveLastClick(), lists)
    assert set(memory) <= {"examination_gaps"}
    assert all(table.shape == (2, 31) for table in memory.values())


def test_bad_parameters_are_refused():
    with pytest.raises(InvalidRecipe, match="from 0 to 1"):
        AdaptiveLastClick(level=2.0)
