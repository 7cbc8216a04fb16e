"""Where a new ranker starts: zero weights, weights by name, an exported model, or a version of another ranker."""

from __future__ import annotations

import json
from collections.abc import Callable

from duelrank.api import RankerSpec
from duelrank.errors import InvalidValue
from duelrank.export import LinearModel
from duelrank.normalisation import Normalisation
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.versions import Version

__all__ = ["start_weights"]


def start_weights(spec: RankerSpec, version_of: Callable[[str, int | None], Version]) -> bytes | None:
    """Return the weights that a spec starts from, in the order of its features; None where the algorithm decides.

    Parameters
    ----------
    spec
        Of the new ranker.
    version_of
        Returns a version of another ranker, or its current one.
    """
    start = spec.start
    if start is None:
        return None
    if sum(each is not None for each in (start.weights, start.model, start.ranker)) != 1:
        raise InvalidValue('start has exactly one of "weights", "model" and "from"')
    if start.version is not None and start.ranker is None:
        raise InvalidValue('start has a "version" only together with "from"')
    definition = Definition(spec, 0.0)
    if start.weights is not None:
        return definition.checked_weights(start.weights)
    if start.ranker is not None:
        other = version_of(start.ranker, start.version)
        model, of = other.definition.model(other.version, other.state), f"the ranker {start.ranker!r}"
    else:
        model, of = LinearModel.from_json(json.dumps(start.model)), "the model"
    return _weights_of(model, of, definition)


def _weights_of(model: LinearModel, of: str, definition: Definition) -> bytes:
    """Return the weights of a model, which must have been made for features that are normalised in the same way."""
    given = _scaling(model.normalisation, model.features, definition.spec.features)
    own = _scaling(definition.normalisation, definition.spec.features, model.features)
    if given != own:
        raise InvalidValue(
            f"start: {of} has the normalisation {given}, and this ranker {own}; weights mean the same only where both are equal"
        )
    return definition.checked_weights(dict(zip(model.features, model.weights.tolist(), strict=True)))


def _scaling(normalisation: Normalisation, names: tuple[str, ...], shared: tuple[str, ...]) -> dict[str, object]:
    """Return a normalisation in JSON, as far as it is about features that both have."""
    found = normalisation.as_dict(names)
    features = found.get("features")
    if not isinstance(features, dict):
        return found
    return {**found, "features": {name: each for name, each in features.items() if name in shared}}
