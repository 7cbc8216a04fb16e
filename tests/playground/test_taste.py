"""What simulated users like."""

from __future__ import annotations

import numpy as np
import pytest

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.playground.crowd import MOST_POINTS, Curve
from duelrank.playground.search import DEFAULT_TASTE, FEATURES, as_weights, grades

DEPTH = list(FEATURES).index("depth")


def test_by_name():
    weights = as_weights({"depth": -0.5})
    assert weights[DEPTH] == -0.5
    assert np.count_nonzero(weights) == 1
    assert np.count_nonzero(as_weights(DEFAULT_TASTE)) == len(DEFAULT_TASTE)


def test_what_is_no_taste():
    with pytest.raises(UnknownName, match="depht"):
        as_weights({"depht": 0.5})
    for wrong in (1.5, float("nan")):
        with pytest.raises(InvalidValue, match="from -1"):
            as_weights({"depth": wrong})


def test_grades_follow_the_utility():
    features = np.zeros((50, len(FEATURES)))
    features[:, DEPTH] = np.arange(50)
    found = grades(as_weights({"depth": -1.0}), features)
    assert (np.diff(found.astype(int)) <= 0).all()  # the deeper the worse
    assert np.bincount(found).tolist() == [25, 10, 7, 5, 3]  # 50%, 30%, 16% and 6% have at least 1, 2, 3, 4
    assert (grades(as_weights({"depth": 0.1}), features) == found[::-1]).all()


def test_equal_documents_have_equal_grades():
    features = np.zeros((20, len(FEATURES)))
    features[10:, DEPTH] = 1.0
    assert grades(as_weights({"depth": 1.0}), features).tolist() == [0] * 10 + [4] * 10
    assert not grades(as_weights({}), features).any()
    assert not grades(as_weights(DEFAULT_TASTE), features[:1]).any()


def test_a_curve_has_few_points_and_forgets_nothing():
    curve = Curve()
    assert curve.lately is None
    assert curve.overall is None
    for value in range(10_000):
        curve.add(float(value))
    assert MOST_POINTS / 2 <= len(curve.points) < MOST_POINTS
    assert len(curve.points) * curve.per_point == 10_000 - 10_000 % curve.per_point
    assert curve.points[0] == pytest.approx((curve.per_point - 1) / 2)
    assert curve.points == sorted(curve.points)
    assert curve.overall == pytest.approx(4999.5)
    assert curve.lately == pytest.approx(10_000 - 100.5)
