"""Adapts a learner to the scikit-learn interface, to learn from click logs; needs the extra ``sklearn``."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.algorithms import Algorithm
from duelrank.core.errors import MissingExtra, ShapeMismatch
from duelrank.core.registry import counted
from duelrank.core.types import Feedback, Query, Weights, checked_table
from duelrank.learner import Learner

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise MissingExtra("duelrank.adapters.sklearn needs scikit-learn: pip install 'duelrank[sklearn]'") from None


class ClickRanker(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learn a ranker from a log of shown lists and the clicks on them.

    Consecutive rows with the same query id form one list, with its documents from top to bottom. The ranker learns from each list
    once, in the order of the rows.

    Parameters
    ----------
    algorithm
        A recipe or its text; it must be able to learn from lists that another system made, such as "pdgd" or "mgd-dsp".
    seed
        Random seed; the same seed and the same lists give the same ranker, to the bit.

    Attributes
    ----------
    learner_
        The underlying `Learner`, which can continue online.

    Examples
    --------
    >>> from duelrank.adapters.sklearn import ClickRanker
    >>> shown = [[0.1, 0.9], [0.8, 0.2], [0.3, 0.3], [0.2, 0.7], [0.9, 0.1]]
    >>> ranker = ClickRanker().fit(shown, [0, 1, 0, 0, 1], qid=["shoes", "shoes", "shoes", "hats", "hats"])
    >>> ranker.predict([[1.0, 0.0], [0.0, 1.0]]).round(2).tolist()
    [0.02, -0.02]
    """

    def __init__(self, algorithm: Algorithm | str = "pdgd", *, seed: int = 0) -> None:
        self.algorithm = algorithm
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> Self:
        """Learn from these lists, from scratch; the parameters are those of `partial_fit`."""
        self.learner_ = self._new(X)
        return self.partial_fit(X, y, qid)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> Self:
        """Learn from additional lists.

        Parameters
        ----------
        X
            (n_rows, n_features) of the documents as they were shown.
        y
            (n_rows,) True or 1 if the document was clicked.
        qid
            (n_rows,) the query of each row; None: all rows are one list.
        """
        if not hasattr(self, "learner_"):
            self.learner_ = self._new(X)
        table, clicks = checked_table(X), np.asarray(y)
        queries = np.zeros(len(table), np.int64) if qid is None else np.asarray(qid)
        if clicks.shape != (len(table),) or queries.shape != clicks.shape:
            raise ShapeMismatch(f"X has {len(table)} rows; y has shape {clicks.shape}, qid {queries.shape}")
        bounds = _bounds(queries).tolist()
        lists = [(Query(str(queries[i]), table[i:j]), Feedback(clicks[i:j])) for i, j in pairwise(bounds)]
        for query, feedback in lists:  # check all lists before learning from any
            self.learner_.learn(self.learner_.observe(query, np.arange(query.n_documents)), feedback)
        return self

    def _new(self, X: Any) -> Learner:
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        return Learner(self.algorithm, checked_table(X).shape[1], self.seed, feature_names=names)

    def predict(self, X: ArrayLike, qid: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return a score for each document; within a query, a higher score is better.

        Parameters
        ----------
        X
            (n_rows, n_features) of the documents.
        qid
            (n_rows,) the query of each row; None: all rows are of one query. Only scores of a recipe that compares the documents of
            a query, such as ``query-scaled >> pdgd``, depend on it.
        """
        check_is_fitted(self, "learner_")
        table = checked_table(X)
        if table.shape[1] != self.n_features_in_:
            raise ShapeMismatch(f"the ranker has {counted(self.n_features_in_, 'feature')}, X has {table.shape[1]}")
        queries = np.zeros(len(table), np.int64) if qid is None else np.asarray(qid)
        if queries.shape != (len(table),):
            raise ShapeMismatch(f"X has {len(table)} rows; qid has shape {queries.shape}")
        learner = self.learner_
        return learner.algorithm.scores(learner.state, table, _bounds(queries))

    @property
    def coef_(self) -> Weights:
        """The weights, one per feature or per column of the representation; a ranker that is not linear has none."""
        if not self.learner_.algorithm.linear:
            raise AttributeError("coef_ does not exist: the ranker is not linear")
        return self.learner_.weights

    @property
    def n_features_in_(self) -> int:
        """Number of features of X."""
        return self.learner_.n_features

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The column names of X, if it was a data frame."""
        if self.learner_.feature_names is None:
            raise AttributeError("feature_names_in_ does not exist: X had no column names")
        return np.array(self.learner_.feature_names, object)


def _bounds(queries: NDArray[Any]) -> NDArray[np.int64]:
    """Return the start of each query, and the number of rows; consecutive rows with the same id are one query."""
    starts = np.flatnonzero(queries[1:] != queries[:-1]) + 1
    return np.concatenate([[0], starts, [len(queries)]]).astype(np.int64)
