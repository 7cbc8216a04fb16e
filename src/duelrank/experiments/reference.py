"""Trains the offline reference: a linear ranker learned from true labels, as an upper limit for rankers learned from clicks.

It is the paper's reference weight vector, "LambdaRank with no hidden layer": its nDCG@10 is the skyline of tables and figures,
and its direction is the one that learned weights are compared with.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from time import perf_counter

import numpy as np

from duelrank.core.errors import InvalidValue, StorageFailure
from duelrank.core.files import write_bytes
from duelrank.core.home import home
from duelrank.core.randomness import stream
from duelrank.core.registry import canonical, register
from duelrank.core.types import Weights, frozen
from duelrank.datasets import Dataset, Fold, Split
from duelrank.experiments.results import fingerprint
from duelrank.kernels.lambdarank import descend
from duelrank.kernels.projection import norm
from duelrank.kernels.random import permutation
from duelrank.metrics import nDCG, offline_performance
from duelrank.simulation import Baseline

FORMAT = 1  # version of the files and of the training; files of another version are not read
_NDCG = nDCG(cutoff=10)


@dataclass(frozen=True)
class Training:
    """How the reference is trained; the defaults were chosen by validation nDCG@10 on MQ2007, MQ2008 and synthetic sets.

    Parameters
    ----------
    rate, slowdown
        Adam's step is rate / (1 + epoch / slowdown), epoch from 0.
    batch
        Queries per step.
    sigma
        Steepness of the pairwise cost.
    patience
        Training stops after this number of epochs without a better validation nDCG@10.
    max_epochs
        Maximum number of epochs.
    """

    rate: float = 0.05
    slowdown: float = 50.0
    batch: int = 8
    sigma: float = 1.0
    patience: int = 50
    max_epochs: int = 500

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < float("inf"):
                raise InvalidValue(f"{name} must be a number above 0, got {value!r}")


_DEFAULT = Training()


@dataclass(frozen=True, eq=False)
class Reference:
    """The best linear ranker found by training.

    Parameters
    ----------
    weights
        (n_features,) of length 1, read-only.
    validation, test
        Its nDCG@10 on these queries; without validation queries that of the training queries, without test queries NaN.
    epochs
        Number of passes over the training queries after which it was found.
    seconds
        Time of the whole training, including the epochs after the best one.
    """

    weights: Weights
    validation: float
    test: float
    epochs: int
    seconds: float


def train(fold: Fold, seed: int = 0, settings: Training = _DEFAULT) -> Reference:
    """Train linear LambdaRank on the true labels and keep the best epoch on validation; equal seeds give equal weights.

    Examples
    --------
    >>> from duelrank.datasets import Synthetic
    >>> reference = train(Synthetic(n_queries=60, noise=0.0).fold(1))
    >>> reference.test > 0.97
    True
    """
    started = perf_counter()
    held_out = fold.validation if len(fold.validation) else fold.train
    best, validation, epochs = np.zeros(fold.n_features), -1.0, 0
    weights, moments, step = best.copy(), np.zeros((2, fold.n_features)), 0
    for epoch in range(settings.max_epochs):
        step = _one_epoch(weights, moments, step, fold.train, epoch, seed, settings)
        unit = _unit(weights)
        reached = _measure(unit, held_out, seed)
        if reached > validation:
            best, validation, epochs = unit, reached, epoch + 1
        elif epoch + 1 - epochs >= settings.patience:
            break
    test = _measure(best, fold.test, seed)
    return Reference(frozen(best), validation, test, epochs, perf_counter() - started)


def _one_epoch(
    weights: Weights, moments: Weights, step: int, queries: Split, epoch: int, seed: int, settings: Training
) -> int:
    """Update the weights in one pass over the queries; return the total number of steps so far."""
    order = permutation(stream(seed, "reference/order", epoch), len(queries))
    rate = settings.rate / (1.0 + epoch / settings.slowdown)
    arrays = (weights, moments, step, queries.features, queries.labels, queries.offsets)
    made: int = descend(*arrays, settings.sigma, _NDCG.depth, order, settings.batch, rate)
    return made


def _unit(weights: Weights) -> Weights:
    length = norm(weights)
    if length == 0.0:
        raise InvalidValue(
            "cannot train the reference: no training query has documents that differ in label and in features"
        )
    return np.asarray(weights / length)


def _measure(weights: Weights, split: Split, seed: int) -> float:
    return offline_performance(weights, split, _NDCG, stream(seed, "reference/ties"))


def reference_for(dataset: Dataset, fold: int) -> Reference:
    """Return the reference of one fold, from the cache on disk if possible; if the file is damaged, train again.

    Examples
    --------
    >>> from duelrank import Synthetic
    >>> from duelrank.experiments import reference_for
    >>> reference = reference_for(Synthetic(n_queries=10), fold=1)
    >>> round(reference.test, 2)
    0.88
    """
    opened = dataset.fold(fold)
    path = home() / "references" / f"{_digest(dataset, fold, opened, _DEFAULT)}.npz"
    known = _read(path, opened.n_features)
    if known is not None:
        return known
    trained = train(opened, settings=_DEFAULT)
    with suppress(StorageFailure):  # without a writable home, it is trained again each time
        _write(path, trained)
    return trained


def _digest(dataset: Dataset, number: int, fold: Fold, settings: Training) -> str:
    """Return a hash of all that determines the reference, including the data: a set may be imported again under its name."""
    settled = repr((FORMAT, canonical(dataset), number, settings, fingerprint(fold)))
    return hashlib.blake2b(settled.encode(), digest_size=10).hexdigest()


def _write(path: Path, reference: Reference) -> None:
    content = BytesIO()
    np.savez(content, **vars(reference))
    write_bytes(path, content.getvalue())


def _read(path: Path, n_features: int) -> Reference | None:
    """Return the reference in a file, or None if the file is missing or damaged."""
    try:
        # Read from memory: numpy does not close a damaged file that it has opened itself.
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as file:
            weights: Weights = file["weights"]
            numbers = {name: float(file[name]) for name in ("validation", "test", "seconds")}
            epochs = int(file["epochs"])
    except (
        Exception
    ):  # for damaged bytes, the readers of zip files, arrays and headers raise a dozen kinds of exceptions
        return None
    sound = weights.shape == (n_features,) and weights.dtype == np.float64 and abs(weights @ weights - 1.0) < 1e-9
    return Reference(frozen(weights), epochs=epochs, **numbers) if sound else None


@register
@dataclass(frozen=True, repr=False)
class Skyline(Baseline):
    """A linear LambdaRank that was trained on all labels of the fold: a production ranking that is hard to beat.

    Examples
    --------
    An upper limit for online learning: this ranker knows the labels of all training queries.

    >>> from duelrank import Synthetic, offline_performance
    >>> from duelrank.experiments import Skyline
    >>> from duelrank.core.randomness import stream
    >>> data = Synthetic(n_queries=40, n_features=20)
    >>> weights = Skyline().weights(data, fold=1)
    >>> round(offline_performance(weights, data.fold(1).test, "nDCG@10", stream(1, "ties")), 2)
    0.94
    """

    def weights(self, dataset: Dataset, fold: int) -> Weights:
        """Return the weights of the offline reference; it is trained on first use."""
        return reference_for(dataset, fold).weights
