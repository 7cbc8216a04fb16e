"""Remembers the recorded lists, so that each counts once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from duelrank.core.errors import InvalidValue
from duelrank.core.validation import whole_number

__all__ = ["Recorded"]

_BLOCK = 1024  # lists per block of flags


@dataclass
class Recorded:
    """A set of lists by seed and number, with one bit per list in sparse blocks, so that large numbers need no more memory."""

    blocks: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, seed: int, number: int) -> bool:
        """Add a list; return whether it is new."""
        block, bit = (seed, number // _BLOCK), 1 << number % _BLOCK
        before = self.blocks.get(block, 0)
        self.blocks[block] = before | bit
        return not before & bit

    def merge(self, other: Recorded) -> None:
        """Add all lists of another set; the two sets must be disjoint."""
        if any(flags & self.blocks.get(block, 0) for block, flags in other.blocks.items()):
            raise InvalidValue("both comparisons have recorded some of the same lists, which would count twice")
        for block, flags in other.blocks.items():
            self.blocks[block] = self.blocks.get(block, 0) | flags

    def to_list(self) -> list[list[Any]]:
        """Return the set as JSON-compatible values: seed, block, and its flags in hexadecimal digits."""
        return [[seed, block, f"{flags:x}"] for (seed, block), flags in self.blocks.items()]

    @classmethod
    def from_list(cls, data: list[list[Any]]) -> Recorded:
        """Restore a set from the values of `to_list`."""
        blocks = {}
        for seed, block, digits in data:
            flags = int(digits, 16)
            if not 0 < flags < 1 << _BLOCK:
                raise InvalidValue(
                    f"a block of recorded lists in a stored comparison must have {_BLOCK} flags, got {digits!r}"
                )
            blocks[whole_number("a seed", seed, 0), whole_number("the number of a block", block, 0)] = flags
        return cls(blocks)
