"""The JSON of a model: written in format 2; format 1, in which each feature had one weight, is still read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import DataFormatError, InvalidValue
from duelrank.representation.written import read_representation, write_representation

if TYPE_CHECKING:
    from duelrank.export.model import LinearModel

__all__ = ["model_from_json", "model_to_json"]

KIND = "duelrank linear model"
FORMAT = 2

_KNOWN = {"name", "weights", "knots"}
MEANING = (
    "score = sum over features of weights · columns, where the representation makes the columns of a feature from its raw value "
    "(and from its knots, where it has any); higher is better"
)


def model_to_json(model: LinearModel) -> str:
    """Return everything about a model as JSON text."""
    weights = model.weights.reshape(-1, len(model.features)).T.tolist()  # columns have all features, then all again
    rows: list[dict[str, Any]] = [
        {"name": name, "weights": own} for name, own in zip(model.features, weights, strict=True)
    ]
    if model.knots is not None and model.has_knots:
        for row, knots in zip(rows, model.knots.tolist(), strict=True):
            row["knots"] = knots
    content = {
        "kind": KIND,
        "format": FORMAT,
        "name": model.name,
        "version": model.version,
        "meaning": MEANING,
        "representation": write_representation(model.representation, model.features),
        "features": rows,
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def model_from_json(text: str | bytes) -> dict[str, Any]:
    """Return the fields of the model that a text describes, or raise an error that says what is wrong with it."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"this is not the JSON of a model: {error}") from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise DataFormatError(f'the JSON of a model is an object with "kind": "{KIND}"')
    if content.get("format") != FORMAT:
        raise DataFormatError(f"this model has format {content.get('format')!r}; this duelrank reads {FORMAT}")
    try:
        return _fields(content)
    except KeyError as error:
        raise DataFormatError(f"the JSON of a model lacks {error}") from None


def _fields(content: dict[str, Any]) -> dict[str, Any]:
    rows = content["features"]
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(row) <= _KNOWN for row in rows):
        raise InvalidValue(f"features are a list of objects with {', '.join(sorted(_KNOWN))}")
    names = tuple(row["name"] for row in rows)
    for name in names:
        if not isinstance(name, str):
            raise InvalidValue(f"a feature has a name that is not empty, got {name!r}")
    has_knots = any("knots" in row for row in rows)
    return {
        "name": content["name"],
        "version": content["version"],
        "features": names,
        "weights": _table([row["weights"] for row in rows], names, "weights").T.ravel(),
        "representation": read_representation(content["representation"], names),
        "knots": _table([row["knots"] for row in rows], names, "knots") if has_knots else None,
    }


def _table(rows: list[Any], names: tuple[str, ...], what: str) -> NDArray[np.float64]:
    """Return the numbers of all features, as many for each."""
    for name, row in zip(names, rows, strict=True):
        if not isinstance(row, list) or len(row) != len(rows[0]):
            raise InvalidValue(f"the {what} of {name!r} are a list, as long as those of the other features")
        for number in row:
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise InvalidValue(f"each of the {what} of {name!r} is a number, got {number!r}")
    try:
        return np.array([[float(number) for number in row] for row in rows])
    except OverflowError:
        raise InvalidValue(f"{what} are finite numbers, found one beyond the largest float") from None
