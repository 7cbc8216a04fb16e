"""What generated data sets share: folds, sizes of queries, latent factors, noise, and grades by the hidden score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duelrank.datasets.base import Dataset
from duelrank.datasets.split import Fold, Split
from duelrank.errors import InvalidValue
from duelrank.kernels.preparation import scale_queries
from duelrank.kernels.random import integers, normals
from duelrank.kernels.ranking import scores as products
from duelrank.types import Features, Labels, Stream

__all__ = ["Drawn", "Generated"]

_IRRELEVANT = 0.65  # share of the training documents, as in the LETOR sets
_FEATURES_PER_FACTOR = 6


@dataclass(frozen=True, repr=False)
class Generated(Dataset):
    """A data set that is drawn at random from the parameters of its recipe; equal parameters give equal data."""

    @property
    def n_folds(self) -> int:
        """Five, as in most published sets."""
        return 5

    def fold(self, number: int = 1) -> Fold:
        """Generate one fold, or return it from the cache of this process."""
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= self.n_folds:
            raise InvalidValue(f"fold of a generated set must be from 1 to {self.n_folds}, got {number!r}")
        return self._generate(number)

    @abstractmethod
    def _generate(self, number: int) -> Fold:
        """Generate one fold, whose number is valid."""


class Drawn(NamedTuple):
    """Queries before they are graded: features, noisy hidden scores, and where each query starts."""

    features: Features
    scores: NDArray[np.float64]
    offsets: NDArray[np.int64]


def graded(draw: Callable[[str, int], Drawn], n_queries: int, n_grades: int) -> Fold:
    """Return a fold of queries that ``draw(split, n_queries)`` makes; the training scores determine the grades of all."""
    drawn = {
        name: draw(name, size)
        for name, size in (
            ("train", n_queries),
            ("validation", max(1, n_queries // 4)),
            ("test", max(1, n_queries // 2)),
        )
    }
    thresholds = _thresholds(drawn["train"].scores, n_grades)
    splits = {
        name: _split(features, np.searchsorted(thresholds, scores, side="right").astype(np.int8), offsets, name)
        for name, (features, scores, offsets) in drawn.items()
    }
    return Fold(splits["train"], splits["validation"], splits["test"], n_grades)


def draw_offsets(n_queries: int, n_documents: int, draws: Stream) -> NDArray[np.int64]:
    """Draw where each query starts; it has from half to one and a half times the mean number of documents."""
    fewest = (n_documents + 1) // 2
    sizes = fewest + integers(draws, 2 * (n_documents - fewest) + 1, n_queries)
    return np.concatenate([[0], np.cumsum(sizes)])


def draw_loadings(n_features: int, draws: Stream) -> NDArray[np.float64]:
    """Draw how much of each latent factor is in each feature, (n_factors, n_features), with columns of length 1."""
    loadings: NDArray[np.float64] = normals(draws, max(2, n_features // _FEATURES_PER_FACTOR), n_features)
    return np.asarray(loadings / np.sqrt(np.square(loadings).sum(axis=0)))


def draw_latent(loadings: NDArray[np.float64], correlation: float, n_rows: int, draws: Stream) -> NDArray[np.float64]:
    """Draw (n_rows, n_features) standard normal numbers that share latent factors."""
    # Not BLAS, whose products may differ in the last bit with the processor and the number of threads.
    shared = products(np.ascontiguousarray(loadings.T), normals(draws, n_rows, len(loadings))).T
    own = normals(draws, n_rows, loadings.shape[1])
    latent: NDArray[np.float64] = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own
    return latent


def add_noise(
    scores: NDArray[np.float64], offsets: NDArray[np.int64], noise: float, draws: Stream
) -> NDArray[np.float64]:
    """Return the scores with noise; some queries have more relevant documents than others."""
    spread, sizes = scores.std(), np.diff(offsets)
    richness = np.repeat(0.5 * normals(draws, len(sizes), 1)[:, 0], sizes)
    noisy: NDArray[np.float64] = scores + spread * (richness + noise * normals(draws, len(scores), 1)[:, 0])
    return noisy


def scaled_in_queries(features: Features, offsets: NDArray[np.int64]) -> Features:
    """Return every feature scaled to [0, 1] within each query."""
    scaled = np.empty_like(features)
    scale_queries(features, offsets, np.arange(features.shape[1]), scaled)
    return scaled


def _thresholds(scores: NDArray[np.float64], n_grades: int) -> NDArray[np.float64]:
    """Return the minimum score of each grade; every grade is rarer than the one below."""
    shares = (1.0 - _IRRELEVANT) * np.cumprod(np.append(1.0, np.full(n_grades - 2, 0.4)))
    thresholds: NDArray[np.float64] = np.quantile(scores, 1.0 - shares)
    return thresholds


def _split(features: Features, labels: Labels, offsets: NDArray[np.int64], name: str) -> Split:
    sizes = np.diff(offsets)
    kept = np.ones(len(sizes), np.bool_)
    if name == "test":  # as in the published sets: queries without relevant documents are dropped
        relevant = np.add.reduceat(labels > 0, offsets[:-1], dtype=np.int64) > 0
        kept = relevant if relevant.any() else kept
    ids = np.array([f"{name}{i + 1}" for i in np.flatnonzero(kept)], np.bytes_)
    rows = np.repeat(kept, sizes)
    return Split.trusted(features[rows], labels[rows], np.concatenate([[0], np.cumsum(sizes[kept])]), ids)
