"""One number for reward and validation quality, relative to the recipe that the search begins with."""

import numpy as np
import pytest

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.experiments.tuning import Objective

PERFECT, NOISY = ("mq2007", "perfect"), ("mq2007", "informational")
REFERENCE = {PERFECT: np.array([[800.0, 0.5], [1200.0, 0.5]]), NOISY: np.array([[100.0, 0.2], [300.0, 0.6]])}


def test_the_reference_has_one():
    found = Objective().scores(REFERENCE, REFERENCE)
    assert (found.value, found.reward, found.validation) == (1.0, 1.0, 1.0)
    assert (found.worst_reward, found.worst_validation) == pytest.approx(((0.8 + 0.5) / 2, (1.0 + 0.5) / 2))


def test_cells_count_alike_whatever_their_scale():
    better = {PERFECT: REFERENCE[PERFECT] * 1.1, NOISY: REFERENCE[NOISY]}
    other = {PERFECT: REFERENCE[PERFECT], NOISY: REFERENCE[NOISY] * 1.1}
    assert Objective().scores(better, REFERENCE).value == pytest.approx(1.05)
    assert Objective().scores(other, REFERENCE).value == pytest.approx(1.05)


@pytest.mark.parametrize(
    ("text", "value"),
    [("reward", 1.2), ("validation", 0.9), ("reward=1,validation=1", 1.05), ("reward=3, validation=1", 1.125)],
)
def test_weights(text, value):
    changed = {cell: runs * [1.2, 0.9] for cell, runs in REFERENCE.items()}
    assert Objective.parse(text).scores(changed, REFERENCE).value == pytest.approx(value)


def test_the_worst_run_counts_beside_the_mean():
    steady = {PERFECT: np.array([[1000.0, 0.5]] * 2), NOISY: np.array([[200.0, 0.4]] * 2)}
    plain, careful = Objective.parse("reward"), Objective.parse("reward,worst=0.5")
    assert plain.scores(steady, REFERENCE).value == plain.scores(REFERENCE, REFERENCE).value
    assert careful.scores(steady, REFERENCE).value == pytest.approx(1.0)
    assert careful.scores(REFERENCE, REFERENCE).value == pytest.approx((1.0 + 0.5 * 0.65) / 1.5)


@pytest.mark.parametrize("text", ["worst=1", "reward=-1", "reward=nan", "reward=inf", ""])
def test_weights_that_say_nothing_are_refused(text):
    with pytest.raises(InvalidValue, match="reward or validation counts"):
        Objective.parse(text)


def test_no_weights_are_called_none():
    with pytest.raises(InvalidValue, match=r"got none$"):
        Objective.parse("")


def test_errors_of_the_text():
    with pytest.raises(UnknownName, match="did you mean reward"):
        Objective.parse("rewards=1")
    with pytest.raises(InvalidValue, match="the weight of reward must be a number"):
        Objective.parse("reward=much")


def test_a_reference_that_earns_nothing_is_refused():
    nothing = {PERFECT: np.zeros((2, 2))}
    with pytest.raises(InvalidValue, match="earns nothing on mq2007 with the user perfect"):
        Objective().scores(REFERENCE, nothing)
