"""Registers parts by name. A part is a frozen dataclass with ``parse(repr(part)) == part``."""

from __future__ import annotations

import sys
import types
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, dataclass, fields, replace
from importlib import import_module
from inspect import Signature, signature
from numbers import Integral, Real
from threading import RLock
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from duelrank.core.errors import InvalidRecipe, UnknownName
from duelrank.core.validation import explained

P = TypeVar("P", bound="Part")


@dataclass(frozen=True)
class Between:
    """The closed range that a number must lie in; used as ``Annotated[float, Between(0, 1)]``.

    Parameters
    ----------
    low, high
        The ends of the allowed range.
    tuned
        The ends of the range of a search for good values; None if a search does not change the number.
    log
        Whether a search uses a logarithmic scale, as for a learning rate.
    choices
        The only values that a search tries, instead of a range: for numbers that decide the shape of arrays, because each value
        needs a compilation in lockstep.
    none
        For a number that may also be None: the end of ``tuned`` that is closest to the meaning of None.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import Annotated
    >>> from duelrank.core.registry import Between, Part
    >>> @dataclass(frozen=True)
    ... class Share(Part):
    ...     share: Annotated[float, Between(0.0, 1.0)] = 0.5
    >>> Share(0.7)
    Share(share=0.7)
    """

    low: float = -float("inf")
    high: float = float("inf")
    tuned: tuple[float, float] | None = None
    log: bool = False
    choices: tuple[float, ...] = ()
    none: Literal["low", "high"] = "high"

    def __post_init__(self) -> None:
        wrong = [value for value in (*(self.tuned or ()), *self.choices) if value not in self]
        if wrong or (self.tuned and self.tuned[0] >= self.tuned[1]) or (self.log and self.tuned and self.tuned[0] <= 0):
            raise InvalidRecipe(f"{self.tuned or self.choices} cannot be searched: allowed is {self}")

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return (
            f"at least {self.low:,.10g}" if self.high == float("inf") else f"from {self.low:,.10g} to {self.high:,.10g}"
        )


class PartType(ABCMeta):
    """Makes parts; parameters of inner parts can be given to the outer part, in Python as in texts."""

    @property
    def __signature__(cls) -> Signature:
        """The parameters of the class itself, for `help` and editors."""
        return Signature([*signature(cls.__init__).parameters.values()][1:])  # type: ignore[misc]

    def __call__(cls, *positional: Any, **named: Any) -> Any:
        """Make a part, or raise an error that lists the parameters."""
        if cls.__abstractmethods__:
            undefined = ", ".join(sorted(cls.__abstractmethods__))
            raise InvalidRecipe(
                f"{cls.__name__} does not define {undefined}; {_describe_hint(cls)} can be used instead"
            )
        own = [item.name for item in fields(cls)]  # type: ignore[arg-type]  # all parts are dataclasses
        if len(positional) > len(own):
            possible = ", ".join(own) or "none"
            raise InvalidRecipe(f"{cls.__name__} has {len(own)} parameters ({possible}), got {len(positional)}")
        given = dict(zip(own, positional, strict=False))
        if twice := given.keys() & named.keys():
            raise InvalidRecipe(f"{cls.__name__}: {min(twice)!r} is given twice")
        given |= {name: value for name, value in named.items() if name in own}
        needed = [item.name for item in fields(cls) if _default(item) is MISSING]  # type: ignore[arg-type]
        if missing := [name for name in needed if name not in given]:
            raise InvalidRecipe(f"{cls.__name__} needs a value for {' and '.join(missing)}")
        part = super().__call__(**given)
        return override(part, {name: value for name, value in named.items() if name not in own}, cls.__name__)


@dataclass(frozen=True, repr=False)
class Part(metaclass=PartType):
    """The base class of all registered things: algorithms, their stages, users, data sets and metrics.

    A part holds parameters and other parts, never arrays, so it can be hashed, compared, pickled and printed. Field types
    are checked when a part is made, from Python and from text alike.

    Examples
    --------
    >>> from duelrank import parse
    >>> part = parse("mgd(n_candidates=3)")
    >>> part == parse(repr(part)), part.exploration.n_candidates
    (True, 3)
    """

    kind: ClassVar[str] = "part"
    #: Fields, including those of inner parts (``exploration.n_low``), that may have no effect on results, such as a choice between
    #: two methods for the same result.
    inert_fields: ClassVar[frozenset[str]] = frozenset()
    #: Fields that were added after runs had been stored, each with the value that reproduces those runs; at that value the field
    #: does not change the digest of a run.
    added_fields: ClassVar[Mapping[str, Any]] = {}
    #: Fields, including those of inner parts, that a search for good values does not change, because another value would make it
    #: another algorithm: a duel has one candidate.
    untuned_fields: ClassVar[frozenset[str]] = frozenset()
    #: Names, or patterns such as ``hard_*``, of the entries of its memory that learning needs and ranking does not: checkpoints of
    #: a service contain them, versions do not.
    learning_only: ClassVar[tuple[str, ...]] = ()
    #: Names or patterns of the entries of its memory that stay if a service rolls back to an earlier version, or changes features.
    lasting: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            value = getattr(self, name)
            checked = _converted(value, hint, f"{type(self).__name__}.{name}")
            if checked is not value:
                object.__setattr__(self, name, checked)

    @property
    def spelling(self) -> str | None:
        """A special text that `parse` turns back into the part, such as ``a >> b``; most parts have none."""
        return None

    @classmethod
    def from_path(cls, text: str) -> Part | None:
        """Return the part for a text that is a path instead of a recipe, or None; for kinds that are read from files."""
        return None

    def __repr__(self) -> str:
        given = (f"{name}={value!r}" for name, value in _changed(self))
        return f"{type(self).__name__}({', '.join(given)})"


_CLASSES: dict[str, type[Part]] = {}
_ALIASES: dict[str, Part] = {}
#: The module that registered each alias.
_ALIAS_MODULES: dict[str, str] = {}
#: Functions that return aliases which change at run time, such as the data sets that a user has imported.
_SOURCES: list[Callable[[], Mapping[str, Part]]] = []
#: The function that parses a text where a part is required; set by the grammar, which imports this module.
_READERS: list[Callable[[str, type[Part]], Part]] = []
_HINTS: dict[type[Part], dict[str, Any]] = {}
_MISFIT = object()
#: The answers of `spell` within `spelling_once`.
_spelled: ContextVar[dict[Part, str] | None] = ContextVar("_spelled", default=None)
#: The packages that register parts and are not imported yet; they are imported at the first look-up of a name.
_packages = ["algorithms", "datasets", "evaluation", "exploration", "inference", "metrics"]
_packages += ["multileaving", "projection", "representation", "scoring", "simulation", "updates", "users"]
_importing = RLock()


def _import_packages() -> None:
    with _importing:
        while _packages:
            import_module(f"duelrank.{_packages.pop()}")


def register(cls: type[P]) -> type[P]:
    """Class decorator: register a part by its class name.

    A class that is defined again in the same place of the same module replaces the earlier one, as when a notebook cell
    runs again.
    """
    if not isinstance(cls, PartType):
        raise InvalidRecipe(
            f"only classes of parts can be registered, such as subclasses of Algorithm or User, got {cls!r}"
        )
    if not cls.__module__.startswith("duelrank."):
        _import_packages()  # so that the new class, not ours, gets the error that the name is taken
    before = _CLASSES.get(cls.__name__)
    if before is None or (before.__module__, before.__qualname__) != (cls.__module__, cls.__qualname__):
        _claim(cls.__name__)
    _CLASSES[cls.__name__] = cls
    return cls


def alias(name: str, part: P) -> P:
    """Register a part by a short name, which may contain dashes; the same module may register the name again."""
    if not isinstance(part, Part):
        raise InvalidRecipe(f"a short name stands for a part, such as MGD(), got {part!r}")
    module = sys._getframe(1).f_globals.get("__name__", "")
    if name not in _ALIASES or _ALIAS_MODULES.get(name) != module:
        _claim(name)
    _ALIASES[name] = part
    _ALIAS_MODULES[name] = module
    return part


def forget(module: str) -> None:
    """Remove every name that a module has registered."""
    for name in [name for name, cls in _CLASSES.items() if cls.__module__ == module]:
        del _CLASSES[name]
    for name in [name for name, giver in _ALIAS_MODULES.items() if giver == module]:
        del _ALIAS_MODULES[name]
        _ALIASES.pop(name, None)


def source(find: Callable[[], Mapping[str, Part]]) -> None:
    """Add a function that returns further aliases; it is called at each look-up."""
    _SOURCES.append(find)


def reader(read: Callable[[str, type[Part]], Part]) -> None:
    """Set the function that parses text given for a field which holds a part."""
    _READERS[:] = [read]


def registered(kind: type[P]) -> dict[str, P]:
    """Return the short names registered by `alias`, without those of any `source`."""
    return {name: part for name, part in _ALIASES.items() if isinstance(part, kind)}


def _claim(name: str) -> None:
    if name in _CLASSES or name in _ALIASES:
        raise InvalidRecipe(f"the name {name!r} is already registered")


@register
@dataclass(frozen=True, repr=False)
class Collection(Part):
    """Several parts under one name, which can be given wherever a list of them is expected.

    Parameters
    ----------
    members
        The texts of the parts.

    Examples
    --------
    >>> from duelrank.core.grammar import listed
    >>> from duelrank.core.registry import Collection
    >>> listed(["perfect", Collection(("navigational", "informational"))])
    ['perfect', 'navigational', 'informational']
    """

    kind: ClassVar[str] = "collection"

    members: tuple[str, ...]


@overload
def aliases() -> dict[str, Part]: ...
@overload
def aliases(kind: type[P]) -> dict[str, P]: ...
def aliases(kind: type[Part] = Part) -> Mapping[str, Part]:
    """Return the short names of one kind and their parts."""
    _import_packages()
    found = {name: part for find in _SOURCES for name, part in find().items()} | _ALIASES
    return {name: part for name, part in sorted(found.items()) if isinstance(part, kind)}


def classes(kind: type[Part] = Part) -> dict[str, type[Part]]:
    """Return the registered classes of one kind by name.

    Examples
    --------
    >>> from duelrank.metrics import Metric
    >>> from duelrank.core.registry import classes
    >>> "nDCG" in classes(Metric), "MGD" in classes(Metric)
    (True, False)
    """
    _import_packages()
    return {name: cls for name, cls in sorted(_CLASSES.items()) if issubclass(cls, kind)}


def names(kind: type[Part] = Part) -> list[str]:
    """Return every name that `parse` accepts for one kind: short names first, then classes.

    Examples
    --------
    >>> from duelrank.core.registry import names
    >>> from duelrank.users import User
    >>> "perfect" in names(User), "mgd" in names(User)
    (True, False)
    """
    return [*aliases(kind), *classes(kind)]


def lookup(name: str, kind: type[Part] = Part) -> Part | type[Part]:
    """Return the part of an alias, or a class, by name; the error for an unknown name suggests names of the given kind."""
    known = aliases()
    if name in _CLASSES:
        return _CLASSES[name]
    if name in known:
        return known[name]
    raise UnknownName.among(kind.kind, name, names(kind))


def kind_of(known: Part | type[Part], field: str) -> type[Part]:
    """Return the kind of part that a field of a class, or of an alias at any depth, takes; `Part` if it is ambiguous."""
    owners = [type(part) for _, part in walk(known)] if isinstance(known, Part) else [known]
    hints = [hint for owner in owners for name, hint in _hints(owner).items() if name == field]
    return hints[0] if len(hints) == 1 and isinstance(hints[0], type) and issubclass(hints[0], Part) else Part


def override(part: P, changes: Mapping[str, Any], label: str) -> P:
    """Return a copy with changed fields; each change applies to the one part, at any depth, that has a field of that name."""
    for name, value in changes.items():
        owners = [path for path, owner in walk(part) if name in _hints(type(owner))]
        if not owners:
            possible = sorted({field for _, owner in walk(part) for field in _hints(type(owner))})
            raise InvalidRecipe(f"{label}: {UnknownName.among('parameter', name, possible)}")
        if len(owners) > 1:
            places = ", ".join(".".join((*path, name)) for path in owners)
            raise InvalidRecipe(
                f"{label}: {name!r} is ambiguous, it could be any of {places}; write that part out in full"
            )
        part = replaced_at(part, {(*owners[0], name): value})
    return part


def replaced_at(part: P, changes: Mapping[tuple[str, ...], Any]) -> P:
    """Return a copy with changed fields, each given by its path; the fields of one part change together."""
    own = {path[0]: value for path, value in changes.items() if len(path) == 1}
    inner: dict[str, dict[tuple[str, ...], Any]] = {}
    for path, value in changes.items():
        if len(path) > 1:
            inner.setdefault(path[0], {})[path[1:]] = value
    own |= {name: replaced_at(getattr(part, name), below) for name, below in inner.items()}
    return replace(part, **own)


def type_hint(cls: type[Part], name: str) -> Any:
    """Return the type hint of a field, such as ``Annotated[float, Between(0, 1)]``."""
    return _hints(cls)[name]


def allowed(cls: type[Part], name: str) -> str:
    """Describe the allowed values of a field of a class."""
    hint = _hints(cls)[name]
    return with_article(hint.kind) if isinstance(hint, type) and issubclass(hint, Part) else _describe_hint(hint)


def walk(part: Part, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Part]]:
    """Yield a part and all parts inside it, each with the path of field names that leads to it."""
    yield path, part
    for item in fields(part):
        value = getattr(part, item.name)
        if isinstance(value, Part):
            yield from walk(value, (*path, item.name))


def canonical(part: Part) -> str:
    """Return the text of a part with all fields; unlike its repr, it does not depend on the defaults.

    Examples
    --------
    >>> from duelrank import parse
    >>> from duelrank.core.registry import canonical
    >>> print(canonical(parse("perfect")))
    Preset(behaviour='perfect', stop_without_click=True)
    """
    added = part.added_fields
    given = ((item.name, getattr(part, item.name)) for item in fields(part))
    counting = ((name, value) for name, value in given if name not in added or added[name] != value)
    inside = (f"{name}={canonical(value) if isinstance(value, Part) else repr(value)}" for name, value in counting)
    return f"{type(part).__name__}({', '.join(inside)})"


@contextmanager
def spelling_once() -> Iterator[None]:
    """Let `spell` cache its answers within the block: for loops over thousands of runs, in which no name is registered.

    Examples
    --------
    >>> from duelrank import parse
    >>> from duelrank.core.registry import spell, spelling_once
    >>> recipe = parse("mgd(n_candidates=3)")
    >>> with spelling_once():
    ...     texts = {spell(recipe) for _ in range(1000)}
    >>> texts
    {'mgd(n_candidates=3)'}
    """
    known = _spelled.get()
    token = _spelled.set({} if known is None else known)
    try:
        yield
    finally:
        _spelled.reset(token)


@explained
def spell(part: Part) -> str:
    """Return the shortest text that `parse` turns back into the part: an alias, with overrides if needed, or its repr.

    Examples
    --------
    >>> from duelrank import MGD, Projected, spell
    >>> from duelrank.exploration import UniformSphere
    >>> spell(Projected(MGD(exploration=UniformSphere(n_candidates=49))))
    'mgd-dsp(n_candidates=49)'
    """
    known = _spelled.get()
    if known is None:
        return _shortest(part)
    if part not in known:
        known[part] = _shortest(part)
    return known[part]


def _shortest(part: Part) -> str:
    known = aliases(type(part))
    spellings = [name for name in known if known[name] == part]  # an alias of exactly this part is the shortest text
    if spellings:
        return min(spellings, key=len)
    if part.spelling is not None:
        return part.spelling
    for name, like in known.items():
        changes = _difference(like, part)
        if changes is not None and not _replaces_itself(like, changes):
            spellings.append(_call(name, changes))
    spellings += [_call(type(part).__name__, dict(_changed(part))), repr(part)]
    return min(spellings, key=len)  # of equally long ones the first: a short name rather than a class


def _replaces_itself(like: Part, changes: Mapping[str, Any]) -> bool:
    """Return whether a change replaces a part of the same kind, such as the base of an algorithm, which has another name."""
    return any(isinstance(value, Part) and value.kind == like.kind for value in changes.values())


def _call(name: str, given: Mapping[str, Any]) -> str:
    inside = (f"{field}={spell(value) if isinstance(value, Part) else repr(value)}" for field, value in given.items())
    return f"{name}({', '.join(inside)})"


def _difference(known: Part, part: Part) -> dict[str, Any] | None:
    """Return overrides that turn one part into another of its class, or None if no unambiguous ones exist."""
    if type(known) is not type(part):
        return None
    changes = dict(_changes(known, part))
    try:
        return changes if override(known, changes, "") == part else None
    except InvalidRecipe:
        return None


def _changes(known: Part, part: Part) -> Iterator[tuple[str, Any]]:
    for item in fields(known):
        before, after = getattr(known, item.name), getattr(part, item.name)
        if isinstance(before, Part) and type(before) is type(after):
            yield from _changes(before, after)
        elif before != after:
            yield item.name, after


def _changed(part: Part) -> list[tuple[str, Any]]:
    return [(f.name, getattr(part, f.name)) for f in fields(part) if getattr(part, f.name) != _default(f)]


def _default(item: Field[Any]) -> Any:
    return item.default_factory() if item.default_factory is not MISSING else item.default


def _hints(cls: type[Part]) -> dict[str, Any]:
    if cls not in _HINTS:
        hints = get_type_hints(cls, include_extras=True)
        _HINTS[cls] = {item.name: hints[item.name] for item in fields(cls)}
    return _HINTS[cls]


def _converted(value: Any, hint: Any, where: str) -> Any:
    """Return the value converted to its type hint (such as int to float), or raise an error that lists the allowed values."""
    fitted = _fit_one(value, hint)
    if fitted is _MISFIT:
        raise InvalidRecipe(f"{where} must be {_describe_hint(hint)}, got {value!r}")
    return fitted


def _fit_one(value: Any, hint: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        options = (_fit_one(value, option) for option in get_args(hint))
        return next((fitted for fitted in options if fitted is not _MISFIT), _MISFIT)
    if origin is Annotated:
        inner, bounds = get_args(hint)
        fitted = _fit_one(value, inner)
        return fitted if fitted is not _MISFIT and fitted in bounds else _MISFIT
    if origin is Literal:
        return value if isinstance(value, str) and value in get_args(hint) else _MISFIT
    if origin is tuple:
        return _fit_tuple(value, get_args(hint)[0])
    if hint is float:
        return _finite_float(value)
    if hint is int:
        return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else _MISFIT
    if hint is type(None) or hint is None:
        return value if value is None else _MISFIT
    if isinstance(value, str) and issubclass(hint, Part):
        if not _READERS:
            import_module("duelrank.core.grammar")  # which sets the reader
        return _READERS[0](value, hint)
    return value if isinstance(value, hint) else _MISFIT


def _finite_float(value: Any) -> Any:
    """Return a finite float: NaN and infinity have no text that `parse` can read."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return _MISFIT
    number = value if isinstance(value, int) else float(value)  # a whole number may be too large for a float
    return float(number) if abs(number) <= sys.float_info.max else _MISFIT


def _fit_tuple(value: Any, hint: Any) -> Any:
    if not isinstance(value, (tuple, list)):
        return _MISFIT
    items = tuple(_fit_one(item, hint) for item in value)
    return _MISFIT if _MISFIT in items else items


def _describe_hint(hint: Any) -> str:
    """Describe the values that a type hint allows."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe_hint(option) for option in args)
    if origin is Annotated:
        return f"{_describe_hint(args[0])} {args[1]}"
    if origin is Literal:
        return " or ".join(repr(choice) for choice in args)
    if origin is tuple:
        return f"a tuple, each item {_describe_hint(args[0])}"
    if isinstance(hint, type) and issubclass(hint, Part):
        return f"{with_article(hint.kind)} ({', '.join(names(hint))})"
    plain = {
        int: "a whole number",
        float: "a number",
        bool: "True or False",
        str: "a text in quotes",
        type(None): "None",
    }
    return plain[hint]


def with_article(noun: str) -> str:
    """Put a or an before a noun."""
    return f"{'an' if noun.startswith(('a', 'e', 'i', 'o', 'up')) else 'a'} {noun}"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless it is one.

    Examples
    --------
    >>> counted(1, "run"), counted(0, "query"), counted(1000, "key")
    ('1 run', '0 queries', '1,000 keys')
    """
    plural = f"{noun[:-1]}ies" if noun[-1] == "y" and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def singular(plural: str) -> str:
    """Return the singular of a regular English plural.

    Examples
    --------
    >>> singular("rank_features"), singular("sub_queries")
    ('rank_feature', 'sub_query')
    """
    return f"{plural[:-3]}y" if plural.endswith("ies") else plural.removesuffix("s")
