"""A linear model as the sum of terms, for engines with one formula for all queries, and the checks of single precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duelrank.errors import InvalidValue
from duelrank.export.model import LinearModel
from duelrank.normalisation import Fixed, MinMax, PerQuery, Scaling

__all__ = ["Term", "check_single_precision", "finite", "terms"]


@dataclass(frozen=True)
class Term:
    """One summand of the score: weight × scaled value of the feature."""

    name: str
    weight: float
    scaling: Scaling


def terms(model: LinearModel, engine: str) -> list[Term]:
    """Return the summands of a model whose scaling is the same for all queries, or refuse with the reason.

    A feature that was constant (scale 0) always counts 0: its weight becomes 0 and its scaling, which no engine accepts, goes.
    """
    if isinstance(model.normalisation, PerQuery):
        raise InvalidValue(
            f"{engine} cannot normalise per query: it scales by numbers that are the same for all queries, but here the "
            "scale (largest − least value among a query's documents) differs from query to query, and with it the order; "
            "vespa (global-phase), onnx (one batch = one query) and json can take this model"
        )
    scalings: tuple[Scaling, ...] = (None,) * len(model.features)
    if isinstance(model.normalisation, Fixed):
        scalings = model.normalisation.scalings
    summands = zip(model.features, model.weights.tolist(), scalings, strict=True)
    return [Term(*each) if each[2] is None or each[2].scale > 0.0 else Term(each[0], 0.0, None) for each in summands]


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
            scale = np.float32(scaling.scale if scaling else 1.0)
        shift = np.float32(scaling.shift if scaling else 0.0)
    return bool(0.0 < scale < np.inf and np.isfinite(shift))
