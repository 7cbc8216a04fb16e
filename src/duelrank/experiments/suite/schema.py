"""Reads the tables of a suite file into dataclasses, with errors that name the key."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from duelrank.core.errors import InvalidValue, UnknownName

__all__ = ["read_table"]

_PLAIN: dict[Any, tuple[str, str]] = {
    str: ("a text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    int | float: ("a number", "numbers"),
}
_TABLE = ("a table", "tables")


def read_table(cls: type, table: Mapping[str, Any], where: str, given: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the arguments of a dataclass from a table of a suite file; lists become tuples.

    Parameters
    ----------
    where
        The name of the table in error messages: "my-suite.toml, experiment 2 (curves)".
    given
        Fields that do not come from the file.
    """
    hints = get_type_hints(cls)
    known = {item.name: item for item in fields(cls) if item.name not in given}
    for key, value in table.items():
        if key not in known:
            raise InvalidValue(f"{where}: {UnknownName.among('key', key, known)}")
        if not _fits(value, hints[key]):
            raise InvalidValue(f"{where}: {key} must be {_wanted(hints[key])}, got {value!r}")
    needed = (name for name, item in known.items() if item.default is MISSING and item.default_factory is MISSING)
    missing = [name for name in needed if name not in table]
    if missing:
        raise InvalidValue(f"{where}: the key {missing[0]} is missing; it must be {_wanted(hints[missing[0]])}")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, list) and all(_fits(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    if hint is float or isinstance(hint, types.UnionType):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint if hint in _PLAIN else dict)


def _wanted(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(f'"{choice}"' for choice in arguments)
    if origin is tuple:
        return f"a list of {_PLAIN.get(arguments[0], _TABLE)[1]}"
    if origin is dict:
        return "a table of texts"
    return _PLAIN.get(hint, _TABLE)[0]
