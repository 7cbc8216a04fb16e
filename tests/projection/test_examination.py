"""Which shown positions count as seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.types import Feedback, Impression, Query
from duelrank.projection import Examination, LastClick, Observed, WholeList

FLAGS = st.lists(st.booleans(), max_size=12)


def weights(examination: Examination, feedback: Feedback) -> np.ndarray:
    shown = feedback.clicks.size
    return examination.weights({}, Impression(Query("q", np.ones((max(1, shown), 2))), np.arange(shown)), feedback)


def ones(depth: int, length: int) -> list[float]:
    return [1.0 if position < depth else 0.0 for position in range(length)]


@given(FLAGS, st.integers(0, 15))
def test_last_click_sees_down_to_it_and_a_little_beyond(flags, beyond):
    last = max((position for position, flag in enumerate(flags, 1) if flag), default=0)
    seen = weights(LastClick(beyond), Feedback(flags)).tolist()
    assert seen == ones(min(last + beyond, len(flags)) if last else 0, len(flags))


def test_last_click_ignores_what_was_observed():
    assert weights(LastClick(1), Feedback([True, False, False], examined=3)).tolist() == [1.0, 1.0, 0.0]


@given(FLAGS, st.data())
def test_observed_sees_what_was_observed(flags, data):
    last = max((position for position, flag in enumerate(flags, 1) if flag), default=0)
    examined = data.draw(st.integers(last, len(flags)))
    assert weights(Observed(), Feedback(flags, examined)).tolist() == ones(examined, len(flags))


def test_observed_needs_an_observation_and_says_how_to_give_it():
    with pytest.raises(InvalidValue, match="examined="):
        weights(Observed(), Feedback([True]))


@given(FLAGS)
def test_the_whole_list_is_the_whole_list(flags):
    assert weights(WholeList(), Feedback(flags)).tolist() == [1.0] * len(flags)


@pytest.mark.parametrize("beyond", [-1, 1.5, True, 10_001])
def test_beyond_is_a_whole_number_from_zero_up(beyond):
    with pytest.raises(InvalidRecipe, match="a whole number from 0 to 10,000"):
        LastClick(beyond)
