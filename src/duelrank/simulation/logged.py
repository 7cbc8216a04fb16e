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
    """

    kind: ClassVar[str] = "log"

    production: Baseline = BestFeature()
    lists: Annotated[int, Between(1, 1_000_000_000)] = 10_000

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(self, production: Baseline | str = ..., lists: int = 10_000) -> None: ...

    def teach(self, learner: Learner, fold: Fold, production: Weights, user: User) -> None:
        """Let a learner learn from the log, whose queries and users depend on its seed.

        Parameters
        ----------
        learner
            Before its first list; its length is that of the lists.
        fold, user
            Whose training queries are asked, and who clicks.
        production
            The weights of production for the fold.
        """
        learner.backfill(self._lists(fold, production, user, learner))

    def _lists(
        self, fold: Fold, production: Weights, user: User, learner: Learner
    ) -> Iterator[tuple[Query, Ranking, Feedback]]:
        queries = drawn_queries(fold, self.lists, stream(learner.seed, "log queries"))
        key, shown = stream_key(learner.seed, "log user"), dict[int, Ranking]()
        for t, index in enumerate(queries.tolist()):
            query = fold.train.query(index)
            if index not in shown:
                shown[index] = order(production, query)[: learner.length]
            clicks = user.click(fold.train.judgements(index)[shown[index]], derive(key, t)).clicks
            yield query, shown[index], Feedback.trusted(clicks, None)
