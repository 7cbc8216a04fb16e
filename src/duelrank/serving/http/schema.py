"""The OpenAPI document, from the table of operations and the very types that requests are decoded into."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import msgspec

from duelrank.serving.http.endpoint import Operation
from duelrank.serving.http.problems import TABLE, Problem

__all__ = ["describe"]

_REF = "#/components/schemas/{name}"
_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "Of the ranker.",
    "schema": {"type": "string"},
}
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer KEY"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def describe(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of a service."""
    table = list(operations)
    wanted = [each for one in table for each in (one.takes, one.answers, *one.mentions) if each not in (None, bytes)]
    unique = list({repr(each): each for each in [*wanted, Problem]}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REF)
    by_type = dict(zip(map(repr, unique), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in table:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "duelrank",
            "version": version,
            "description": "Rank, feedback, learn: a search ranker that learns from clicks while it serves.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SECURITY},
    }


def _operation(one: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    summary, _, description = inspect.cleandoc(one.handle.__doc__ or "").partition("\n\n")
    scope = f"Needs a key with the scope {one.needs}, once there are keys." if one.needs else "Needs no key."
    found: dict[str, Any] = {
        "operationId": getattr(one.handle, "__name__", one.path),
        "summary": summary.rstrip("."),
        "description": "\n\n".join(part.replace("\n", " ") for part in (description, scope) if part),
        "parameters": [*([_NAME] if "{name}" in one.path else []), *_query(one.query)],
        "responses": _responses(one, by_type),
    }
    if one.needs:
        found |= {"security": [{"bearer": []}, {"header": []}], "x-scope": one.needs}
    if one.takes is not None:
        bodies = one.bodies or {"application/json": by_type[repr(one.takes)]}
        content = {media: {"schema": schema} for media, schema in bodies.items()}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _responses(one: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    schema = by_type[repr(one.answers)] if one.answers is not None else {}
    answer = {
        "description": "The answer.",
        "headers": {"X-Request-ID": {"schema": {"type": "string"}}},
        "content": {media: {"schema": schema} for media in one.media_types},
    }
    responses = {str(status): answer for status in ((200, 201) if one.status == 201 else (one.status,))}
    refused = {"application/problem+json": {"schema": by_type[repr(Problem)]}}
    for status, titles in _problems(one).items():
        responses[str(status)] = {"description": "; ".join(titles) + ".", "content": refused}
    return responses


def _problems(one: Operation) -> dict[int, list[str]]:
    """What can go wrong, by status: some things only where there is a body, a key or a ranker."""
    possible = {403, 405, 500, 503}
    possible |= {400, 413} if one.takes is not None else set()
    possible |= {422} if one.query is not None else set()
    possible |= {401, 429} if one.needs else set()
    possible |= {404} if "{name}" in one.path else set()
    possible |= {409, 422} if one.method == "POST" and one.path.startswith("/v1/") else set()
    possible |= {501} if one.path.endswith("/export") else set()
    found: dict[int, list[str]] = {}
    for kind in TABLE.values():
        if kind.status in possible:
            found.setdefault(kind.status, []).append(kind.title)
    return dict(sorted(found.items()))


def _query(struct: Any) -> list[dict[str, Any]]:
    """Return the fields of a struct as parameters of a query string, where a value that is not given is left out."""
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
