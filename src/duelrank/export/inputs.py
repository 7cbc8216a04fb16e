"""What the curves of a model are functions of: raw values, or places within the query, and then scaled by fixed numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duelrank.errors import InvalidValue
from duelrank.export.model import LinearModel
from duelrank.registry import spell
from duelrank.representation import Chain, Fixed, QueryRanks, QueryScaled, Raw, Representation, Scaling, Unscaled
from duelrank.representation.fixed import Standard

__all__ = ["Inputs", "inputs_of"]

_CONSTANT = Standard(0.0, 0.0)


@dataclass(frozen=True)
class Inputs:
    """The way from raw values to what the curves are functions of.

    Parameters
    ----------
    within
        `QueryScaled`, `QueryRanks`, the one after the other, or nothing.
    scalings
        What comes after that, one scaling per feature. One with scale 0 makes the feature constant, whatever its value.
    """

    within: tuple[Representation, ...]
    scalings: tuple[Scaling, ...]

    @property
    def scales(self) -> bool:
        """Whether any scaling changes anything."""
        return any(not isinstance(each, Unscaled) for each in self.scalings)


def inputs_of(model: LinearModel, engine: str, within_query: bool = False) -> Inputs:
    """Return the inputs of a model's curves, or refuse; engines without ``within_query`` know one formula for all queries.

    They are the same up to a constant per query: scaling all values alike changes no place within the query.
    """
    within: tuple[Representation, ...] = ()
    scalings: tuple[Scaling, ...] = (Unscaled(),) * len(model.features)
    stages = _stages(model)
    for stage in stages:
        if isinstance(stage, Fixed):
            scalings = tuple(map(_combined, scalings, stage.scalings))
        elif isinstance(stage, QueryScaled | QueryRanks):
            if not within_query:
                too_early = _waits_for_knots(model) and stage is stages[-1]
                raise InvalidValue(_too_early(engine, model) if too_early else _refusal(engine, stage))
            within = _then(within, stage)
            scalings = tuple(each if each.scale == 0.0 else Unscaled() for each in scalings)
        elif not isinstance(stage, Raw):
            raise InvalidValue(f"{engine} cannot compute {spell(stage)} before other representations; json can hold it")
    return Inputs(within, scalings)


def _stages(model: LinearModel) -> Sequence[Representation]:
    """Return the representations that make the inputs, in order: all where the curves are lines, else all but the last."""
    found = _flat(model.representation)
    if _waits_for_knots(model):
        return [*found[:-1], QueryScaled()]
    last = found[-1]
    return found if isinstance(last, Raw | Fixed | QueryScaled | QueryRanks) else found[:-1]


def _waits_for_knots(model: LinearModel) -> bool:
    return model.knots is not None and not model.has_knots


def _flat(representation: Representation) -> list[Representation]:
    if isinstance(representation, Chain):
        return [*_flat(representation.first), *_flat(representation.then)]
    return [representation]


def _combined(first: Scaling, then: Scaling) -> Scaling:
    """Return one scaling for two; of a constant, a constant."""
    if first.scale == 0.0 or then.scale == 0.0:
        return _CONSTANT
    if isinstance(first, Unscaled) or isinstance(then, Unscaled):
        return then if isinstance(first, Unscaled) else first
    return Standard(first.shift + first.scale * then.shift, first.scale * then.scale)


def _then(within: tuple[Representation, ...], stage: Representation) -> tuple[Representation, ...]:
    """Return what is left to compute: ranks do not depend on scales, and places of places are the same places."""
    return (stage,) if isinstance(stage, QueryRanks) or within[-1:] in ((), (stage,)) else (*within, stage)


def _too_early(engine: str, model: LinearModel) -> str:
    return (
        f"{engine} cannot take this model yet: until it places its first knots, {spell(model.representation)} weighs places in the "
        "range of each query, and that differs from query to query; export it again when it has learned from more lists"
    )


def _refusal(engine: str, stage: Representation) -> str:
    if isinstance(stage, QueryRanks):
        return (
            f"{engine} cannot rank the values within a query: it scores each document alone, but here the score depends on the "
            "other documents of the query; onnx (one batch = one query) and json can take this model"
        )
    return (
        f"{engine} cannot normalise per query: it scales by numbers that are the same for all queries, but here the "
        "scale (largest − least value among a query's documents) differs from query to query, and with it the order; "
        "vespa (global-phase), onnx (one batch = one query) and json can take this model"
    )
