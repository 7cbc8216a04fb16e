"""DBGD: dueling bandit gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.registry import alias, register
from duelrank.updates import Step, Update


@register
@dataclass(frozen=True, repr=False)
class DBGD(DuelingBandit):
    """Dueling bandit gradient descent: one uniform direction, interleaved with the current ranker.

    References
    ----------
    Yue and Joachims, "Interactively optimizing information retrieval systems as a dueling bandits problem" (ICML 2009).

    Examples
    --------
    The nDCG on unseen queries after the first list and after 1,000:

    >>> from duelrank import simulate
    >>> record = simulate("dbgd", "synthetic(n_queries=40, n_features=10)", "perfect", impressions=1000)
    >>> record.offline[[0, -1]].round(2).tolist()
    [0.41, 0.96]
    """

    # With a single candidate, every inference gives the same winner.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"inference"})
    untuned_fields: ClassVar[frozenset[str]] = frozenset({"exploration.n_candidates"})

    step: Update = Step(decay=0.9999977)


alias("dbgd", DBGD())
