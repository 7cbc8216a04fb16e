"""Validates plain values given by users."""

from __future__ import annotations

from operator import index
from typing import Any

from duelrank.errors import InvalidValue

__all__ = ["whole_number"]


def whole_number(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return a whole number within bounds as an ``int``, or raise an error that names the parameter.

    Examples
    --------
    >>> whole_number("length", 10)
    10
    >>> whole_number("length", 0)
    Traceback (most recent call last):
    duelrank.errors.InvalidValue: length must be a whole number from 1 up, got 0
    """
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least or (most is not None and number > most):
        allowed = f"from {least} up" if most is None else f"from {least} to {most}"
        raise InvalidValue(f"{name} must be a whole number {allowed}, got {value!r}")
    return number
