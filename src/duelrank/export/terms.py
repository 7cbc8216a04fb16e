"""A linear model as the sum of terms, for engines with one formula for all queries, and the checks of single precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duelrank.errors import InvalidValue
from duelrank.export.inputs import Inputs, inputs_of
from duelrank.export.model import LinearModel
from duelrank.representation import MinMax, Scaling, Unscaled

__all__ = ["Term", "check_single_precision", "finite", "terms", "terms_of"]


@dataclass(frozen=True)
class Term:
    """One summand of the score: weight × scaled value of the feature; nothing is scaled without a scaling."""

    name: str
    weight: float
    scaling: Scaling | None


def terms(model: LinearModel, engine: str) -> list[Term]:
    """Return the summands of a linear model whose scaling is the same for all queries, or refuse with the reason."""
    return terms_of(model, inputs_of(model, engine))


def terms_of(model: LinearModel, inputs: Inputs) -> list[Term]:
    """Return the summands of a linear model over its inputs.

    A feature that was constant (scale 0) always counts 0: its weight becomes 0 and its scaling, which no engine accepts, goes.
    """
    found = []
    for name, weight, scaling in zip(model.features, model.weights.tolist(), inputs.scalings, strict=True):
        known = None if isinstance(scaling, Unscaled) or scaling.scale == 0.0 else scaling
        found.append(Term(name, weight if scaling.scale > 0.0 else 0.0, known))
    return found


def finite(value: float, what: str) -> float:
    """Return a number that a format can hold, or refuse."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidValue(f"{what} has to be a finite number, got {value!r}")
    return float(value)


def check_single_precision(summands: Sequence[Term], engine: str) -> None:
    """Raise `InvalidValue` where rounding to float32, as the engine does, would change more than the last digits."""
    single = np.finfo(np.float32)
    largest = max(abs(each.weight) for each in summands)
    if largest > float(single.max) or 0.0 < largest < float(single.tiny):
        raise InvalidValue(
            f"{engine} keeps weights in single precision, which cannot hold a largest weight of {largest!r}"
        )
    for each in summands:
        if each.scaling is not None and not _survives(each.scaling):
            raise InvalidValue(
                f"{engine} keeps normalisers in single precision, in which {each.scaling!r} of feature {each.name!r} "
                "has no positive, finite scale; rescale that feature before it is learned"
            )


def _survives(scaling: Scaling) -> bool:
    with np.errstate(all="ignore"):
        if isinstance(scaling, MinMax):
            scale = np.float32(scaling.maximum) - np.float32(scaling.minimum)
        else:
            scale = np.float32(scaling.scale)
        shift = np.float32(scaling.shift)
    return bool(0.0 < scale < np.inf and np.isfinite(shift))
