"""CPS: candidate pre-selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.errors import InvalidRecipe
from duelrank.core.registry import alias, register
from duelrank.core.types import Impression, Query, State, Stream
from duelrank.exploration import CandidatePreselection, Exploration
from duelrank.multileaving import Multileaver, Probabilistic


@register
@dataclass(frozen=True, repr=False)
class CPS(DuelingBandit):
    """Candidate pre-selection: dueling bandit gradient descent with one candidate, the winner on past clicks.

    References
    ----------
    Hofmann et al., "Reusing historical interaction data for faster online learning to rank for IR" (WSDM 2013).

    Examples
    --------
    The ten newest lists with clicks are remembered; candidates compete on them before users see the winner:

    >>> from duelrank import simulate
    >>> record = simulate("cps", "synthetic(n_queries=40)", "perfect", impressions=300)
    >>> record.learner.state.memory["exploration"]["history_since"].shape
    (10,)
    >>> float(record.offline[-1].round(2))
    0.74
    """

    # With a single candidate, every inference gives the same winner.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"inference"})

    exploration: Exploration = CandidatePreselection()
    multileaver: Multileaver = Probabilistic()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.multileaver, Probabilistic):
            raise InvalidRecipe(
                "CPS needs the probability of every possible list for its replay, so its multileaver must be Probabilistic(), "
                f"got {self.multileaver!r}; DBGD and MGD accept any"
            )

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Make the list, and record in the trace what a later replay needs."""
        made = super().explore(state, query, length, stream)
        assert isinstance(self.multileaver, Probabilistic)
        how = {"tau": np.array(self.multileaver.tau), "delta": np.array(self.delta)}
        return Impression(query, made.ranking, {**made.trace, **how})


alias("cps", CPS())
