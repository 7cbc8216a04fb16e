"""Where a new ranker starts: zero weights, weights by name, an exported model, or a version of another ranker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from duelrank.api import RankerSpec, Start
from duelrank.core.errors import InvalidValue
from duelrank.core.types import Memory
from duelrank.export import LinearModel
from duelrank.representation import QueryScaled, Representation
from duelrank.representation.base import knots_of
from duelrank.representation.fixed import write_representation
from duelrank.serving.ranker.definition import Definition, says_representation
from duelrank.serving.ranker.versions import Version
from duelrank.serving.settings import DEFAULT_REPRESENTATION

__all__ = ["Beginning", "beginning_of", "default_representation"]


#: Returns a version of a ranker, or its current one.
VersionOf: TypeAlias = Callable[[str, int | None], Version]


class Beginning(NamedTuple):
    """The first weights of a ranker, in the order of its columns, and its first knots; None where the algorithm decides."""

    weights: bytes | None = None
    knots: bytes | None = None


def default_representation(spec: RankerSpec, version_of: VersionOf) -> str | dict[str, Any]:
    """Return the representation of a spec that does not give one: that of what it starts from, or the default of the service."""
    if spec.start is None or says_representation(spec):
        return DEFAULT_REPRESENTATION
    _check_start(spec.start)
    if spec.start.weights is not None:
        raise InvalidValue(
            "start: weights mean something only together with what they weigh, so say the representation that they were made "
            'for, too: "raw" for the values as they come, "query-scaled" for their place in the range of the query'
        )
    model, _ = _model_of(spec.start, version_of)
    written = write_representation(model.representation, model.features)
    if isinstance(written, str):
        return written
    return {**written, "features": {name: each for name, each in written["features"].items() if name in spec.features}}


def beginning_of(spec: RankerSpec, version_of: VersionOf) -> Beginning:
    """Return what a spec starts from.

    Parameters
    ----------
    spec
        Of the new ranker.
    version_of
        Returns a version of another ranker, or its current one.
    """
    start = spec.start
    if start is None:
        return Beginning()
    _check_start(start)
    definition = Definition(spec, 0.0)
    if start.weights is not None:
        found = Beginning(definition.checked_weights(start.weights))
    else:
        found = _like(*_model_of(start, version_of), definition)
    definition.algorithm.check_allowed(np.frombuffer(found.weights or b"", "<f8"), spec.features)
    return found


def _check_start(start: Start) -> None:
    if sum(each is not None for each in (start.weights, start.model, start.ranker)) != 1:
        raise InvalidValue('start has exactly one of "weights", "model" and "from"')
    if start.version is not None and start.ranker is None:
        raise InvalidValue('start has a "version" only together with "from"')


def _model_of(start: Start, version_of: VersionOf) -> tuple[LinearModel, str]:
    """Return the model that a ranker starts from, and what to call it."""
    if start.ranker is None:
        return LinearModel.from_json(json.dumps(start.model)), "the model"
    other = version_of(start.ranker, start.version)
    return other.definition.model(other.version, other.state), f"the ranker {start.ranker!r}"


def _like(model: LinearModel, of: str, definition: Definition) -> Beginning:
    """Return the weights and knots of a model, which must have been made for features that are represented in the same way.

    Lines over the range of a query are also what most representations with curves begin with, so these can begin with them.
    """
    definition.check_names(model.features)
    seen = definition.representation.start(len(definition.spec.features))
    if _are_lines(model.representation, model.memory) and _are_lines(definition.representation, seen):
        return Beginning(definition.checked_weights(dict(zip(model.features, model.weights.tolist(), strict=True))))
    given = _shared(model.representation, model.features, definition.spec.features)
    own = _shared(definition.representation, definition.spec.features, model.features)
    if given != own:
        raise InvalidValue(
            f"start: {of} has the representation {given}, and this ranker {own}; weights mean the same only where both are equal"
        )
    weights, seen = definition.selected(model.weights, model.memory, model.features)
    knots = knots_of(seen)
    return Beginning(weights.astype("<f8").tobytes(), None if knots is None else knots.astype("<f8").tobytes())


def _are_lines(representation: Representation, memory: Memory) -> bool:
    """Whether each weight is the rise of a straight line over the range of a query, from the least value to the largest."""
    knots = knots_of(memory)
    if knots is None:
        return representation == QueryScaled()
    if np.isnan(knots[0, 0]):
        return representation.domain != "query rank"
    return representation.domain == "query range" and np.array_equal(knots, np.tile([0.0, 1.0], (len(knots), 1)))


def _shared(representation: Representation, names: tuple[str, ...], shared: tuple[str, ...]) -> Any:
    """Return a representation in JSON, as far as it is about features that both have."""
    found = write_representation(representation, names)
    if isinstance(found, str):
        return found
    return {**found, "features": {name: each for name, each in found["features"].items() if name in shared}}
