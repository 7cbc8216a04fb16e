"""What all tests share: repeatable hypothesis runs, a home of their own, a clean registry, small data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from hypothesis import settings

from duelrank import registry
from duelrank.datasets.base import Dataset
from duelrank.errors import InvalidValue
from duelrank.registry import Between
from duelrank.types import Fold, Split

settings.register_profile("duelrank", deadline=None, derandomize=True, max_examples=50, database=None)
settings.load_profile("duelrank")


@pytest.fixture(autouse=True)
def duelrank_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep caches and imported data sets of a test out of the user's home, and the user's out of the test."""
    home = tmp_path / "duelrank-home"
    monkeypatch.setenv("DUELRANK_HOME", str(home))
    return home


@pytest.fixture
def clean_registry() -> Iterator[None]:
    """Forget what a test registers."""
    tables = (registry._CLASSES, registry._ALIASES)
    before, sources = [dict(table) for table in tables], list(registry._SOURCES)
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
    registry._SOURCES[:] = sources


def pack(queries: Sequence[tuple[np.ndarray, Sequence[int]]]) -> Split:
    """Pack (features, labels) pairs into a split, named q0, q1, ..."""
    features = np.ascontiguousarray(np.concatenate([features for features, _ in queries]), np.float64)
    labels = np.concatenate([np.asarray(labels, np.int8) for _, labels in queries])
    offsets = np.cumsum([0, *(len(labels) for _, labels in queries)]).astype(np.int64)
    return Split(features, labels, offsets, np.array([f"q{i}".encode() for i in range(len(queries))]))


@pytest.fixture
def make_split() -> Callable[[Sequence[tuple[np.ndarray, Sequence[int]]]], Split]:
    """Pack (features, labels) pairs into a split."""
    return pack


@dataclass(frozen=True, repr=False)
class Linear(Dataset):
    """Queries of uniform features whose grade, 0 to 2, rises with one hidden linear utility."""

    n_queries: Annotated[int, Between(0)] = 30
    n_features: Annotated[int, Between(1)] = 5
    seed: int = 0

    @property
    def n_folds(self) -> int:
        return 2

    def fold(self, number: int = 1) -> Fold:
        if not 1 <= number <= self.n_folds:
            raise InvalidValue(f"there are folds 1 to {self.n_folds}, got {number}")
        rng = np.random.default_rng((self.seed, number))
        utility = rng.standard_normal(self.n_features)
        if self.n_queries == 0:
            empty = Split(
                np.empty((0, self.n_features)), np.empty(0, np.int8), np.zeros(1, np.int64), np.empty(0, "S2")
            )
            return Fold(empty, empty, empty, 3)
        return Fold(*(pack([self._query(rng, utility) for _ in range(self.n_queries)]) for _ in range(3)), 3)

    def _query(self, rng: np.random.Generator, utility: np.ndarray) -> tuple[np.ndarray, list[int]]:
        features = rng.random((int(rng.integers(4, 15)), self.n_features))
        scores = features @ utility
        return features, np.searchsorted(np.quantile(scores, [0.5, 0.85]), scores, side="right").tolist()


@pytest.fixture
def linear_data() -> type[Linear]:
    """The class of a data set that needs no files."""
    return Linear
