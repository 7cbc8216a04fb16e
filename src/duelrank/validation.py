"""Validates plain values given by users."""

from __future__ import annotations

from operator import index
from typing import Any

from duelrank.errors import InvalidValue

__all__ = ["printable_name", "whole_number"]


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


def printable_name(what: str, name: str, most: int) -> str:
    r"""Return a name, or raise where it is empty, too long, or has characters that cannot be printed.

    Examples
    --------
    >>> printable_name("the name of a feature", "title_bm25", 200)
    'title_bm25'
    >>> printable_name("the name of a feature", "title\0bm25", 200)
    Traceback (most recent call last):
    duelrank.errors.InvalidValue: the name of a feature has 1 to 200 characters that can be printed, got 'title\x00bm25'
    """
    if not 0 < len(name) <= most or not name.isprintable():
        shown = repr(name) if len(name) <= most else f"{name[:20]!r}… of {len(name):,} characters"
        raise InvalidValue(f"{what} has 1 to {most} characters that can be printed, got {shown}")
    return name
