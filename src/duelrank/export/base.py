"""The interface of export formats, the registry of formats and their options, and helpers that formats share."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from duelrank.core.errors import Conflict, DuelrankError, InvalidValue, UnknownName
from duelrank.core.registry import singular, walk
from duelrank.core.types import frozen
from duelrank.export.decomposition import Unrepresentable
from duelrank.export.model import LinearModel, Model
from duelrank.representation import Fixed, Representation
from duelrank.representation.base import knots_of, with_knots

F = TypeVar("F", bound="type[Format]")

#: All formats by name.
FORMATS: dict[str, type[Format]] = {}


@dataclass(frozen=True)
class Format(ABC):
    """A format in which models are exported. Its fields are its options.

    A subclass is a frozen dataclass. Each field has a default and a description: ``store: Annotated[str | None, "Name of the
    feature store."] = None``. Its type is str, int, float, bool, a Literal of texts, or a Mapping from text to text; a Mapping
    has a second text, an example of a pair. The first line of the class's docstring describes the format.
    """

    #: Media type of the content, for HTTP.
    media_type: ClassVar[str] = "application/json"
    #: Suffix of file names.
    suffix: ClassVar[str] = ".json"
    #: Whether the content is text; other content is not written to a terminal.
    is_text: ClassVar[bool] = True
    #: Whether `write` also accepts a `ScorerModel`, which is not linear.
    scorers: ClassVar[bool] = False
    #: The content: a model that scores documents by their features, the weights of a hybrid query, or definitions of features only.
    holds: ClassVar[Literal["model", "hybrid", "features"]] = "model"

    @abstractmethod
    def write(self, model: Any) -> str | bytes:
        """Return the content of a `LinearModel`, or raise `InvalidValue` if this format cannot represent it, with the reason.

        The error is `Unrepresentable` if the reason is the representation, and no option helps.
        """

    def supports(self, model: LinearModel) -> bool:
        """Return whether the format can represent models with this representation, possibly with other options."""
        try:
            self.write(model)
        except Unrepresentable:
            return False
        except DuelrankError:  # an option is missing, or a package
            return True
        return True

    @classmethod
    def description(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]


def register_format(name: str, *other_names: str) -> Callable[[F], F]:
    """Register a subclass of `Format` under one or several names: ``@register_format("solr")``.

    Python, ``duelrank export``, ``duelrank serve`` and the documentation then offer the format and its options.
    """

    def register(cls: F) -> F:
        for each in (name, *other_names):
            known = FORMATS.get(each)
            if known is not None and (known.__module__, known.__name__) != (cls.__module__, cls.__name__):
                raise Conflict(f"a format is already called {each!r}: {known.__module__}.{known.__name__}")
            _check(each, cls)
            FORMATS[each] = cls
        return cls

    return register


def export(model: Model, format: str, **options: Any) -> bytes:
    """Write a model in one of the `FORMATS`, or raise `InvalidValue` with the reason why the format cannot represent it.

    Examples
    --------
    >>> from duelrank.export import LinearModel, export
    >>> print(export(LinearModel("shop", 7, ("bm25", "price"), [0.41, -0.12]), "ranklib").decode(), end="")
    ## Coordinate Ascent
    ## Model = shop_000007
    ## Features = ["bm25", "price"]
    1:0.41 2:-0.12
    """
    if format not in FORMATS:
        raise UnknownName.among("format", format, FORMATS)
    known = [each.name for each in fields(FORMATS[format])]
    for name in options:
        if name not in known:
            raise InvalidValue(f"the format {format} has no option {name}; it has {', '.join(known) or 'none'}")
    if not isinstance(model, LinearModel) and not FORMATS[format].scorers:
        able = ", ".join(name for name, cls in sorted(FORMATS.items()) if cls.scorers)
        raise InvalidValue(f"{format} cannot represent {model.name!r}, which is not linear; {able} can")
    content = FORMATS[format](**options).write(model)
    return content.encode() if isinstance(content, str) else content


@lru_cache(64)
def supported_formats(representation: Representation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the formats that models with a representation can be exported to, and those of models that refuse them.

    Formats of hybrid queries are left out of the second.

    Examples
    --------
    >>> from duelrank.export import supported_formats
    >>> from duelrank.representation import QueryScaled
    >>> supported_formats(QueryScaled())[1]
    ('elasticsearch', 'opensearch', 'ranklib', 'solr')
    """
    given = (
        part.scalings if isinstance(part, Fixed) else getattr(part, "values", ()) for _, part in walk(representation)
    )
    n_features = max(1, *map(len, given))
    seen = representation.start(n_features)
    if knots_of(seen) is not None:  # as it will be after some lists
        seen = with_knots(seen, frozen(np.tile([0.0, 0.5, 1.0], (n_features, 1))))
    weights = np.ones(representation.n_columns(n_features, seen))
    names = tuple(f"f{number}" for number in range(n_features))
    model = LinearModel("probe", 1, names, weights, representation, knots_of(seen))
    found = {name: FORMATS[name]().supports(model) for name in sorted(FORMATS) if FORMATS[name].holds != "features"}
    refusing = (name for name, supports in found.items() if not supports and FORMATS[name].holds == "model")
    return tuple(name for name, supports in found.items() if supports), tuple(refusing)


@dataclass(frozen=True)
class Option:
    """An option of one or several formats.

    Parameters
    ----------
    name
        Name in Python: ``export(model, "vespa", rank_features={"price": "attribute(price)"})``.
    type
        Type without None: str, int, float, bool, a Literal of texts, or Mapping[str, str].
    help
        Descriptions by format.
    examples
        Examples of one pair of a mapping, such as ``"price=attribute(price)"``, by format; not every format has one.
    """

    name: str
    type: Any
    help: Mapping[str, str]
    examples: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_mapping(self) -> bool:
        """Whether the option is given once per pair, as NAME=VALUE."""
        return get_origin(self.type) is not None and self.type == Mapping[str, str]

    @property
    def parameter(self) -> str:
        """The name in a query string, and with dashes on the command line; for a mapping, the name of one pair."""
        return singular(self.name) if self.is_mapping else self.name

    @property
    def description(self) -> str:
        """The descriptions as one text; formats with the same description are listed together."""
        formats: dict[str, list[str]] = {}
        for format, text in self.help.items():
            formats.setdefault(text, []).append(format)
        return " ".join(f"{', '.join(names)}: {text}" for text, names in formats.items())

    def value(self, given: Any, format: str) -> Any:
        """Return the value for Python, given the value of a command line or a query string for this format."""
        return dict(self._pair(text, format) for text in given) if self.is_mapping else given

    def _pair(self, text: str, format: str) -> tuple[str, str]:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            example = f", such as {self.examples[format]!r}" if format in self.examples else ""
            raise InvalidValue(f"{self.parameter} must be NAME=VALUE{example}, got {text!r}")
        return name.strip(), value


def format_options() -> list[Option]:
    """Return the options of all formats, in alphabetical order of the formats; an option of the same name is shared.

    Examples
    --------
    >>> from duelrank.export import format_options
    >>> [option.name for option in format_options()][:3]
    ['offset_feature', 'offset', 'allow_negative']
    """
    found: dict[str, Option] = {}
    for format, cls in sorted(FORMATS.items()):
        for each in _options(format, cls):
            earlier = found.get(each.name)
            found[each.name] = _both(earlier, each) if earlier else each
    return list(found.values())


def _both(one: Option, other: Option) -> Option:
    return Option(one.name, one.type, {**one.help, **other.help}, {**one.examples, **other.examples})


def _options(format: str, cls: type[Format]) -> Iterable[Option]:
    hints = get_type_hints(cls, include_extras=True)
    for each in fields(cls):
        hint = hints[each.name]
        if get_origin(hint) is not Annotated or not isinstance(get_args(hint)[1], str):
            raise InvalidValue(f"{cls.__name__}.{each.name} needs a description: Annotated[type, 'description']")
        type, help, *example = get_args(hint)
        yield Option(each.name, _without_none(type), {format: help}, {format: example[0]} if example else {})


def _without_none(hint: Any) -> Any:
    members = [each for each in get_args(hint) if each is not NoneType]
    return members[0] if NoneType in get_args(hint) and len(members) == 1 else hint


def _check(format: str, cls: type[Format]) -> None:
    """Raise an error if a format has an option that a command line or a query string cannot represent."""
    others = {option.name: option for option in format_options() if set(option.help) != {format}}
    for option in _options(format, cls):
        if not (option.type in (str, int, float, bool) or option.is_mapping or get_origin(option.type) is Literal):
            raise InvalidValue(
                f"the option {option.name} of the format {format} must be str, int, float, bool, a Literal of texts or a "
                f"Mapping[str, str], with or without None, got {option.type!r}"
            )
        if option.name in others and others[option.name].type != option.type:
            formats = ", ".join(others[option.name].help)
            raise Conflict(f"the option {option.name} of the format {format} has another type in {formats}")


def export_query() -> type[msgspec.Struct]:
    """Return the struct of the query parameters of an export: format, version, and the options of all formats.

    It has the formats that are registered now, so call it when an application is created. A mapping such as rank_features is a
    tuple of texts NAME=VALUE, because its parameter may be repeated.
    """
    formats = Literal[tuple(sorted(FORMATS))]  # type: ignore[valid-type]
    options = format_options()
    repeated = [f"{each.parameter} may be repeated; {each.description}" for each in options if each.is_mapping]
    about = "The format, the version of the model (by default the current one), and the options of the format."
    return msgspec.defstruct(
        "ExportQuery",
        [("format", formats), ("version", int | None, None), *map(_field, options)],
        frozen=True,
        forbid_unknown_fields=True,
        namespace={"__doc__": " ".join([about, *repeated])},
    )


def _field(option: Option) -> tuple[str, Any, Any]:
    if option.is_mapping:
        return option.parameter, tuple[str, ...], ()
    return option.parameter, Annotated[option.type | None, msgspec.Meta(description=option.description)], None


def options_of(query: Any) -> dict[str, Any]:
    """Return the options of an instance of `export_query` as keyword arguments of `export`."""
    given = [(each, getattr(query, each.parameter)) for each in format_options()]
    return {each.name: each.value(value, query.format) for each, value in given if value not in (None, ())}


def json_object(feature: str, kind: str, given: str, example: str) -> dict[str, Any]:
    """Parse a JSON object that a user gave, or raise an error that states the problem.

    Parameters
    ----------
    feature
        Name of the feature that the object computes.
    kind
        Kind of object, for the error message, such as "a sub-query".
    given
        The JSON text.
    example
        A valid text, for the error message.
    """
    try:
        content = json.loads(given)
        json.dumps(
            content, ensure_ascii=False, allow_nan=False
        ).encode()  # Python also reads NaN, which is not valid JSON
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"{feature!r} needs {kind} as JSON, such as {example}: {error}") from None
    if not isinstance(content, dict) or not content:
        raise InvalidValue(f"{feature!r} needs {kind} as a JSON object, such as {example}, got {given!r}")
    return content


def json_text(content: Any) -> str:
    """Return the JSON text of an exported model."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def check_names(given: Iterable[str], model: Model) -> None:
    """Raise `UnknownName` if a name is not that of a feature of the model."""
    for name in given:
        if name not in model.features:
            raise UnknownName.among("feature", str(name), model.features)
