"""Writes the parts of the reference that are made from the code: the command line, the HTTP API, errors, public names."""

from __future__ import annotations

import html
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["array_types", "command_line", "errors", "http_api", "public_names"]


def command_line() -> str:
    """Return what Typer writes about all commands, without its title, but with whole sentences in its lists of commands."""
    command = [sys.executable, "-m", "typer", "duelrank.cli", "utils", "docs", "--name", "duelrank"]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603  # our own command
    return _whole_sentences(html.unescape(written.partition("\n")[2]))


def _whole_sentences(page: str) -> str:
    """Give each line of a list of commands, which Typer cuts at 45 characters, a link and the words of its section."""
    about = dict(re.findall(r"^##+ `(duelrank .+)`\n\n(.+)$", page, re.MULTILINE))
    group, lines = "duelrank", []
    for line in page.splitlines():
        if head := re.match(r"##+ `(duelrank .+)`", line):
            group = head[1]
        item = re.match(r"\* `(\S+)`: ", line)
        command = f"{group} {item[1]}" if item else ""
        if command in about:
            line = f"* [`{item[1]}`](#{command.replace(' ', '-')}): {about[command]}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def public_names() -> str:
    """Return a table of what `duelrank` itself has, with links to where each is described."""
    import duelrank

    things = ((name, getattr(duelrank, name)) for name in duelrank.__all__)
    rows = [
        (f"{{py:obj}}`{name} <{_place(thing)}>`", _first_line(thing).replace("``", "`"))
        for name, thing in sorted(things, key=lambda each: each[0].lower())
    ]
    return _table(("name", "what it is"), rows)


def array_types() -> str:
    """Return what the names of arrays in signatures mean, from the comments beside them."""
    from duelrank.core import types

    lines = re.findall(r"^(\w+): TypeAlias = (.+?)  # (.+)$", inspect.getsource(types), re.MULTILINE)
    told = "".join(
        f".. py:data:: duelrank.core.types.{name}\n   :type: {kind}\n\n   {text}\n\n" for name, kind, text in lines
    )
    return f"## Names of arrays\n\n```{{eval-rst}}\n{told}```\n"


def _place(thing: Any) -> str:
    """Return the name under which the reference describes a class or function: that of the package it is exported from."""
    package = ".".join(thing.__module__.split(".")[:2])
    return f"{package}.{thing.__name__}"


def errors() -> str:
    """Return a table of the errors that the service answers."""
    from duelrank.service.http.errors import TABLE

    kinds = sorted(TABLE.items(), key=lambda row: row[1].status)
    rows = [
        (str(kind.status), f"`/docs#{kind.slug}`", f"{kind.title}.", "yes" if kind.retry else "") for _, kind in kinds
    ]
    return _table(("status", "type", "what it means", "may succeed later"), rows)


def http_api() -> str:
    """Return all operations of the service and the structures of their bodies, from the OpenAPI document."""
    from duelrank import __version__
    from duelrank.service.http.openapi import describe
    from duelrank.service.http.routes import OPERATIONS

    document = describe(OPERATIONS, __version__)
    operations = [
        _operation(method.upper(), path, one)
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    ]
    structures = [_structure(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "\n".join(["## Operations\n", *operations, "## Structures\n", *structures])


def _operation(method: str, path: str, one: Mapping[str, Any]) -> str:
    parts = [f"### `{method} {path}`\n", f"{one['summary']}.\n"]
    if one["description"]:
        parts.append(f"{one['description']}\n")
    if one["parameters"]:
        rows = [
            (f"`{each['name']}`", each["in"], _type(each["schema"]), each.get("description", ""))
            for each in one["parameters"]
        ]
        parts.append(_table(("parameter", "in", "type", ""), rows))
    for media, body in one.get("requestBody", {}).get("content", {}).items():
        parts.append(f"Body, `{media}`: {_type(body['schema'])}\n")
        parts += [_example(each["value"]) for each in list(body.get("examples", {}).values())[:1]]
    parts += [_answer(status, each) for status, each in one["responses"].items() if int(status) < 400]
    failures = ", ".join(status for status in one["responses"] if int(status) >= 400)
    parts.append(f"[Errors](errors.md#what-the-service-answers): {failures}.\n")
    return "\n".join(parts)


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    contents = answer.get("content", {})
    types = {_type(each["schema"]) for each in contents.values() if each["schema"]}
    media = ", ".join(f"`{each}`" for each in contents)
    return f"Answers {status}" + "".join(f", {each}" for each in (media, *sorted(types)) if each) + ".\n"


def _example(value: Any) -> str:
    if isinstance(value, str):
        return f"```text\n{value}\n```\n"
    return f"```json\n{json.dumps(value, indent=1, ensure_ascii=False)}\n```\n"


def _structure(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        (f"`{field}`", _type(each), "required" if field in required else _default(each))
        for field, each in schema.get("properties", {}).items()
    ]
    about = inspect.cleandoc(schema.get("description", "")).replace("``", "`")
    about = re.split(r"\n\w+\n-{3,}", about)[0].strip()
    return f"### {name}\n\n{about}\n\n" + (_table(("field", "type", "default"), rows) if rows else "")


def _default(schema: Mapping[str, Any]) -> str:
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def _type(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema in a few words, with links to structures."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[key]))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items') or {})}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _first_line(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").partition("\n")[0]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *(list(row) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
