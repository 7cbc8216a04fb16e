"""Generates other values for each parameter of a recipe, to test whether it has an effect."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from duelrank.core.errors import DuelrankError
from duelrank.core.registry import Between, P, Part, classes, replaced_at, walk

__all__ = ["variations"]


def variations(recipe: P) -> Iterator[tuple[str, list[P]]]:
    """Yield each parameter's path, with recipes that differ from the given one in that parameter only."""
    inert = [(*path, *name.split(".")) for path, owner in walk(recipe) for name in owner.inert_fields]
    for path, owner in walk(recipe):
        hints = get_type_hints(type(owner), include_extras=True)
        for item in fields(owner):
            whole = (*path, item.name)
            if any(whole[: len(prefix)] == prefix for prefix in inert):
                continue
            values = other_values(getattr(owner, item.name), hints[item.name])
            others = list(_made(recipe, path, item.name, values))
            if others or not isinstance(getattr(owner, item.name), Part):  # there may be no other part of this kind
                yield ".".join((*path, item.name)), others


def _made(recipe: P, path: tuple[str, ...], name: str, values: list[Any]) -> Iterator[P]:
    for value in values:
        try:
            yield replaced_at(recipe, {(*path, name): value})
        except DuelrankError:  # skip values that this recipe does not allow
            continue


def other_values(value: Any, hint: Any) -> list[Any]:
    """Return a few values of the hinted type that differ from the given one."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return [other for option in get_args(hint) for other in other_values(value, option)]
    if origin is Annotated:
        bounds: Between = get_args(hint)[1]
        return [other for other in other_values(value, get_args(hint)[0]) if other in bounds]
    if origin is Literal:
        choices: list[Any] = [choice for choice in get_args(hint) if choice != value]
    elif isinstance(hint, type) and issubclass(hint, Part):
        choices = _other_parts(value, hint)
    elif hint is bool:
        choices = [not value]
    elif hint is int:
        choices = [0, 1, (value or 0) // 2, (value or 0) + 1]
    elif hint is float:
        choices = [0.5 * (value or 1.0), 0.25, 2.0 * (value or 1.0)]
    else:
        choices = []
    return [choice for choice in choices if choice != value]


def _other_parts(value: Part, kind: type[Part]) -> list[Any]:
    others = [cls for cls in classes(kind).values() if cls is not type(value)]
    made = []
    for cls in others:
        try:
            made.append(cls())
        except (TypeError, DuelrankError):  # it has parameters without defaults
            continue
    return made
