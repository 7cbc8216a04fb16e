"""The options of all export formats as parameters of a query string."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from duelrank.export.base import FORMATS, Option, format_options

__all__ = ["export_query", "options_of"]


def export_query() -> type[msgspec.Struct]:
    """Return the struct of the query parameters of an export: format, version, and the options of all formats.

    It has the formats that are registered now, so call it when an application is made. A mapping such as rank_features is a
    tuple of texts NAME=VALUE, for a parameter that is repeated.
    """
    formats = Literal[tuple(sorted(FORMATS))]  # type: ignore[valid-type]
    options = format_options()
    repeated = [f"{each.parameter} may be repeated; {each.description}" for each in options if each.is_mapping]
    about = "The format, the version of the model (the current one unless given), and the options of the format."
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
    """Return the keyword arguments of `duelrank.export.export` that an instance of that struct has."""
    given = [(each, getattr(query, each.parameter)) for each in format_options()]
    return {each.name: each.value(value, query.format) for each, value in given if value not in (None, ())}
