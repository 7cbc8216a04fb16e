"""Fits the weights of another representation to the scores of a version, on lists whose features are still in the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import Conflict, InvalidValue
from duelrank.core.randomness import stream
from duelrank.core.registry import walk
from duelrank.core.types import Features, Memory, State, Weights, frozen
from duelrank.exploration import Exploration
from duelrank.service import log
from duelrank.service.definition import Definition
from duelrank.service.rankers import Version
from duelrank.storage import Storage

#: The fewest and the most lists of a fit, and the most documents of each list; the newest lists are used.
MIN_LISTS, MAX_LISTS, MAX_DOCUMENTS = 50, 400, 50
#: The most values of columns of a fit; beyond that, fewer lists are used, but not fewer than the fewest.
MAX_VALUES = 1 << 24
#: The penalty of a squared weight of a column with unit variance, per document; from 1e-4 to 0.1 it makes little difference.
RIDGE = 1e-2
#: One list of this number is left out of the fit that is measured.
HELD_OUT = 5


def stored_lists(storage: Storage, name: str, definition: Definition) -> list[Features]:
    """Return the features of the newest lists of a ranker with two or more documents; reads the store."""
    return list(islice(_lists(storage, name, definition), MAX_LISTS))


def _lists(storage: Storage, name: str, definition: Definition) -> Iterator[Features]:
    bodies: dict[str, type[log.StoredImpression | log.StoredLog]] = {
        log.IMPRESSION: log.StoredImpression,
        log.LOGGED: log.StoredLog,
    }
    for event in log.read_backwards(storage, name):
        if event.kind not in bodies or not event.body:
            continue
        features = log.read_features(storage, name, event.number)
        if features is None:  # features are dropped in the order of age
            return
        names = log.unpack(event.body, bodies[event.kind]).names
        fits = names in (b"", definition.names_digest) and features.shape[1] == len(definition.spec.features)
        if fits and len(features) > 1:
            yield features


@dataclass(frozen=True)
class _Sample:
    """Columns and scores of documents, both centred within their lists, and the list of each document.

    ``old_variance`` is the mean variance of the old columns within lists.
    """

    columns: Features
    scores: NDArray[np.float64]
    lists: NDArray[np.int64]
    old_variance: float

    def chosen(self, rows: NDArray[np.bool_]) -> _Sample:
        return _Sample(self.columns[rows], self.scores[rows], self.lists[rows], self.old_variance)


def refitted(version: Version, after: Definition, lists: Sequence[Features]) -> tuple[State, log.Fit]:
    """Return a state of the definition ``after`` whose scores are those of a version, as nearly as its representation allows.

    The weights are a ridge regression on scores that are centred within each list. Their scale keeps the share of exploration: for
    algorithms that try unit directions, the scores in relation to those of such a direction; for others, the scores themselves.
    Knots are learned from the same lists. The fit is measured on a fifth of the lists, by weights that are fitted to the others.

    Parameters
    ----------
    version
        The version, with another representation.
    after
        The definition with the new representation.
    lists
        Features of lists; not needed for a version whose weights are all zero.
    """
    needed = MIN_LISTS if version.state.weights.any() else 0
    if len(lists) < needed:
        raise Conflict(
            f"weights for another representation are fitted to at least {needed} lists of two or more documents whose features are "
            f"still in the store, and {after.spec.name!r} has {len(lists)}; send more traffic first, or serve with --keep-features"
        )
    seen = _observed(after, lists)
    if not needed:
        n_columns = after.representation.n_columns(len(after.spec.features), seen)
        return after.state_with(frozen(np.zeros(n_columns)), seen), log.Fit(0, 0, 1.0)
    sample = _sample(version, after, seen, lists)
    weights, held = _fitted(sample, after), sample.lists % HELD_OUT == 0
    pairs, same = _pairs(sample.chosen(held), _fitted(sample.chosen(~held), after))
    fit = log.Fit(int(sample.lists[-1]) + 1, pairs, same / max(pairs, 1))
    return after.state_with(weights, seen), fit


def _observed(after: Definition, lists: Sequence[Features]) -> Memory:
    """Return the memory of the representation after it has seen the lists, the oldest first."""
    seen = after.representation.start(len(after.spec.features))
    draws = stream(after.spec.seed, "refit")
    for number, features in enumerate(reversed(lists)):
        seen = after.representation.observe(seen, features, number, draws)
    return seen


def _sample(version: Version, after: Definition, seen: Memory, lists: Sequence[Features]) -> _Sample:
    columns, scores, numbers, squares, n_values = [], [], [], 0.0, 0
    for number, features in enumerate(lists):
        rows = np.unique(np.linspace(0, len(features) - 1, MAX_DOCUMENTS).astype(np.int64))
        old = version.definition.algorithm.columns(version.state, features, np.array([0, len(features)]))[rows]
        new = after.representation.apply(features, seen)[rows]
        n_values += new.size
        if number >= MIN_LISTS and n_values > MAX_VALUES:
            break
        old, new = old - old.mean(axis=0), new - new.mean(axis=0)
        squares += float((old * old).sum()) / old.shape[1]
        columns.append(new)
        scores.append(old @ version.state.weights)
        numbers.append(np.full(len(rows), number))
    table, total = np.concatenate(columns), np.concatenate(scores)
    if not np.isfinite(table).all():
        raise InvalidValue("features are beyond the largest number after they are scaled")
    return _Sample(table, total, np.concatenate(numbers), squares / len(total))


def _fitted(sample: _Sample, after: Definition) -> Weights:
    """Return the weights of a ridge regression, in a scale that keeps the share of exploration."""
    deviations = np.sqrt((sample.columns**2).mean(axis=0))
    weights = _ridge(sample.columns / np.where(deviations > 0.0, deviations, 1.0), sample.scores)
    weights = np.where(deviations > 0.0, weights / np.where(deviations > 0.0, deviations, 1.0), 0.0)
    found, wanted = (float(np.sqrt((each**2).mean())) for each in (sample.columns @ weights, sample.scores))
    if found > 0.0:
        weights *= wanted / found
        if any(isinstance(part, Exploration) for _, part in walk(after.algorithm)):
            weights *= float(np.sqrt((deviations**2).mean() / sample.old_variance))
    return frozen(after.algorithm.allowed(frozen(weights)))


def _ridge(columns: Features, scores: NDArray[np.float64]) -> Weights:
    """Return the weights of a ridge regression on standardized columns; of the two equal formulas, the one with fewer unknowns."""
    n_rows, n_columns = columns.shape
    wide = n_columns > n_rows
    products = columns @ columns.T if wide else columns.T @ columns
    products[np.diag_indices_from(products)] += RIDGE * n_rows
    solved = np.linalg.solve(products, scores if wide else columns.T @ scores).astype(np.float64)
    return columns.T @ solved if wide else solved


def _pairs(sample: _Sample, weights: Weights) -> tuple[int, int]:
    """Return the number of pairs of documents of a list with different scores, and of those that keep their order."""
    pairs = same = 0
    for number in np.unique(sample.lists):
        rows = sample.lists == number
        old, new = sample.scores[rows], sample.columns[rows] @ weights
        above = old[:, np.newaxis] > old
        pairs += int(above.sum())
        same += int((above & (new[:, np.newaxis] > new)).sum())
    return pairs, same
