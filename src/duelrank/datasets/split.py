"""Queries in memory: `Split` packs labelled queries in arrays, `Fold` has the splits for training, validation and test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.core.errors import InvalidValue, ShapeMismatch
from duelrank.core.registry import counted
from duelrank.core.types import Features, Labels, Query, checked_table, checked_vector, frozen
from duelrank.kernels.datasets import MAX_LABEL

SPLITS = ("train", "validation", "test")
SHARES = (0.6, 0.2, 0.2)  # shares of the queries, as in the published sets with five folds


class Split:
    """Labelled queries, packed in a few arrays that may be memory-mapped.

    Arguments are validated and stored as read-only copies; read-only arrays are not copied.

    Parameters
    ----------
    features
        (n_documents, n_features) of all queries, one after the other; finite numbers.
    labels
        (n_documents,) grades: whole numbers from 0 to 30, 0 is irrelevant.
    offsets
        (n_queries + 1,) whole numbers: query i owns the rows offsets[i] to offsets[i + 1], at least one.
    ids
        (n_queries,) unique names, as text or as UTF-8 bytes.
    missing
        Whether features may be NaN, for values that are missing; only for recipes that begin with ``missing >>``.

    Examples
    --------
    >>> from duelrank.datasets import Split
    >>> split = Split([[0.1], [0.9], [0.5]], labels=[0, 2, 1], offsets=[0, 2, 3], ids=["shoes", "hats"])
    >>> split.query(0).n_documents, split.judgements(0).tolist()
    (2, [0, 2])
    """

    __slots__ = ("_bounds", "features", "ids", "labels", "missing", "offsets")

    def __init__(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        ids: Sequence[str] | Sequence[bytes] | NDArray[Any],
        missing: bool = False,
    ) -> None:
        table = checked_table(features, missing)
        bounds = _checked_offsets(offsets, len(table))
        self._hold(table, checked_labels(labels, len(table)), bounds, _checked_ids(ids, len(bounds) - 1))
        self.missing = missing

    @classmethod
    def trusted(cls, features: Features, labels: Labels, offsets: NDArray[np.int64], ids: NDArray[np.bytes_]) -> Split:
        """Make a split without validation, such as from a cache file: C-ordered float64, int8, int64, bytes."""
        split = object.__new__(cls)
        split._hold(features, labels, offsets, ids)
        return split

    def _hold(self, features: Features, labels: Labels, offsets: NDArray[np.int64], ids: NDArray[np.bytes_]) -> None:
        # Plain views: slicing a np.memmap costs ten times more than slicing an ndarray over the same pages.
        self.features: Features = _readonly_view(features)
        self.labels: Labels = _readonly_view(labels)
        self.offsets: NDArray[np.int64] = _readonly_view(offsets)
        self.ids: NDArray[np.bytes_] = _readonly_view(ids)
        self._bounds: list[int] = self.offsets.tolist()
        self.missing = False

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __repr__(self) -> str:
        documents = f"{counted(self.n_documents, 'document')} of {counted(self.n_features, 'feature')}"
        return f"<Split of {counted(len(self), 'query')} with {documents}>"

    @property
    def n_features(self) -> int:
        """Number of features per document."""
        return int(self.features.shape[1])

    @property
    def n_documents(self) -> int:
        """Total number of documents of all queries."""
        return len(self.features)

    def query(self, index: int) -> Query:
        """Return the query at an index; its features are a view, never a copy."""
        start, stop = self._bounds[index], self._bounds[index + 1]
        if self.missing:
            return Query(self.ids[index].decode(), self.features[start:stop], missing=True)
        return Query.trusted(self.ids[index].decode(), self.features[start:stop])

    def judgements(self, index: int) -> Labels:
        """Return the grades of one query's documents."""
        return self.labels[self._bounds[index] : self._bounds[index + 1]]


def has_relevant(labels: Labels, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each query whether it has a relevant document."""
    if len(offsets) < 2:
        return np.zeros(0, np.bool_)
    return np.add.reduceat(labels > 0, offsets[:-1], dtype=np.int64) > 0


def _readonly_view(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def checked_labels(given: ArrayLike, n_documents: int) -> Labels:
    """Return one grade per document as read-only int8, or raise an error that states the problem."""
    labels = checked_vector(given, "labels", "one grade per document")
    if labels.shape != (n_documents,):
        raise ShapeMismatch(f"labels must be one grade per document: {n_documents} documents, {len(labels)} labels")
    if not _whole(labels, 0, MAX_LABEL):
        wrong = next(value for value in labels.tolist() if not _whole(np.array([value]), 0, MAX_LABEL))
        raise InvalidValue(f"labels must be whole numbers from 0 to {MAX_LABEL} (0 is irrelevant), found {wrong!r}")
    return frozen(np.ascontiguousarray(labels, np.int8))


def _checked_offsets(given: ArrayLike, n_documents: int) -> NDArray[np.int64]:
    offsets = checked_vector(given, "offsets", "the start of each query and the end of the last one")
    allowed = (
        f"offsets must rise from 0 to the number of documents ({n_documents}), with at least one document per query"
    )
    if not offsets.size or not _whole(offsets, 0, n_documents):
        raise InvalidValue(f"{allowed}; got {_shown(offsets)}")
    whole = np.ascontiguousarray(offsets, np.int64)
    if whole[0] != 0 or whole[-1] != n_documents or (np.diff(whole) < 1).any():
        raise InvalidValue(f"{allowed}; got {_shown(offsets)}")
    return frozen(whole)


def _checked_ids(given: Sequence[str] | Sequence[bytes] | NDArray[Any], n_queries: int) -> NDArray[np.bytes_]:
    names = [name.encode() if isinstance(name, str) else name for name in given]
    if len(names) != n_queries:
        raise ShapeMismatch(f"ids must be one name per query: {n_queries} queries, {len(names)} ids")
    if not all(isinstance(name, bytes) and name for name in names):
        raise InvalidValue(f"ids must be non-empty strings, got {_shown(list(given))}")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidValue(f"ids must be unique, {twice.decode()!r} occurs twice")
    return frozen(np.array(names, np.bytes_ if names else "S1"))


def _whole(numbers: NDArray[Any], low: int, high: int) -> bool:
    """Whether all values are whole numbers in a range; 2.0 and True are, NaN is not."""
    if not numbers.size:
        return True
    if numbers.dtype.kind not in "biuf" or not (numbers.min() >= low and numbers.max() <= high):
        return False
    return numbers.dtype.kind != "f" or bool((numbers == np.floor(numbers)).all())


def _shown(values: Any) -> str:
    found = list(values)
    return repr(found if len(found) <= 8 else [*found[:7], ...])


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """One partition of a data set into training, validation and test queries.

    Parameters
    ----------
    train, validation, test
        Splits with the same features.
    n_grades
        Number of grades; labels are from 0 to n_grades − 1.
    popularity
        (n_training_queries,) relative frequency of each training query; None: equal frequencies.
    later
        Folds with the same training documents and other grades that replace this one during a run, each after its number of the
        first impression.

    Examples
    --------
    >>> from duelrank.datasets import Fold, Split
    >>> split = Split([[0.1], [0.9], [0.5]], labels=[0, 2, 1], offsets=[0, 2, 3], ids=["shoes", "boots"])
    >>> fold = Fold(train=split, validation=split, test=split, n_grades=3)
    >>> len(fold.train), fold.test.n_documents
    (2, 3)
    """

    train: Split
    validation: Split
    test: Split
    n_grades: int
    popularity: NDArray[np.float64] | None = None
    later: tuple[tuple[int, Fold], ...] = ()

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            train: Split,
            validation: Split,
            test: Split,
            n_grades: int,
            popularity: ArrayLike | None = None,
            later: tuple[tuple[int, Fold], ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        splits = {"training": self.train, "validation": self.validation, "test": self.test}
        if len({split.n_features for split in splits.values()}) > 1:
            found = ", ".join(f"{name} {split.n_features}" for name, split in splits.items())
            raise ShapeMismatch(f"the splits of a fold must have the same number of features, got {found}")
        highest = max(int(split.labels.max(initial=0)) for split in splits.values())
        if highest >= self.n_grades:
            raise InvalidValue(f"n_grades must be above the highest label, which is {highest}; got {self.n_grades!r}")
        if any(fold.train.features.shape != self.train.features.shape for _, fold in self.later):
            raise ShapeMismatch("a later fold must have the training documents of the first")
        if self.popularity is not None:
            object.__setattr__(self, "popularity", _checked_popularity(self.popularity, len(self.train)))

    @property
    def n_features(self) -> int:
        """Number of features per document."""
        return self.train.n_features


def _checked_popularity(given: ArrayLike, n_queries: int) -> NDArray[np.float64]:
    try:
        popularity = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"popularity must be one number per training query: {error}") from None
    if popularity.shape != (n_queries,):
        raise ShapeMismatch(f"popularity must be one number per training query ({n_queries}), got {popularity.shape}")
    if n_queries and not (popularity.min() >= 0.0 and 0.0 < popularity.sum() < math.inf):
        raise InvalidValue("popularity must be finite numbers of at least 0, not all of them 0")
    return frozen(popularity)
