"""One representation after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidRecipe
from duelrank.registry import register, spell
from duelrank.representation.base import Curve, Domain, Representation
from duelrank.representation.fixed import Fixed
from duelrank.types import Features, Memory, Stream, Weights

__all__ = ["Chain"]


@register
@dataclass(frozen=True, repr=False)
class Chain(Representation):
    """Apply one representation to what another returns; written ``first >> then``. Its memory is that of the second one.

    Parameters
    ----------
    first
        A representation that learns nothing, with one column for each feature.
    then
        Any representation but another chain.

    Examples
    --------
    Prices become places in the range of the query, and then two ramps each:

    >>> import numpy as np
    >>> from duelrank.representation import QueryScaled, Ramps
    >>> QueryScaled() >> Ramps(pieces=2)
    Chain(first=QueryScaled(), then=Ramps(pieces=2))
    >>> halves = {"knots": np.array([[0.0, 0.5, 1.0]])}
    >>> (QueryScaled() >> Ramps(pieces=2)).apply(np.array([[10.0], [25.0], [30.0]]), halves).tolist()
    [[0.0, 0.0], [1.0, 0.5], [1.0, 1.0]]
    """

    first: Representation
    then: Representation

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first.learns:
            raise InvalidRecipe(
                f"{self.first!r} learns from the documents, so it can only be the last representation before the algorithm"
            )
        if isinstance(self.then, Chain):
            raise InvalidRecipe(f"write {self!r} as one chain, from left to right: a >> b >> c")

    @property
    def spelling(self) -> str:
        """Both, with ``>>`` between them."""
        return f"{spell(self.first)} >> {spell(self.then)}"

    @property
    def learns(self) -> bool:  # type: ignore[override]  # of this chain
        """Whether the second one learns from the documents that it sees."""
        return self.then.learns

    @property
    def within_unit(self) -> bool:  # type: ignore[override]  # of this chain
        """Whether all columns are between 0 and 1."""
        return self.then.within_unit

    @property
    def domain(self) -> Domain:  # type: ignore[override]  # of this chain
        """What the curves are functions of."""
        if self.then.domain != "value":
            return self.then.domain
        return "scaled value" if isinstance(self.first, Fixed) else self.first.domain

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Start as the second one does; raise `ShapeMismatch` if the first is for another number of features."""
        self.first.start(n_features)
        return self.then.start(n_features, self.first.within_unit)

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return the number of columns of the second one."""
        return self.then.n_columns(n_features, memory)

    def apply(self, features: Features, memory: Memory) -> Features:
        """Apply both."""
        return self.then.apply(self.first.apply(features, {}), memory)

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Apply both."""
        return self.then.apply_all(self.first.apply_all(features, offsets, {}), offsets, memory)

    def observe(
        self, memory: Memory, features: Features, step: int, stream: Stream, first: Representation | None = None
    ) -> Memory:
        """Let the second one see what the first makes of the documents."""
        return self.then.observe(memory, features, step, stream, self.first)

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Carry the weights of the second one."""
        return self.then.carry(weights, before, after)

    def selected(
        self, weights: Weights, memory: Memory, features: NDArray[np.int64], unit: bool = False
    ) -> tuple[Weights, Memory]:
        """Select as the second one does."""
        return self.then.selected(weights, memory, features, self.first.within_unit)

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return the curves of the second one, over what the first returns."""
        return self.then.curves(weights, memory)
