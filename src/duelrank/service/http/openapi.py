"""API documentation: an OpenAPI document, generated from the table of operations, and Swagger UI to read and try it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from duelrank.core.errors import NotReady, ReadOnly, StorageFailure, StoreFull, StoreLocked, StoreUnavailable
from duelrank.service.http import errors
from duelrank.service.http.schema import Problem

if TYPE_CHECKING:
    from duelrank.service.http.routes import Operation

_REF = "#/components/schemas/{name}"
_NULL = {"type": "null"}
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer KEY"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
_ABOUT = """Rank, feedback, learn: a search ranker that learns from clicks while it serves.

To try it here: create a ranker with the first example of `POST /v1/rankers`, rank, and send a click.

Errors are answered as `application/problem+json` (RFC 9457); [all problems](#problems) are listed below."""


def openapi_document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of a service."""
    table = sorted((one for one in operations if not one.hidden), key=lambda one: one.path.count("/"))
    bodies = [leaf for one in table for each in _bodies(one).values() for leaf in _leaves(each)]
    wanted = [*bodies, *(one.answers for one in table if one.answers is not None)]
    unique = list({repr(each): each for each in [*wanted, Problem]}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REF)
    by_type = dict(zip(map(repr, unique), schemas, strict=True))
    maps: dict[str, Any] = {}
    components = _exclusive(components, maps)
    paths: dict[str, dict[str, Any]] = {}
    for one in table:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "duelrank", "version": version, "description": _ABOUT},
        "tags": [{"name": "rankers"}, {"name": "experiments"}, {"name": "service"}],
        "paths": paths,
        "components": {"schemas": components | maps, "securitySchemes": _SECURITY},
    }


def _tag(one: Operation) -> str:
    if one.path.startswith("/v1/experiments"):
        return "experiments"
    return "rankers" if one.path.startswith("/v1/") else "service"


def _exclusive(schema: Any, maps: dict[str, Any]) -> Any:
    """Return schemas with ``oneOf`` in place of ``anyOf``, null as a type, and a name for the map in unions, added to ``maps``.

    Generators of clients handle only these well. The choices of a union in our structs exclude each other, except integers and
    numbers.
    """
    if isinstance(schema, list):
        return [_exclusive(each, maps) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _exclusive(each, maps) for name, each in schema.items()}
    choices = found.pop("anyOf", None)
    if choices is None:
        return found
    if {"type": "number"} in choices:
        choices = [each for each in choices if each != {"type": "integer"}]
    some = [each for each in choices if each != _NULL]
    if len(some) > 1 or "$ref" in some[0]:
        return found | {"oneOf": [_named_map(each, maps) for each in choices]}
    (only,) = some
    if "enum" in only:
        only = {"type": "string", "enum": [*only["enum"], None]}
    return found | only | {"type": [only["type"], "null"]}


def _named_map(choice: dict[str, Any], maps: dict[str, Any]) -> dict[str, Any]:
    # The Java generator serializes only parts of a union whose names sort before the union's, here DocumentFeatures and
    # RankerSpecMissing.
    if "additionalProperties" not in choice:
        return choice
    name = "AnyByName" if "oneOf" in choice["additionalProperties"] else "ByName"
    assert maps.setdefault(name, choice) == choice, f"two kinds of maps are called {name}"
    return {"$ref": _REF.format(name=name)}


def problems_of(one: Operation) -> list[type[BaseException]]:
    """Return the errors of an operation: its own, and those of every request."""
    found: list[type[BaseException]] = [
        errors.FromAWebPage,
        errors.Forwarded,
        errors.WrongMethod,
        errors.HeadersTooLarge,
        errors.TooBusy,
        Exception,
    ]
    if one.needs is not None:
        found += [errors.NoKey, errors.WrongScope, errors.TooManyRequests]
    if not one.before_ready:
        found += [NotReady, StorageFailure, StoreLocked, StoreFull, StoreUnavailable]
    if one.method != "GET":
        found.append(ReadOnly)
    if one.takes is not None:
        found += [errors.MalformedBody, errors.BodyTooLarge, msgspec.ValidationError]
    if one.query is not None:
        found.append(msgspec.ValidationError)
    if "{" in one.path:
        found.append(errors.NoSuchPage)  # a name with a slash in it
    return list(dict.fromkeys([*one.raises, *found]))


def _operation(one: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    summary, _, description = inspect.cleandoc(one.handle.__doc__ or "").partition("\n\n")
    scope = f"Needs a key with the scope {one.needs}, once there are keys." if one.needs else "Needs no key."
    found: dict[str, Any] = {
        "operationId": getattr(one.handle, "__name__", one.path),
        "tags": [_tag(one)],
        "summary": summary.rstrip("."),
        "description": "\n\n".join(part.replace("\n", " ") for part in (description, scope) if part),
        "parameters": [*_names(one), *_query(one.query)],
        "responses": _responses(one, by_type),
    }
    if one.needs:
        found |= {"security": [{"bearer": []}, {"header": []}], "x-scope": one.needs}
    if one.takes is not None:
        content = {media: _body(one, media, _schema(wanted, by_type)) for media, wanted in _bodies(one).items()}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _names(one: Operation) -> list[dict[str, Any]]:
    if "{name}" not in one.path:
        return []
    about = {"description": "Name of the ranker.", "schema": {"type": "string"}, "example": one.example_ranker}
    return [{"name": "name", "in": "path", "required": True, **about}]


def _bodies(one: Operation) -> Mapping[str, Any]:
    """Return the types of a body by media type."""
    return one.bodies or ({} if one.takes is None else {"application/json": one.takes})


def _leaves(wanted: Any) -> list[Any]:
    """Return the possible types of a body; msgspec does not support a union of two structs."""
    if isinstance(wanted, UnionType):
        return [leaf for each in get_args(wanted) for leaf in _leaves(each)]
    return _leaves(get_args(wanted)[0]) if get_origin(wanted) is list else [wanted]


def _schema(wanted: Any, by_type: dict[str, Any]) -> dict[str, Any]:
    if isinstance(wanted, UnionType):
        return {"oneOf": [_schema(each, by_type) for each in get_args(wanted)]}
    if get_origin(wanted) is list:
        return {"type": "array", "items": _schema(get_args(wanted)[0], by_type)}
    schema: dict[str, Any] = by_type[repr(wanted)]
    return schema


def _body(one: Operation, media: str, schema: dict[str, Any]) -> dict[str, Any]:
    examples: Mapping[str, Any] = one.examples if media == "application/json" else {}
    if media.endswith("ndjson"):
        lines = [json.dumps(each) for each in one.examples.values() if isinstance(each, dict)]
        examples = {"lines": "\n".join(lines)}
    named = {name: {"value": value} for name, value in examples.items()}
    return {"schema": schema} | ({"examples": named} if named else {})


def _responses(one: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    schema = by_type[repr(one.answers)] if one.answers is not None else {}
    answer: dict[str, Any] = {
        "description": "The answer." if one.media_types else "Done.",
        "headers": {"X-Request-ID": {"schema": {"type": "string"}}},
    }
    if one.media_types:
        answer["content"] = {media: {"schema": schema} for media in one.media_types}
    responses = {str(status): answer for status in one.statuses}
    refused = {"application/problem+json": {"schema": by_type[repr(Problem)]}}
    titles: dict[int, list[str]] = {}
    for kind in sorted((errors.PROBLEMS[error] for error in problems_of(one)), key=lambda kind: kind.status):
        titles.setdefault(kind.status, []).append(kind.title)
    for status, several in titles.items():
        responses[str(status)] = {"description": "; ".join(several) + ".", "content": refused}
    return responses


def _query(struct: Any) -> list[dict[str, Any]]:
    """Return the fields of a struct as parameters of a query string, in which missing values are omitted."""
    if struct is None:
        return []
    _, components = msgspec.json.schema_components([struct], ref_template=_REF)
    described = components[struct.__name__]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in described.get("required", []),
            "schema": _without_null(schema),
        }
        for name, schema in described["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    for choice in schema.get("anyOf", []):
        kept |= choice if choice.get("type") != "null" else {}
    if None in kept.get("enum", []):
        kept["enum"] = [each for each in kept["enum"] if each is not None]
    return kept


# Swagger UI is a Python package, and its files are served from here: the page may not load anything from other hosts.
CONTENT_SECURITY_POLICY = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
)

_START = """"use strict";
window.ui = SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: false, validatorUrl: null, tryItOutEnabled: true,
  defaultModelsExpandDepth: 0, displayRequestDuration: true, syntaxHighlight: { activated: true },
  // the operations are drawn above the table of problems: scroll to the fragment of the address again
  onComplete: () => document.getElementById(location.hash.slice(1))?.scrollIntoView()
});
"""

_STYLE = """
#problems { font-family: sans-serif; max-width: 1460px; margin: 0 auto; padding: 0 20px 3rem; color: #3b4151 }
#problems table { border-collapse: collapse } #problems code { font-size: .9em }
#problems td, #problems th { text-align: left; vertical-align: top; padding: .3em 1.5em .3em 0; border-bottom: 1px solid #ddd }
#problems tr:target { background: #fff3bf }
"""


@cache
def _bundled(file: str) -> bytes:
    return files("offapi").joinpath(file).read_bytes()


ASSETS: dict[str, tuple[bytes, Callable[[], bytes]]] = {
    "swagger-ui.css": (b"text/css; charset=utf-8", lambda: _bundled("swagger_style.css")),
    "swagger-ui-bundle.js": (b"text/javascript; charset=utf-8", lambda: _bundled("swagger_bundle.js")),
    "start.js": (b"text/javascript; charset=utf-8", _START.encode),
    "problems.css": (b"text/css; charset=utf-8", _STYLE.encode),
}


def docs_page(title: str) -> bytes:
    """Return the documentation page: Swagger UI, and below it the table of problems, to which their types link."""
    rows = "".join(
        f"<tr id='{kind.slug}'><td>{kind.status}<td><code>/docs#{kind.slug}</code><td>{escape(kind.title)}"
        + ("; the same request may succeed later" if kind.retry else "")
        for kind in sorted(errors.PROBLEMS.values(), key=lambda kind: kind.status)
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        "<meta name=viewport content='width=device-width'><link rel=icon href='data:,'>"
        "<link rel=stylesheet href='/docs/swagger-ui.css'><link rel=stylesheet href='/docs/problems.css'>"
        "<div id=swagger-ui></div><section id=problems><h2>Problems</h2><p>The <code>type</code> of a problem links here."
        f"<table><tr><th>Status<th>Type<th>Meaning{rows}</table></section>"
        "<script src='/docs/swagger-ui-bundle.js'></script><script src='/docs/start.js'></script></html>"
    ).encode()
