"""Representations in JSON: the text of a recipe, or an object that names the features for fixed scalings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from duelrank.errors import InvalidRecipe, InvalidValue, UnknownName
from duelrank.grammar import parse
from duelrank.registry import spell
from duelrank.representation.base import Representation
from duelrank.representation.fixed import Fixed, MinMax, Scaling, Standard, Unscaled

__all__ = ["read_representation", "write_representation"]

# Kinds of scalings, which are those of Elasticsearch-LTR -> class, names of its numbers.
_SCALINGS: dict[str, tuple[type[MinMax] | type[Standard], tuple[str, str]]] = {
    "min_max": (MinMax, ("minimum", "maximum")),
    "standard": (Standard, ("mean", "standard_deviation")),
}


def read_representation(given: Any, names: Sequence[str]) -> Representation:
    """Return the representation that JSON describes, for features of these names.

    Examples
    --------
    >>> read_representation("query-scaled >> ramps", ["bm25", "price"])
    Chain(first=QueryScaled(), then=Ramps())
    >>> scaled = {"price": {"min_max": {"minimum": 0, "maximum": 9}}}
    >>> read_representation({"kind": "fixed", "features": scaled}, ["bm25", "price"])
    Fixed(scalings=(Unscaled(), MinMax(minimum=0.0, maximum=9.0)))
    """
    if isinstance(given, str):
        return parse(given, Representation)
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if kind == "fixed":
        return _fixed(given, names)
    raise InvalidValue(
        'a representation is the text of a recipe, such as "query-scaled >> ramps", or '
        f'{{"kind": "fixed", "features": {{...}}}}, got {given!r}'
    )


def write_representation(representation: Representation, names: Sequence[str]) -> str | dict[str, Any]:
    """Return the JSON from which `read_representation` makes the same again."""
    if not isinstance(representation, Fixed):
        return spell(representation)
    found = {}
    for name, each in zip(names, representation.scalings, strict=True):
        for kind, (cls, (first, second)) in _SCALINGS.items():
            if isinstance(each, cls):
                numbers = [getattr(each, field.name) for field in fields(each)]
                found[name] = {kind: dict(zip((first, second), numbers, strict=True))}
    return {"kind": "fixed", "features": found}


def _fixed(given: Mapping[str, Any], names: Sequence[str]) -> Fixed:
    scalings = given.get("features")
    if not isinstance(scalings, Mapping) or len(given) != 2:
        raise InvalidValue('fixed scalings are {"kind": "fixed", "features": {name: {...}}}')
    for name in scalings:
        if name not in names:
            raise UnknownName.among("feature", str(name), names)
    return Fixed(tuple(_scaling(name, scalings.get(name)) for name in names))


def _scaling(name: str, given: Any) -> Scaling:
    if given is None:
        return Unscaled()
    if isinstance(given, Mapping) and len(given) == 1:
        kind, numbers = next(iter(given.items()))
        if kind in _SCALINGS and isinstance(numbers, Mapping) and set(numbers) == set(_SCALINGS[kind][1]):
            scaling, (first, second) = _SCALINGS[kind]
            try:
                return scaling(numbers[first], numbers[second])
            except InvalidRecipe as error:
                raise InvalidValue(f"the scaling of feature {name!r}: {error}") from None
    shapes = '{"min_max": {"minimum": …, "maximum": …}}, {"standard": {"mean": …, "standard_deviation": …}}'
    raise InvalidValue(f"the scaling of feature {name!r} must be {shapes} or null, got {given!r}")
