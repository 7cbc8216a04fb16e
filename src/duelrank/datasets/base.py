"""The interface of data sets: folds of labelled queries."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import ArrayLike

from duelrank.core.registry import Part
from duelrank.core.validation import explained
from duelrank.datasets.cache import Preparation
from duelrank.datasets.split import SHARES, Fold, Split

if TYPE_CHECKING:
    from duelrank.datasets.own_data import SplitLike

_STANDARD = Preparation()  # as for the published sets
_PATH = re.compile(r"[^('\"]*[./\\~]")  # characters that occur in paths, but never in a recipe before its first bracket


@dataclass(frozen=True, repr=False)
class Dataset(Part, ABC):
    """A data set; `fold` opens its queries, which is fast once a cache exists.

    `from_arrays`, `from_dataframe`, `from_letor` and `from_splits` make one of your own data. The data is validated,
    written once into the cache of imported sets under a name that ends with a digest of its content, and returned as `Imported`:
    so it can be used in runs, grids and worker processes like every other set. ``duelrank data remove`` deletes it.

    Examples
    --------
    >>> from duelrank import Synthetic
    >>> fold = Synthetic(n_queries=20).fold(1)
    >>> query, grades = fold.train.query(0), fold.train.judgements(0)
    >>> query.features.shape, grades[:5].tolist()
    ((32, 46), [0, 0, 2, 0, 2])
    """

    kind: ClassVar[str] = "dataset"

    @property
    @abstractmethod
    def n_folds(self) -> int:
        """Number of folds; they are numbered from 1."""

    @abstractmethod
    def fold(self, number: int = 1) -> Fold:
        """Open one fold."""

    @classmethod
    def from_path(cls, text: str) -> Dataset | None:
        """Return the data set of a LETOR file, folder or archive if the text is a path, such as ``./file.txt``."""
        return cls.from_letor(text) if _PATH.match(text) else None

    @staticmethod
    @explained
    def from_arrays(
        features: ArrayLike,
        labels: ArrayLike,
        query_ids: ArrayLike,
        *,
        split: SplitLike = SHARES,
        seed: int = 0,
        name: str = "arrays",
        preparation: Preparation | None = _STANDARD,
    ) -> Dataset:
        """Make a data set with one fold from arrays with one row per document.

        Parameters
        ----------
        features
            (n_documents, n_features), finite numbers.
        labels
            (n_documents,) grades: whole numbers from 0, irrelevant, to 30.
        query_ids
            (n_documents,) texts or numbers; the documents of a query need not follow each other.
        split
            The shares of the queries that are for training, validation and test, drawn at random; or, for each document,
            "train", "validation" or "test", the same for all documents of a query.
        seed
            Random seed of the split; the same seed gives the same split.
        name
            Prefix of the name of the data set; lower-case letters, digits and dashes.
        preparation
            Preprocessing when the data is opened, by default as for the published sets: drop features that are constant in
            training, scale the others to [0, 1] within each query, and drop test queries without a relevant document.
            None: no preprocessing.

        Examples
        --------
        >>> from duelrank import Dataset
        >>> features = [[0.1, 3.0], [0.9, 1.0], [0.4, 2.0], [0.8, 5.0], [0.3, 2.0], [0.7, 1.0]]
        >>> data = Dataset.from_arrays(features, labels=[0, 2, 1, 0, 0, 1], query_ids=["a", "a", "b", "b", "c", "c"])
        >>> data
        Imported(name='arrays-d...')
        >>> fold = data.fold()
        >>> len(fold.train), len(fold.validation), len(fold.test)
        (1, 1, 1)
        """
        from duelrank.datasets import own_data

        return own_data.from_arrays(features, labels, query_ids, split, seed, name, preparation)

    @staticmethod
    @explained
    def from_dataframe(
        frame: Any,
        *,
        label: str = "label",
        query: str = "qid",
        features: str | Sequence[str] | None = None,
        split: SplitLike | str = SHARES,
        seed: int = 0,
        name: str = "frame",
        preparation: Preparation | None = _STANDARD,
    ) -> Dataset:
        """Make a data set from a pandas or Polars frame with one row per document.

        Parameters
        ----------
        label, query
            The columns of the grades and of the queries' ids.
        features
            The columns of the features, by default all others; or the one column that holds an array for each document.
        split
            As in `from_arrays`, or the name of a column that holds "train", "validation" or "test".
        seed, name, preparation
            As in `from_arrays`.
        """
        from duelrank.datasets import own_data

        return own_data.from_dataframe(frame, label, query, features, split, seed, name, preparation)

    @staticmethod
    @explained
    def from_letor(
        path: str | Path,
        *,
        split: tuple[float, float, float] = SHARES,
        seed: int = 0,
        name: str | None = None,
        preparation: Preparation | None = _STANDARD,
    ) -> Dataset:
        """Make a data set from LETOR (SVMlight) text.

        Parameters
        ----------
        path
            A single file, compressed or not, whose queries are split at random; or a folder or archive that is already split:
            ``{train,vali,test}.txt``, or ``FoldN/{train,vali,test}.txt`` for several folds.
        split, seed
            As in `from_arrays`, for a single file.
        name
            Prefix of the name of the data set, by default the name of the file.
        preparation
            As in `from_arrays`.
        """
        from duelrank.datasets import own_data

        return own_data.from_letor(path, split, seed, name, preparation)

    @staticmethod
    @explained
    def from_splits(
        train: Split,
        test: Split,
        validation: Split | None = None,
        *,
        name: str = "splits",
        preparation: Preparation | None = _STANDARD,
    ) -> Dataset:
        """Make a data set from queries that are already split, such as two files read by `read_letor`.

        Parameters
        ----------
        train, test, validation
            Splits with the same features. Without validation queries, runs can be evaluated only on the test queries.
        name, preparation
            As in `from_arrays`.
        """
        from duelrank.datasets import own_data

        return own_data.from_splits(train, test, validation, name, preparation)
