"""A log of production, from which a ranker of a simulation learns before it goes live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from duelrank.datasets import Fold
from duelrank.kernels.random import derive
from duelrank.learner import Learner
from duelrank.randomness import stream, stream_key
from duelrank.registry import Between, Part, register
from duelrank.simulation.baseline import Baseline, BestFeature, order
from duelrank.simulation.queries import drawn_queries
from duelrank.types import Feedback, Query, Ranking, Weights
from duelrank.users import User

__all__ = ["Logged"]


@register
@dataclass(frozen=True, repr=False)
class Logged(Part):
    """Lists of production with clicks of the same users on the same training queries, read before the first live list.

    As in most logs, how far users looked is not known.

    Parameters
    ----------
    production
        The ranking that was shown.
    lists
        How many.

    Examples
    --------
    The first 100 users see better lists if the ranker has read a log of production before:

    >>> from duelrank import simulate
    >>> run = ("pdgd", "synthetic(n_queries=40, n_features=5)", "navigational")
    >>> for log in (None, "Logged(lists=500)"):
    ...     print(log, simulate(*run, impressions=100, log=log).online.mean().round(2))
    None 0.37
    Logged(lists=500) 0.74
    """

    kind: ClassVar[str] = "log"

    production: Baseline = BestFeature()
    lists: Annotated[int, Between(1, 1_000_000_000)] = 10_000

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(self, production: Baseline | str = ..., lists: int = 10_000) -> None: ...

    def shown(
        self, learner: Learner, fold: Fold, production: Weights, user: User
    ) -> Iterator[tuple[Query, Ranking, Feedback]]:
        """Return the lists of the log one by one; its queries and users depend on the seed of the learner that it is for.

        Parameters
        ----------
        learner
            Its length is that of the lists.
        fold, user
            Whose training queries are asked, and who clicks.
        production
            The weights of production for the fold.
        """
        queries = drawn_queries(fold, self.lists, stream(learner.seed, "log queries"))
        user = user.at(0)  # the log is from before the first live list
        key, rankings = stream_key(learner.seed, "log user"), dict[int, Ranking]()
        for t, index in enumerate(queries.tolist()):
            query = fold.train.query(index)
            if index not in rankings:
                rankings[index] = order(production, query)[: learner.length]
            clicks = user.click(fold.train.judgements(index)[rankings[index]], derive(key, t)).clicks
            yield query, rankings[index], Feedback.trusted(clicks, None)
