"""The bumpy set: deterministic, raw features with long tails, learnable, and clearly better explained by curves than by lines."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from duelrank import parse, simulate
from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.datasets import Bumpy

RAW = Bumpy(n_queries=200, n_features=24, scale="none")


def explained(columns: NDArray[np.float64], labels: NDArray[np.int8]) -> float:
    """Return the share of the labels' variance that the best linear function of the columns explains."""
    columns = np.column_stack([columns, np.ones(len(columns))])
    weights = np.linalg.lstsq(columns, labels.astype(np.float64), rcond=None)[0]
    return float(1.0 - np.var(labels - columns @ weights) / np.var(labels))


def in_bins(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each feature which eighth of its values each document is in, one column each."""
    edges = [np.unique(np.quantile(values, np.linspace(0, 1, 9)))[1:-1] for values in features.T]
    bins = [np.searchsorted(edge, values) for edge, values in zip(edges, features.T, strict=True)]
    return np.concatenate([bin_of[:, None] == np.arange(8) for bin_of in bins], axis=1).astype(np.float64)


def test_equal_parameters_equal_data() -> None:
    from duelrank.datasets.synthetic import _make_bumpy as _make

    one = Bumpy(n_queries=20, seed=3).fold(2)
    assert Bumpy(n_queries=20, seed=3).fold(2) is one
    _make.cache_clear()
    again = Bumpy(n_queries=20, seed=3).fold(2)
    for name in ("features", "labels", "offsets", "ids"):
        assert np.array_equal(getattr(one.train, name), getattr(again.train, name))
    assert not np.array_equal(one.train.labels[:50], Bumpy(n_queries=20, seed=3).fold(1).train.labels[:50])
    assert not np.array_equal(one.train.labels[:50], Bumpy(n_queries=20, seed=4).fold(2).train.labels[:50])


def test_the_data_stays_the_same_from_version_to_version() -> None:
    fold = Bumpy(n_queries=40, seed=1, scale="none").fold(3)
    digest = hashlib.sha256()
    for split in (fold.train, fold.validation, fold.test):
        # Six digits: processors differ in the last bits of exp and log.
        digest.update(" ".join(f"{value:.5e}" for value in split.features.ravel()).encode())
        digest.update(split.labels.tobytes())
    assert digest.hexdigest()[:16] == "c2ddd5df64f0b134"


def test_features_are_as_they_come_in_a_shop() -> None:
    features = RAW.fold(1).train.features
    price, similarity, sales, links, category, reviews, age, now_and_then = features[:, :8].T
    for long_tailed in (price, sales, links, reviews, age):
        assert long_tailed.max() > 8 * long_tailed.mean() > 0
        assert long_tailed.min() >= 0
    assert 0 < similarity.min() < similarity.max() < 1
    assert np.unique(category).tolist() == [0, 1, 2]
    assert np.mean(reviews == 0) > 0.5
    for whole in (sales, reviews, age):
        assert np.array_equal(whole, np.floor(whole))
    offsets = RAW.fold(1).train.offsets
    is_constant = np.maximum.reduceat(now_and_then, offsets[:-1]) == 0
    assert is_constant.mean() == 0.5


def test_scaling_within_queries_changes_nothing_else() -> None:
    raw, scaled = RAW.fold(1).train, Bumpy(n_queries=200, n_features=24).fold(1).train
    assert np.array_equal(raw.labels, scaled.labels)
    for query in range(0, 200, 40):
        values = raw.query(query).features
        span = np.ptp(values, axis=0)
        expected = np.where(span > 0, values - values.min(axis=0), 0.0) / np.where(span > 0, span, 1.0)
        np.testing.assert_allclose(scaled.query(query).features, expected)


def test_curves_explain_what_lines_cannot() -> None:
    raw, scaled = RAW.fold(1).train, Bumpy(n_queries=200, n_features=24).fold(1).train
    lines = max(explained(raw.features, raw.labels), explained(scaled.features, raw.labels))
    curves = explained(in_bins(raw.features), raw.labels)
    assert lines > 0.2
    assert curves > lines + 0.08


def test_noise_hides_the_curves() -> None:
    def fit(noise: float) -> float:
        train = Bumpy(n_queries=200, n_features=24, scale="none", noise=noise).fold(1).train
        return explained(in_bins(train.features), train.labels)

    assert fit(0.0) > fit(1.0) + 0.1 > fit(4.0) + 0.1


def test_rankers_learn_on_it() -> None:
    record = simulate("mgd-dsp", "bumpy", "navigational", seed=1, impressions=500)
    assert record.offline[-1] > record.offline[0] + 0.1


@pytest.mark.parametrize("recipe", [Bumpy(1, 1, 1, 2), Bumpy(2, 2, 3, 31), Bumpy(3, 5, 100, 5, scale="none")])
def test_extremes(recipe: Bumpy) -> None:
    fold = recipe.fold(5)
    assert len(fold.train) == recipe.n_queries
    assert np.isfinite(fold.train.features).all()


def test_wrong_parameters() -> None:
    with pytest.raises(InvalidRecipe, match="scale"):
        parse("bumpy(scale='feature')")
    with pytest.raises(InvalidValue, match="from 1 to 5"):
        Bumpy().fold(6)
