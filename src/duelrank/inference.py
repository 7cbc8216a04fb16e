"""Stage 5: infers the winners of a comparison, and the gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.core.registry import Between, Part, register
from duelrank.core.types import NO_BOOSTS, Credit, Feedback, Gradient, Impression, Memory, State, Stream
from duelrank.kernels import inference as kernel
from duelrank.kernels.ranking import rankings


@dataclass(frozen=True, repr=False)
class Inference(Part, ABC):
    """Convert the credit of a comparison into a gradient, which is zero if no candidate beat the current ranker.

    ``state.memory`` is the memory of this part only, and so is the memory that `infer` returns.
    """

    kind: ClassVar[str] = "inference"
    learning_only: ClassVar[tuple[str, ...]] = ("*",)

    @abstractmethod
    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the gradient and the new memory; candidate i ranked with weights + delta · direction i."""


@register
@dataclass(frozen=True, repr=False)
class BestWinner(Inference):
    """Take the direction with the most credit among those that beat the current ranker; the first one of a tie.

    References
    ----------
    Schuth et al., "Multileave gradient descent for fast online learning to rank" (WSDM 2016), as winner-takes-all.

    Examples
    --------
    The same comparison as in `MeanWinner`: of two winners, the second one has more credit.

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query, State
    >>> from duelrank.inference import BestWinner
    >>> from duelrank.core.randomness import stream
    >>> tried = {"directions": np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])}
    >>> shown = Impression(Query("shoes", [[0.5, 0.5]]), np.array([0]), tried)
    >>> credit, draws = np.array([1.0, 2.0, 3.0, 0.0]), stream(1, "infer")
    >>> BestWinner().infer(State(np.zeros(2)), shown, Feedback([True]), credit, 1.0, draws)[0].tolist()
    [0.0, 1.0]
    """

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the winning direction."""
        chosen = kernel.winners(credit)
        if chosen.size > 1:
            best = credit[1:][chosen].argmax()
            chosen = chosen[best : best + 1]
        return kernel.mean_direction(impression.trace["directions"], chosen, False), state.memory


@register
@dataclass(frozen=True, repr=False)
class MeanWinner(Inference):
    """Average the directions of all candidates that beat the current ranker.

    Parameters
    ----------
    unit
        Scale the mean to length 1. A mean of several unit vectors is short; this separates the effect of a longer step from
        that of a better direction.

    References
    ----------
    Schuth et al., "Multileave gradient descent for fast online learning to rank" (WSDM 2016).

    Examples
    --------
    Three candidates were compared with the current ranker, whose credit comes first; two of them have more:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query, State
    >>> from duelrank.inference import MeanWinner
    >>> from duelrank.core.randomness import stream
    >>> tried = {"directions": np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])}
    >>> shown = Impression(Query("shoes", [[0.5, 0.5]]), np.array([0]), tried)
    >>> credit, draws = np.array([1.0, 2.0, 3.0, 0.0]), stream(1, "infer")
    >>> MeanWinner().infer(State(np.zeros(2)), shown, Feedback([True]), credit, 1.0, draws)[0].tolist()
    [0.5, 0.5]
    """

    unit: bool = False

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the mean winning direction."""
        chosen = kernel.winners(credit)
        return kernel.mean_direction(impression.trace["directions"], chosen, self.unit), state.memory


@register
@dataclass(frozen=True, repr=False)
class CreditWeighted(Inference):
    """Average the directions of all candidates, each weighted by its credit minus that of the current ranker.

    A mean of winners gives narrow and clear wins the same weight and ignores losers. Here a clear win counts more, and a loser
    counts in the opposite direction: the estimate of evolution strategies and two-point gradient methods. It needs graded credit,
    such as that of `SampleOnlyScored` or `Probabilistic`.

    Parameters
    ----------
    losers
        Whether candidates with less credit than the current ranker count, in the opposite direction.
    unit
        Scale the result to length 1.

    References
    ----------
    Flaxman, Kalai and McMahan, "Online convex optimization in the bandit setting: gradient descent without a gradient" (SODA 2005),
    for the estimate; we know of no use of it with multileaving.

    Examples
    --------
    One direction wins clearly and one loses; the opposite of the loser counts as well:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query, State
    >>> from duelrank.inference import CreditWeighted
    >>> from duelrank.core.randomness import stream
    >>> tried = {"directions": np.array([[1.0, 0.0], [0.0, -1.0]])}
    >>> shown, credit = Impression(Query("shoes", [[0.5, 0.5]]), np.array([0]), tried), np.array([0.5, 0.9, 0.3])
    >>> for part in (CreditWeighted(), CreditWeighted(losers=False)):
    ...     gradient, _ = part.infer(State(np.zeros(2)), shown, Feedback([True]), credit, 1.0, stream(1, "infer"))
    ...     print(gradient.round(2).tolist())
    [0.67, 0.33]
    [1.0, 0.0]
    """

    losers: bool = True
    unit: bool = False

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the weighted mean direction."""
        directions = impression.trace["directions"]
        return kernel.weighted_direction(directions, credit, self.losers, self.unit), state.memory


@register
@dataclass(frozen=True, repr=False)
class DifficultQueries(Inference):
    """If there are several winners, each re-ranks remembered hard queries; the one that ranks their clicked documents best wins.

    A query is hard if its clicks were low in the list: small Σ 1/position. The memory has a few slots: the first clicked
    impressions fill them, then a new one replaces one that is too old, or else the easiest if the new one is harder.

    Parameters
    ----------
    when
        "tie": whenever there are several winners, as the paper's text says. "filling": only until the slots are full, as the
        published code does; afterwards the mean of the winners is taken.
    slots
        Number of queries to remember.
    window
        Number of impressions after which a remembered query is too old.

    References
    ----------
    Wang et al., "Efficient exploration of gradient space for online learning to rank" (SIGIR 2018).

    Examples
    --------
    Two candidates win with equal credit. The clicked document was the second; only the second candidate ranks it first:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query, State
    >>> from duelrank.inference import DifficultQueries
    >>> from duelrank.core.randomness import stream
    >>> tried = {"directions": np.array([[1.0, 0.0], [0.0, 1.0]])}
    >>> shown = Impression(Query("shoes", [[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1]), tried)
    >>> tie, draws = np.array([0.0, 1.0, 1.0]), stream(1, "infer")
    >>> DifficultQueries().infer(State(np.zeros(2)), shown, Feedback([False, True]), tie, 1.0, draws)[0].tolist()
    [0.0, 1.0]
    """

    when: Literal["tie", "filling"] = "filling"
    slots: Annotated[int, Between(1, 1000)] = 10
    window: Annotated[int, Between(1, 1_000_000, tuned=(5, 500), log=True)] = 50

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the direction that won, or the mean of the winners if ties are not broken."""
        memory = self._remember(state.memory, state.step, impression, feedback)
        chosen = kernel.winners(credit)
        directions = impression.trace["directions"]
        if chosen.size > 1 and (self.when == "tie" or memory["hard_since"].size < self.slots):
            best = self._replay(memory, state, directions[chosen], delta, stream).argmax()
            chosen = chosen[best : best + 1]
        return kernel.mean_direction(directions, chosen, False), memory

    def _replay(
        self, memory: Memory, state: State, directions: NDArray[np.float64], delta: float, stream: Stream
    ) -> NDArray[np.float64]:
        """Return Σ gain/position of the remembered clicked documents under each candidate."""
        total = np.zeros(directions.shape[0])
        for slot in np.flatnonzero(state.step - memory["hard_since"] <= self.window):
            ranked = rankings(state.weights, directions, delta, memory[f"hard_features_{slot}"], NO_BOOSTS, stream)
            total += kernel.replayed_sums(ranked, memory[f"hard_clicked_{slot}"].astype(np.float64))[1:]
        return total

    def _remember(self, memory: Memory, now: int, impression: Impression, feedback: Feedback) -> Memory:
        ease = kernel.reciprocal_sum(feedback.clicks)
        slot = self._slot(memory, now, ease)
        if slot is None:
            return memory
        # Flags without weights, as in stores of earlier versions.
        given = feedback.clicks if feedback.weights is None else feedback.weights
        gains = np.zeros(impression.query.n_documents, given.dtype)
        gains[impression.ranking] = given
        return {
            **memory,
            "hard_since": _with(memory.get("hard_since", np.empty(0, np.int64)), slot, now),
            "hard_ease": _with(memory.get("hard_ease", np.empty(0)), slot, ease),
            f"hard_features_{slot}": impression.query.features,
            f"hard_clicked_{slot}": gains,
        }

    def _slot(self, memory: Memory, now: int, ease: float) -> int | None:
        """Return the slot for an impression: a free one, one that is too old, or that of an easier query."""
        since = memory["hard_since"].tolist() if "hard_since" in memory else []
        if len(since) < self.slots:
            return len(since)
        for slot, then in enumerate(since):
            if now - then > self.window:
                return slot
        eases = memory["hard_ease"].tolist()
        return eases.index(max(eases)) if max(eases) > ease else None


def _with(array: NDArray[Any], slot: int, value: float) -> NDArray[Any]:
    """Return a copy with the value in the slot, which may be the one after the last."""
    longer = np.append(array, array.dtype.type(value)) if slot == array.size else array.copy()
    longer[slot] = value
    return longer
