"""The synthetic set: deterministic, well-formed, learnable, and as unbalanced as real ones."""

from __future__ import annotations

import numpy as np
import pytest

from duelrank import parse
from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.datasets import Synthetic


def test_equal_parameters_equal_data() -> None:
    from duelrank.datasets.synthetic import _make

    one = Synthetic(n_queries=20, seed=3).fold(2)
    assert Synthetic(n_queries=20, seed=3).fold(2) is one
    _make.cache_clear()
    again = Synthetic(n_queries=20, seed=3).fold(2)
    for name in ("features", "labels", "offsets", "ids"):
        assert np.array_equal(getattr(one.train, name), getattr(again.train, name))
    assert not np.array_equal(one.train.labels[:50], Synthetic(n_queries=20, seed=3).fold(1).train.labels[:50])
    assert not np.array_equal(one.train.labels[:50], Synthetic(n_queries=20, seed=4).fold(2).train.labels[:50])


def test_shape_and_balance() -> None:
    fold = parse("synthetic").fold(1)
    train = fold.train
    sizes = np.diff(train.offsets)
    assert (len(train), train.n_features, fold.n_grades) == (300, 46, 3)
    assert sizes.min() >= 15
    assert sizes.max() <= 45
    assert train.features.min() == 0.0
    assert train.features.max() == 1.0
    shares = np.bincount(train.labels, minlength=3) / train.n_documents
    assert 0.6 <= shares[0] <= 0.75
    assert shares[1] > shares[2] > 0.05
    relevant = [np.mean(train.judgements(i) > 0) for i in range(len(train))]
    assert np.std(relevant) > 0.1
    assert all(fold.test.judgements(i).max() > 0 for i in range(len(fold.test)))


def test_relevance_is_linear_and_noise_hides_it() -> None:
    def fit(noise: float) -> float:
        train = Synthetic(noise=noise).fold(1).train
        centred = train.features - train.features.mean(axis=0)
        weights = np.linalg.lstsq(centred, train.labels - train.labels.mean(), rcond=None)[0]
        assert weights.min() < 0 < weights.max()
        return float(np.corrcoef(centred @ weights, train.labels)[0, 1])

    assert fit(0.0) > fit(1.0) + 0.1 > fit(4.0) + 0.1


def test_correlation_is_tunable() -> None:
    def strongest(correlation: float) -> float:
        features = Synthetic(correlation=correlation, n_features=20).fold(1).train.features
        return float(np.abs(np.corrcoef(features.T) - np.eye(20)).max())

    assert strongest(0.0) < 0.15 < strongest(0.9)


@pytest.mark.parametrize(
    "recipe", [Synthetic(1, 1, 1, 2), Synthetic(2, 2, 3, 31), Synthetic(3, 5, 200, 5, correlation=1)]
)
def test_extremes(recipe: Synthetic) -> None:
    fold = recipe.fold(5)
    assert len(fold.train) == recipe.n_queries
    assert np.isfinite(fold.train.features).all()


@pytest.mark.parametrize(
    "wrong", [{"n_queries": 0}, {"n_grades": 1}, {"noise": -1.0}, {"correlation": 1.5}, {"seed": -1}]
)
def test_wrong_parameters(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidRecipe):
        Synthetic(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, 6, True, "1"])
def test_wrong_fold(number: int) -> None:
    with pytest.raises(InvalidValue, match="from 1 to 5"):
        Synthetic().fold(number)
