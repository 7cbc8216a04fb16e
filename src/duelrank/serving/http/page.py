"""The documentation as one page of plain HTML: nothing is loaded from anywhere, and nothing runs in the browser."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from duelrank.serving.http.problems import TABLE

__all__ = ["page"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
code, pre { font: 14px/1.4 ui-monospace, monospace; background: #f4f4f4; border-radius: 4px }
code { padding: 0 .2em } pre { padding: .7em; overflow-x: auto }
h2 { border-top: 1px solid #ddd; padding-top: 1rem } h3 { margin-bottom: 0 }
b.method { display: inline-block; min-width: 3.2em } table { border-collapse: collapse }
td, th { text-align: left; vertical-align: top; padding: .2em .8em .2em 0; border-bottom: 1px solid #eee }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #ddd } code, pre { background: #24272d }
a { color: #8ab4f8 } h2, td, th { border-color: #333 } }
"""


def page(document: dict[str, Any]) -> bytes:
    """Return an OpenAPI document as a page to read."""
    info = document["info"]
    operations = [(path, method, one) for path, each in document["paths"].items() for method, one in each.items()]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(info['title'])}</title>",
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        "<p>For machines: <a href=/openapi.json>/openapi.json</a>.</p><ul>",
        *(f"<li><a href='#{one['operationId']}'>{_address(method, path)}</a>" for path, method, one in operations),
        "</ul>",
        *(_operation(path, method, one) for path, method, one in operations),
        "<h2>Schemas</h2>",
        *(_schema(name, schema) for name, schema in document["components"]["schemas"].items()),
        "<h2>Problems</h2><p>Whatever goes wrong is answered as <code>application/problem+json</code> (RFC 9457).</p>",
        _problems(),
    ]
    return "\n".join(parts).encode()


def _address(method: str, path: str) -> str:
    return f"<b class=method>{method.upper()}</b> <code>{escape(path)}</code>"


def _operation(path: str, method: str, one: dict[str, Any]) -> str:
    parts = [f"<h3 id='{one['operationId']}'>{_address(method, path)}</h3>", f"<p>{escape(one['summary'])}."]
    parts += [f"<p>{escape(part)}" for part in one["description"].split("\n\n")]
    for parameter in one["parameters"]:
        needed = "" if parameter["required"] else ", optional"
        parts.append(f"<p><code>{parameter['name']}</code> ({parameter['in']}{needed}): {_type(parameter['schema'])}")
    if "requestBody" in one:
        parts.append(f"<p>Body: {_content(one['requestBody']['content'])}")
    for status, answer in one["responses"].items():
        if status.startswith("2"):
            parts.append(f"<p>Answer {status}: {_content(answer['content'])}")
    refusals = ", ".join(status for status in one["responses"] if not status.startswith("2"))
    return "\n".join([*parts, f"<p>Problems: {refusals}."])


def _content(content: dict[str, Any]) -> str:
    return "; ".join(f"{_type(each['schema'])} as <code>{escape(media)}</code>" for media, each in content.items())


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(field)}</code><td>{_type(each)}<td>{_default(field, each, schema)}"
        for field, each in schema.get("properties", {}).items()
    ]
    about = escape(schema.get("description", ""))
    return f"<h3 id='{escape(name)}'>{escape(name)}</h3><pre>{about}</pre><table>{''.join(rows)}</table>"


def _default(field: str, each: dict[str, Any], schema: dict[str, Any]) -> str:
    if field in schema.get("required", []):
        return "required"
    return f"by default <code>{escape(json.dumps(each['default']))}</code>" if "default" in each else ""


def _type(schema: dict[str, Any]) -> str:
    """Say in a few words what a schema allows, with links to the named ones."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#{name}'>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(each))}</code>" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}" if schema.get("items") else "array"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'])}"
    return escape(str(schema.get("type", "anything")))


def _problems() -> str:
    rows = [
        f"<tr id='{kind.slug}'><td>{kind.status}<td><code>/docs#{kind.slug}</code><td>{escape(kind.title)}"
        + ("; the same request may succeed later" if kind.retry else "")
        for kind in sorted(TABLE.values(), key=lambda kind: kind.status)
    ]
    return f"<table><tr><th>Status<th>Type<th>Title{''.join(rows)}</table>"
