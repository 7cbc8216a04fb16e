"""Stage 8: metrics of a list, of a ranker on a split, and the discounted online performance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import ShapeMismatch
from duelrank.core.grammar import as_part
from duelrank.core.registry import Between, Part, PartType, register
from duelrank.core.types import Features, Labels, Stream, Weights
from duelrank.core.validation import explained
from duelrank.kernels import metrics as kernel
from duelrank.kernels.ranking import ranked_labels
from duelrank.kernels.updates import discounted_sum

M = TypeVar("M", bound="Metric")

#: γ of the published tables. The paper's text says 0.995, but then no sum could exceed 200, and the tables go up to 1368.
DISCOUNT = 0.9995
_NO_CUTOFF = 1 << 31


class _CutByAt(PartType):
    """Allows the notation ``nDCG@10`` for ``nDCG(cutoff=10)`` on metric classes."""

    def __matmul__(cls, cutoff: int) -> Any:
        return cls(cutoff=cutoff)


@dataclass(frozen=True, repr=False)
class Metric(Part, ABC, metaclass=_CutByAt):
    """Evaluate a list by the grades of its documents; a grade above 0 is relevant.

    Parameters
    ----------
    cutoff
        Number of positions that count; None for all. The notation is ``nDCG@10``.
    """

    kind: ClassVar[str] = "metric"

    cutoff: Annotated[int, Between(1, 1_000_000)] | None = None

    @abstractmethod
    def of(self, shown: Labels, labels: Labels) -> float:
        """Evaluate one list, from the grades in the order shown and the grades of all documents of the query."""

    def __matmul__(self: M, cutoff: int) -> M:
        return replace(self, cutoff=cutoff)

    def __repr__(self) -> str:
        if self.cutoff is None:
            return super().__repr__()
        return f"{replace(self, cutoff=None)!r}@{self.cutoff}".replace("()@", "@")

    @property
    def depth(self) -> int:
        """The cutoff as a number for kernels."""
        return self.cutoff or _NO_CUTOFF


@register
@dataclass(frozen=True, repr=False)
class P(Metric):
    """Share of relevant documents in the first positions; missing positions of a list shorter than the cutoff are irrelevant.

    Examples
    --------
    Two of the first five documents are relevant:

    >>> import numpy as np
    >>> from duelrank.metrics import P
    >>> shown = np.array([1, 0, 0, 2, 0, 1], np.int8)
    >>> (P @ 5).of(shown, labels=shown)
    0.4
    """

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the precision of one list."""
        return float(kernel.precision(shown, self.cutoff or max(shown.shape[0], 1)))


@register
@dataclass(frozen=True, repr=False)
class MAP(Metric):
    """Precision at each relevant document, averaged over all of the query's relevant ones; averaged over queries.

    Examples
    --------
    Both relevant documents are shown, first and third: precision is 1 at the one and 2/3 at the other.

    >>> import numpy as np
    >>> from duelrank.metrics import MAP
    >>> shown = np.array([1, 0, 1, 0], np.int8)
    >>> round(MAP().of(shown, labels=shown), 3)
    0.833
    """

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the average precision of one list."""
        return float(kernel.average_precision(shown, labels, self.depth))


@register
@dataclass(frozen=True, repr=False)
class MRR(Metric):
    """1 / position of the first relevant document, 0 if there is none; averaged over queries.

    Examples
    --------
    The first relevant document is third:

    >>> import numpy as np
    >>> from duelrank.metrics import MRR
    >>> shown = np.array([0, 0, 1, 1], np.int8)
    >>> round(MRR().of(shown, labels=shown), 3)
    0.333
    """

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the reciprocal rank of one list."""
        return float(kernel.reciprocal_rank(shown, self.depth))


@register
@dataclass(frozen=True, repr=False)
class ERR(Metric):
    """Expected 1 / position at which a user who scans from the top is satisfied.

    Parameters
    ----------
    max_grade
        The highest grade of the data: P(satisfied) = (2^grade − 1) / 2^max_grade. A higher grade counts as this one.

    References
    ----------
    Chapelle et al., "Expected reciprocal rank for graded relevance" (CIKM 2009).

    Examples
    --------
    A perfect document satisfies nearly all who see it, a fair one few; so the first document matters most.

    >>> import numpy as np
    >>> from duelrank.metrics import ERR
    >>> for grades in ([4, 1, 0], [1, 4, 0]):
    ...     shown = np.array(grades, np.int8)
    ...     print(round(ERR(max_grade=4).of(shown, labels=shown), 3))
    0.939
    0.502
    """

    max_grade: Annotated[int, Between(1, 30)] = 4

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the expected reciprocal rank of one list."""
        return float(kernel.expected_reciprocal_rank(shown, self.depth, self.max_grade))


@register
@dataclass(frozen=True, repr=False)
class nDCG(Metric):
    """DCG over the DCG of the best order, discount 1/log2(position + 1), position from 1; 0 if no document is relevant.

    Parameters
    ----------
    gain
        "exponential": 2^grade − 1, as in the learning-to-rank literature (``nDCG(dcg='exp-log2')`` in ir-measures).
        "linear": the grade itself, as in trec_eval and scikit-learn. The two differ: always state the gain with a result.

    References
    ----------
    Järvelin and Kekäläinen (TOIS 2002), with the gain of Burges et al. (ICML 2005).

    Examples
    --------
    The best of three documents is second. The list is worth two thirds of the best order, its first position nothing:

    >>> import numpy as np
    >>> from duelrank.metrics import nDCG
    >>> shown = np.array([0, 2, 1], np.int8)
    >>> round(nDCG().of(shown, labels=shown), 3), round((nDCG @ 1).of(shown, labels=shown), 3)
    (0.659, 0.0)
    """

    gain: Literal["exponential", "linear"] = "exponential"

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the nDCG of one list."""
        return float(kernel.ndcg(shown, labels, self.depth, self.gain == "exponential"))


class Judged(Protocol):
    """Labelled queries, one after the other, such as a `Split` of a data set."""

    @property
    def features(self) -> Features:
        """(n_documents, n_features) of all queries."""

    @property
    def labels(self) -> Labels:
        """(n_documents,) grades."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(n_queries + 1,): query i owns the rows offsets[i] to offsets[i + 1]."""


def per_query(weights: Weights, split: Judged, metric: Metric | str, stream: Stream) -> NDArray[np.float64]:
    """Rank every query of a split by the weights, with ties at random, and return the metric (or its text) of each list.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank import Synthetic
    >>> from duelrank.metrics import per_query
    >>> from duelrank.core.randomness import stream
    >>> test = Synthetic(n_queries=40, n_features=20).fold(1).test
    >>> per_query(np.ones(20), test, "nDCG@10", stream(1, "ties")).round(2)[:3].tolist()
    [0.74, 0.85, 0.78]
    """
    measure = as_part(metric, Metric)
    n_features = split.features.shape[1]
    if weights.shape != (n_features,):
        raise ShapeMismatch(
            f"weights must have shape ({n_features},) for documents with {n_features} features, got {weights.shape}"
        )
    ranked = ranked_labels(weights, split.features, split.labels, split.offsets, stream)
    bounds = split.offsets.tolist()
    lists = (ranked[start:stop] for start, stop in pairwise(bounds))
    return np.array([measure.of(labels, labels) for labels in lists])


@explained
def offline_performance(weights: Weights, split: Judged, metric: Metric | str, stream: Stream) -> float:
    """Return the mean of a metric over the queries of a split; NaN if the split is empty.

    Examples
    --------
    How good are equal weights for all features?

    >>> import numpy as np
    >>> from duelrank import Synthetic, offline_performance
    >>> from duelrank.core.randomness import stream
    >>> test = Synthetic(n_queries=40, n_features=20).fold(1).test
    >>> round(offline_performance(np.ones(20), test, "nDCG@10", stream(1, "ties")), 2)
    0.77
    """
    values = per_query(weights, split, metric, stream)
    return float(values.mean()) if values.size else float("nan")


@explained
def online_performance(values: NDArray[np.float64], discount: float = DISCOUNT) -> float:
    """Return Σ_t γ^t · value_t, t from 0, where value_t is the metric of the list shown at t.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank import online_performance
    >>> online_performance(np.array([1.0, 0.5, 0.5]), discount=0.5)
    1.375
    """
    return float(discounted_sum(np.ascontiguousarray(values, np.float64), discount))
