"""Fixed scalings: what they compute and what they refuse; scaling within a query is that of training, to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.errors import InvalidRecipe
from duelrank.kernels.datasets import scale_queries
from duelrank.representation import BentLines, Fixed, MinMax, QueryScaled, Standard, Unscaled

anything = st.floats(allow_nan=False, allow_infinity=False)


def test_fixed_does_not_clip():
    np.testing.assert_array_equal(Fixed((MinMax(0.0, 50.0),)).apply(np.array([[-5.0], [55.0]]), {}), [[-0.1], [1.1]])


def test_a_constant_feature_is_0_whatever_its_value():
    scalings = Fixed((MinMax(3.0, 3.0), Standard(3.0, 0.0), Unscaled()))
    np.testing.assert_array_equal(scalings.apply(np.array([[9.0, 9.0, 9.0]]), {}), [[0.0, 0.0, 9.0]])


@pytest.mark.parametrize(
    "make",
    [
        lambda: MinMax(2.0, 1.0),
        lambda: MinMax(-1e308, 1e308),
        lambda: MinMax(0.0, np.nan),
        lambda: MinMax("0", 1.0),
        lambda: MinMax(False, 1.0),
        lambda: Standard(0.0, -1.0),
        lambda: Standard(np.inf, 1.0),
        lambda: Fixed((3.0,)),
    ],
)
def test_scalings_that_cannot_be(make):
    with pytest.raises(InvalidRecipe):
        make()


@given(st.integers(1, 6), st.integers(1, 4), st.data())
def test_scaling_within_a_query_is_what_training_does_to_the_bit(n, d, data):
    rows = data.draw(st.lists(st.lists(anything, min_size=d, max_size=d), min_size=n, max_size=n))
    features, trained = np.array(rows), np.empty((n, d))
    scale_queries(features, np.array([0, n]), np.arange(d), trained)
    np.testing.assert_array_equal(QueryScaled().apply(features, {}), trained)


def test_a_line_keeps_its_weight_when_it_gets_its_first_knots():
    before, after = {"knots": np.full((2, 2), np.nan)}, {"knots": np.array([[0.0, 1.0], [3.0, 3.0]])}
    weights = np.array([0.5, -2.0])
    np.testing.assert_array_equal(BentLines(pieces=1).carry(weights, before, after), weights)
    np.testing.assert_array_equal(BentLines().carry(weights, before, before), weights)
