"""Defines the base class of examination by click models, whose parameters may be learned online."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.elementary import log
from duelrank.projection.base import Examination
from duelrank.registry import Between
from duelrank.types import Clicks, Features, Feedback, Impression, Memory, Ranking

__all__ = ["ClickModel"]

Table = NDArray[np.float64]

POSITIONS = 20  # number of positions with their own parameters; lower positions share the last ones
BELIEF = 10.0  # weight of the initial parameters, in observations


@dataclass(frozen=True, repr=False)
class ClickModel(Examination):
    """A seen document is clicked if it attracts; the posterior probability of having been seen is exact, given all clicks.

    Parameters
    ----------
    attraction
        P(click | seen) of every document; the initial value if it is learned.
    forgetting
        None: the parameters stay as given. A number: online EM learns them from every impression, clicked or not, and each new
        observation multiplies the weight of earlier ones by it: 0.999 remembers about the last thousand, 1 all of them.
        Attraction is then a logistic regression on the features (a parameter per document would need unbounded memory); it can
        be separated from the effect of position because exploration shows documents at different positions.

    References
    ----------
    Wang et al., "Position bias estimation for unbiased learning to rank in personal search" (WSDM 2018), for regression EM; Cappé
    and Moulines, "On-line expectation-maximization algorithm for latent data models" (JRSS B 2009).
    """

    attraction: Annotated[float, Between(1e-6, 0.999999, tuned=(0.05, 0.95))] = 0.3
    forgetting: Annotated[float, Between(0.0, 1.0)] | None = None

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return P(seen | clicks) of each position, with the parameters from before this list."""
        return self._apply(memory, impression, feedback, -1.0)[0]

    def observe(self, memory: Memory, impression: Impression, feedback: Feedback) -> Memory:
        """Take one step of online EM; the memory does not change if the parameters are fixed."""
        if self.forgetting is None or not feedback.clicks.shape[0]:
            return memory
        _, documents, users = self._apply(memory, impression, feedback, self.forgetting)
        return {**memory, "examination_documents": documents, "examination_users": users}

    def _apply(
        self, memory: Memory, impression: Impression, feedback: Feedback, forgetting: float
    ) -> tuple[Table, Table, Table]:
        features = impression.query.features
        documents = memory.get("examination_documents")
        if documents is None:
            documents = np.zeros((2, features.shape[1] + 1))
            documents[0, -1] = log(self.attraction / (1.0 - self.attraction))
        users = memory.get("examination_users", self._prior)
        return self.step(features, impression.ranking, feedback.clicks, documents, users, forgetting)

    @cached_property
    def _prior(self) -> Table:
        """Return successes and trials that represent the initial probabilities."""
        chances = np.array(self.chances())
        return BELIEF * np.array([chances, np.ones_like(chances)])

    @abstractmethod
    def chances(self) -> list[float]:
        """Return the initial probabilities of the model: one per column of the table of users."""

    @staticmethod
    @abstractmethod
    def step(
        features: Features, ranking: Ranking, clicks: Clicks, documents: Table, users: Table, forgetting: float
    ) -> tuple[Table, Table, Table]:
        """Call the kernel of the model: return P(seen | clicks) per position, and both tables after the list."""
