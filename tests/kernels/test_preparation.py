"""Preparation kernels against their twins, and on values that overflow."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.reference import datasets as reference

from duelrank.kernels import datasets as preparation

value = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, -1.0, 1.7976931348623157e308])


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    width = draw(st.integers(1, 4))
    columns = draw(st.lists(st.integers(0, width - 1), unique=True, min_size=1).map(sorted))
    features = draw(arrays(np.float64, (int(offsets[-1]), width), elements=value))
    return features, offsets, np.array(columns, np.int64)


@given(tables())
def test_scaling_is_like_its_twin_and_stays_within_0_and_1(table: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    features, offsets, columns = table
    scaled = np.full((len(features), len(columns)), np.nan)
    twin = scaled.copy()
    preparation.scale_queries(features, offsets, columns, scaled)
    reference.scale_queries(features, offsets, columns, twin)
    np.testing.assert_array_equal(scaled, twin)
    assert ((scaled >= 0) & (scaled <= 1)).all()


@given(arrays(np.float64, (3, 4), elements=value))
def test_scaling_one_query_is_like_its_twin(features: np.ndarray) -> None:
    np.testing.assert_array_equal(preparation.scale_query(features), reference.scale_query(features))


def test_a_range_beyond_the_largest_float() -> None:
    largest = np.finfo(np.float64).max
    scaled = np.empty((3, 1))
    preparation.scale_queries(np.array([[-largest], [0.0], [largest]]), np.array([0, 3]), np.array([0]), scaled)
    assert scaled[:, 0].tolist() == [0.0, 0.5, 1.0]


@given(tables())
def test_varying_columns(table: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    features = table[0]
    if len(features) == 0:
        return
    varying, twin = np.zeros(features.shape[1], np.bool_), np.zeros(features.shape[1], np.bool_)
    preparation.mark_varying(features, features[0].copy(), varying)
    reference.mark_varying(features, features[0], twin)
    assert varying.tolist() == twin.tolist() == [len(set(column)) > 1 for column in features.T]
