"""Validates plain values given by users."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, isfunction, signature
from numbers import Number
from operator import index
from reprlib import repr as shortened
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from duelrank.core.errors import DuelrankError, InvalidCall, InvalidValue, UnknownName

C = TypeVar("C", bound=Callable[..., Any])


def explained(callee: C) -> C:
    """Decorate a function, or a class with its public methods: arguments of a wrong kind raise an error that names the right one.

    Arguments are checked only after a call has failed, so valid calls take no longer.

    Examples
    --------
    >>> @explained
    ... def scaled(number, factor=2): ...
    >>> scaled(3, faktor=4)
    Traceback (most recent call last):
    duelrank.core.errors.InvalidCall: scaled(): no parameter is called 'faktor'; did you mean factor? known: factor, number
    """
    if isinstance(callee, type):
        for name, member in list(vars(callee).items()):
            if name == "__init__" or not name.startswith("_"):
                if isinstance(member, (classmethod, staticmethod)):
                    setattr(callee, name, type(member)(explained(member.__func__)))
                elif isfunction(member):
                    setattr(callee, name, explained(member))
        return callee

    @wraps(callee)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return callee(*arguments, **named)
        except (AttributeError, TypeError, ValueError) as error:  # the usual results of arguments of a wrong kind
            if isinstance(error, DuelrankError) or (found := _misfit(callee, arguments, named)) is None:
                raise
            raise found from error

    return call  # type: ignore[return-value]


def _misfit(callee: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> InvalidCall | None:
    """Return the error for arguments that do not fit the signature or its types, or None if they fit."""
    known = signature(callee)
    label = callee.__qualname__.removesuffix(".__init__") + "()"
    try:
        given = known.bind(*arguments, **named).arguments
    except TypeError as error:
        names = [name for name in known.parameters if name not in ("self", "cls")]
        unknown = [name for name in named if name not in names]
        if unknown and not any(each.kind is Parameter.VAR_KEYWORD for each in known.parameters.values()):
            return InvalidCall(f"{label}: {UnknownName.among('parameter', unknown[0], names)}")
        return InvalidCall(f"{label}: {error}; its parameters are {', '.join(names) or 'none'}")
    try:
        hints = get_type_hints(callee)
    except (NameError, TypeError):  # names that only type checkers import
        return None
    for name, value in given.items():
        if not _fits(value, hints.get(name, Any)):
            wanted = known.parameters[name].annotation
            return InvalidCall(f"{label}: {name} must be {wanted}, got {type(value).__name__}: {shortened(value)}")
    return None


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value may be of a type, judged by the outermost class only; numbers fit each other."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or kind is Any:
        return True
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
    return isinstance(value, kind) or (issubclass(kind, Number | int | float) and isinstance(value, Number))


def whole_number(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return a whole number within bounds as an ``int``, or raise an error that names the parameter.

    Examples
    --------
    >>> whole_number("length", 10)
    10
    >>> whole_number("length", 0)
    Traceback (most recent call last):
    duelrank.core.errors.InvalidValue: length must be a whole number from 1 up, got 0
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
    r"""Return a name, or raise an error if it is empty, too long, or has characters that cannot be printed.

    Examples
    --------
    >>> printable_name("the name of a feature", "title_bm25", 200)
    'title_bm25'
    >>> printable_name("the name of a feature", "title\0bm25", 200)
    Traceback (most recent call last):
    duelrank.core.errors.InvalidValue: the name of a feature has 1 to 200 characters that can be printed, got 'title\x00bm25'
    """
    if not 0 < len(name) <= most or not name.isprintable():
        shown = repr(name) if len(name) <= most else f"{name[:20]!r}… of {len(name):,} characters"
        raise InvalidValue(f"{what} has 1 to {most} characters that can be printed, got {shown}")
    return name
