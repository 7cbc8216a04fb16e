"""Twin of `Chain`: what its first representation does is in the table already."""

from __future__ import annotations

from typing import Any, ClassVar

from duelrank.lockstep.twin import Twin, twin
from duelrank.representation import Chain

__all__ = ["ChainTwin"]


@twin(Chain)
class ChainTwin(Twin):
    """Only the second one is left."""

    ignored: ClassVar[tuple[str, ...]] = ("first",)
    then: Any

    @property
    def shape(self) -> tuple[Any, ...]:
        """That of the second one."""
        shape: tuple[Any, ...] = self.then.shape
        return shape

    def numbers(self) -> dict[str, Any]:
        """Return those of the second one."""
        numbers: dict[str, Any] = self.then.numbers()
        return numbers
