"""What all values of a guard have in common: they are immutable, and go to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from duelrank.core.errors import InvalidValue

__all__ = ["Value"]


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that is replaced, never changed; equal values behave equally from here on."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, from which `from_dict` makes an equal value."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the value that `to_dict` has written."""
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise InvalidValue(f"this is not a stored {cls.__name__}: {error}") from None
