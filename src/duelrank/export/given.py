"""What users give for a feature in JSON: a query of an engine."""

from __future__ import annotations

import json
from typing import Any

from duelrank.errors import InvalidValue

__all__ = ["json_object"]


def json_object(feature: str, kind: str, given: str, example: str) -> dict[str, Any]:
    """Return an object that was given as JSON, and that can be written as JSON again.

    Parameters
    ----------
    feature
        Which it computes.
    kind
        What it is, such as "a sub-query".
    given
        The text.
    example
        A text that is right, for those who gave one that is not.
    """
    try:
        content = json.loads(given)
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()  # Python reads NaN, which is no JSON
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"{feature!r} is computed by {kind} in JSON, such as {example}: {error}") from None
    if not isinstance(content, dict) or not content:
        raise InvalidValue(f"{feature!r} is computed by {kind}, in JSON an object such as {example}, got {given!r}")
    return content
