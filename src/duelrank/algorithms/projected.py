"""Wraps an algorithm and projects its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from duelrank.algorithms.base import Algorithm, StepExplanation
from duelrank.algorithms.dbgd import DBGD
from duelrank.core.errors import InvalidRecipe
from duelrank.core.memory import replaced
from duelrank.core.registry import register
from duelrank.core.types import Feedback, Gradient, Impression, Memory, Query, Ranking, State, Stream, Weights
from duelrank.projection import DocumentSpace, Projection


@register
@dataclass(frozen=True, repr=False)
class Projected(Algorithm):
    """Wrap an algorithm: it explores and compares as before, and its gradient is projected before the update.

    Parameters
    ----------
    base
        The algorithm to wrap.
    projection
        The projection of its gradients.

    References
    ----------
    Wang et al., "Variance reduction in gradient exploration for online learning to rank" (SIGIR 2019).

    Examples
    --------
    No document has the third feature. A plain ranker drifts along it all the same; a projected one does not:

    >>> from duelrank import Feedback, Learner, Query
    >>> query = Query("shoes", [[0.9, 0.1, 0.0], [0.1, 0.8, 0.0], [0.5, 0.5, 0.0]])
    >>> for learner in (Learner("mgd", 3), Learner("Projected(mgd)", 3)):
    ...     for _ in range(100):
    ...         shown = learner.rank(query)
    ...         learner.learn(shown, Feedback(shown.ranking == 1))
    ...     print(abs(learner.weights).round(3).tolist())
    [0.018, 0.014, 0.013]
    [0.03, 0.024, 0.0]
    """

    # The projection scales gradients to length 1 by default, so their length before does not matter.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"base.inference.unit"})

    base: Algorithm = DBGD()
    projection: Projection = DocumentSpace()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.base, Projected):
            raise InvalidRecipe(f"{self.base!r} is already projected; an algorithm can be projected only once")
        self.base.check_linear(
            "its gradient has no components in the space of the documents, so it cannot be projected"
        )

    @property
    def moves_without_clicks(self) -> bool:  # type: ignore[override]  # of this recipe
        """Whether the base may change its weights without a click."""
        return self.base.moves_without_clicks

    def start(self, n_features: int, stream: Stream) -> State:
        """Start as the base does."""
        begun = self.base.start(n_features, stream)
        return State(begun.weights, begun.step, begun.updates, replaced({}, "base", begun.memory))

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Explore as the base does."""
        return self.base.explore(state.of("base"), query, length, stream)

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Observe a list as the base does."""
        return self.base.observe_list(state.of("base"), query, ranking, stream)

    def best(self, state: State, query: Query, stream: Stream) -> Ranking:
        """Rank as the base does."""
        return self.base.best(state.of("base"), query, stream)

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the projected gradient of the base."""
        gradient, learned = self.base.gradient(state.of("base"), impression, feedback, stream)
        own = state.of("projection").memory
        gradient, projected = self.projection.project(gradient, own, impression, feedback)
        return gradient, replaced(replaced(state.memory, "base", learned), "projection", projected)

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move as the base does."""
        weights, memory = self.base.update(state.of("base"), gradient)
        return weights, replaced(state.memory, "base", memory)

    def explain_step(self, state: State, impression: Impression, feedback: Feedback, stream: Stream) -> StepExplanation:
        """Return the components of the step: the direction of the base, its projection, and the examined positions."""
        direction, _ = self.base.gradient(state.of("base"), impression, feedback, stream.copy())
        followed, _ = self.gradient(state, impression, feedback, stream.copy())
        after = self.learn(state, impression, feedback, stream.copy())
        examined = self.projection.examined(state.of("projection").memory, impression, feedback)
        return StepExplanation(state.weights, after.weights, direction, followed, examined)
