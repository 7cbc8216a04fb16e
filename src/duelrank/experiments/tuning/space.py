"""Finds the parameters of a recipe that a search varies, each with the range that is declared beside what is allowed."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.core.registry import Between, P, Part, replaced_at, type_hint, walk

__all__ = ["Parameter", "search_space", "value_at", "variants", "with_values"]

#: The range of a parameter, or the values to choose from.
Value = float | int | str | bool | None


@dataclass(frozen=True)
class Parameter:
    """A parameter that a search varies: in a range, or among choices.

    Parameters
    ----------
    name
        The name of the field; with the path that leads to it where two parts of the recipe have a field of that name.
    path
        The names of the fields that lead to it.
    low, high, log, whole
        The range: its ends, whether steps are by a factor, and whether only whole numbers are tried.
    choices
        The values to choose from, instead of a range.
    start
        Where a search begins: the value in the recipe, or what of the range comes closest to it.
    """

    name: str
    path: tuple[str, ...]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    choices: tuple[Value, ...] = ()
    start: Value = None

    def rounded(self, value: Any) -> Any:
        """Return a value with four digits; the one that the search begins with as it is."""
        if self.choices or self.whole or value == self.start:
            return value
        digits = 3 - math.floor(math.log10(value)) if self.log else 4 - math.floor(math.log10(self.high - self.low))
        return min(max(round(value, digits), self.low), self.high)

    def __str__(self) -> str:
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        return f"from {self.low:g} to {self.high:g}{', by factors' if self.log else ''}"


def search_space(recipe: Part, vary: Sequence[str] = (), fix: Sequence[str] = ()) -> tuple[Parameter, ...]:
    """Return the parameters of a recipe to search: those with a declared range, or only the named ones.

    Parameters
    ----------
    vary
        Names of parameters: ``learning_rate``; with a range of their own: ``learning_rate=0.01:1:log``, ``beyond=0:5``; with
        choices: ``n_candidates=9,49``, ``rescale=unit,preserve``, ``slow_down=None,100,1000``.
    fix
        Names of parameters to leave as they are in the recipe.
    """
    known = dict(_fields(recipe))
    fixed = {_find(known, name) for name in fix}
    asked = dict(_asked(known, text) for text in vary)
    paths = list(asked) if asked else list(_tuned(recipe, known))
    found = tuple(_parameter(recipe, known, path, asked.get(path, "")) for path in paths if path not in fixed)
    if not found:
        raise InvalidValue(
            f"nothing to search: {_text(recipe)} has no parameter with a declared range"
            f"{' that is not fixed' if fixed else ''}; name one: --vary NAME=LOW:HIGH (it has {', '.join(_names(known))})"
        )
    return found


def with_values(recipe: P, space: Sequence[Parameter], values: Mapping[str, Any]) -> P:
    """Return a recipe with other values of parameters; numbers get four digits, so that its text stays readable."""
    return replaced_at(recipe, {each.path: each.rounded(values[each.name]) for each in space})


def variants(recipe: P, space: Sequence[Parameter]) -> list[P]:
    """Return a recipe with each choice, and with both ends of each range, one parameter at a time."""
    return [replaced_at(recipe, {each.path: value}) for each in space for value in each.choices or _ends(each)]


def _ends(each: Parameter) -> tuple[Value, Value]:
    return (int(each.low), int(each.high)) if each.whole else (each.low, each.high)


Path = tuple[str, ...]
Fields = Mapping[Path, Any]


def _fields(recipe: Part) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the type hint of each parameter that is no part itself."""
    for path, owner in walk(recipe):
        for item in fields(owner):
            hint = type_hint(type(owner), item.name)
            if _options(hint) or _numbers(hint):
                yield (*path, item.name), hint


def _tuned(recipe: Part, known: Fields) -> Iterator[Path]:
    """Yield the parameters with a declared range, without those that have no effect or are to stay."""
    closed = {
        (*path, *name.split(".")) for path, owner in walk(recipe) for name in owner.inert_fields | owner.untuned_fields
    }
    for path, hint in known.items():
        bounds = _numbers(hint)
        declared = bounds is not None and bool(bounds[1].tuned or bounds[1].choices)
        if declared and not any(path[: len(prefix)] == prefix for prefix in closed):
            yield path


def _numbers(hint: Any) -> tuple[bool, Between] | None:
    """Return whether a hint asks for whole numbers, and their bounds; None if it does not ask for a number."""
    for option in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        inner, bounds = get_args(option) if get_origin(option) is Annotated else (option, Between())
        if inner in (int, float):
            return inner is int, bounds
    return None


def _options(hint: Any) -> tuple[Value, ...]:
    """Return all values of a hint that allows only a few."""
    if hint is bool:
        return (False, True)
    return get_args(hint) if get_origin(hint) is Literal else ()


def _names(known: Fields) -> list[str]:
    """Return the shortest name of each parameter."""
    return [_name(known, path) for path in known]


def _name(known: Fields, path: Path) -> str:
    same = [other for other in known if other[-1] == path[-1]]
    return path[-1] if len(same) == 1 else ".".join(path)


def _find(known: Fields, name: str) -> Path:
    """Return the path of a parameter that is given by its name or by its whole path."""
    found = [path for path in known if name in (path[-1], ".".join(path))]
    if not found:
        raise UnknownName.among("parameter", name, _names(known))
    if len(found) > 1:
        places = ", ".join(".".join(path) for path in found)
        raise InvalidValue(f"{name!r} could be any of {places}: give one of these")
    return found[0]


def _asked(known: Fields, text: str) -> tuple[Path, str]:
    name, _, wanted = text.partition("=")
    return _find(known, name.strip()), wanted.strip()


def _parameter(recipe: Part, known: Fields, path: Path, wanted: str) -> Parameter:
    name, hint = _name(known, path), known[path]
    value = value_at(recipe, path)
    numbers = _numbers(hint)
    if wanted and ":" in wanted and numbers:
        low, high, log = _given_range(name, wanted, numbers)
        return _in_range(recipe, name, path, numbers, value, low, high, log)
    if wanted:
        return _among(recipe, name, path, tuple(_plain(each.strip()) for each in wanted.split(",")), value)
    if numbers is None:
        return _among(recipe, name, path, _options(hint), value)
    bounds = numbers[1]
    if bounds.choices:
        several = sorted({*bounds.choices, *([] if value is None else [value])})
        return _among(recipe, name, path, tuple(several), value)
    if bounds.tuned is None:
        raise InvalidValue(f"{name} has no declared range: give one, --vary {name}=LOW:HIGH or {name}=LOW:HIGH:log")
    low, high = bounds.tuned
    if value is not None and (value > 0 or not bounds.log):
        low, high = min(low, value), max(high, value)  # the recipe's own value can always be found again
    return _in_range(recipe, name, path, numbers, value, low, high, bounds.log)


def _in_range(
    recipe: Part, name: str, path: Path, numbers: tuple[bool, Between], value: Value, low: float, high: float, log: bool
) -> Parameter:
    whole, bounds = numbers
    end = low if bounds.none == "low" else high
    start = end if value is None else min(max(float(value), low), high)
    found = Parameter(name, path, low, high, log, whole, (), int(start) if whole else start)
    for number in (low, high):
        replaced_at(recipe, {path: int(number) if whole else number})  # an error says what is allowed
    return found


def _among(recipe: Part, name: str, path: Path, choices: tuple[Value, ...], value: Value) -> Parameter:
    made = [replaced_at(recipe, {path: choice}) for choice in choices]  # an error says what is allowed
    choices = tuple(dict.fromkeys(value_at(each, path) for each in made))
    return Parameter(name, path, choices=choices, start=value if value in choices else choices[0])


def _given_range(name: str, text: str, numbers: tuple[bool, Between]) -> tuple[float, float, bool]:
    """Read ``low:high`` or ``low:high:log``."""
    first, _, rest = text.partition(":")
    last, _, how = rest.partition(":")
    low, high = _plain(first.strip()), _plain(last.strip())
    usual = int if numbers[0] else (int, float)
    if not isinstance(low, usual) or not isinstance(high, usual) or how not in ("", "log"):
        kind = "whole numbers" if numbers[0] else "numbers"
        raise InvalidValue(f"the range of {name} must be LOW:HIGH or LOW:HIGH:log with {kind}, got {text!r}")
    if not low < high or (how and low <= 0):
        raise InvalidValue(f"the range of {name} must ascend{' from above 0' if how else ''}, got {text!r}")
    return float(low), float(high), bool(how)


def _plain(text: str) -> Any:
    """Return a text as the plain value it looks like."""
    named = {"None": None, "True": True, "False": False}
    if text in named:
        return named[text]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if math.isfinite(number) else text
    return text


def value_at(recipe: Part, path: Path) -> Any:
    """Return the value of a parameter of a recipe."""
    found: Any = recipe
    for name in path:
        found = getattr(found, name)
    return found


def _text(recipe: Part) -> str:
    from duelrank.core.registry import spell

    return spell(recipe)
