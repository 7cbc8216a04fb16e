"""Breaks ties between winners on remembered queries whose clicks were far down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.inference.base import Inference
from duelrank.kernels import inference as kernel
from duelrank.kernels.ranking import rankings
from duelrank.registry import Between, register
from duelrank.types import Credit, Feedback, Gradient, Impression, Memory, State, Stream

__all__ = ["DifficultQueries"]


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
    >>> from duelrank.randomness import stream
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
            ranked = rankings(state.weights, directions, delta, memory[f"hard_features_{slot}"], stream)
            total += kernel.replayed_sums(ranked, memory[f"hard_clicked_{slot}"].astype(np.float64))[1:]
        return total

    def _remember(self, memory: Memory, now: int, impression: Impression, feedback: Feedback) -> Memory:
        ease = kernel.reciprocal_sum(feedback.clicks)
        slot = self._slot(memory, now, ease)
        if slot is None:
            return memory
        given = (
            feedback.clicks if feedback.weights is None else feedback.weights
        )  # flags, as stores of earlier versions have
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
