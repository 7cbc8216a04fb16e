"""The curve of one feature as a sum of pieces: ramps between two values and steps behind one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue
from duelrank.export.inputs import Inputs
from duelrank.export.model import LinearModel
from duelrank.representation import Curve, Scaling

__all__ = ["Pieces", "pieces_of"]

Precision: TypeAlias = type[np.float32] | type[np.float64]


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of one feature's curve, ascending; each rises from 0 to its rise.

    Parameters
    ----------
    low, high
        Where a piece starts to rise and where it ends, in float64 that the precision asked for holds exactly. Where both are equal
        it is a step: 0 up to there, its rise behind it.
    rise
        What it adds to the score from its end on; never 0.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rise: NDArray[np.float64]

    @property
    def is_step(self) -> NDArray[np.bool_]:
        """Which pieces are steps."""
        return np.equal(self.low, self.high)

    def __len__(self) -> int:
        return len(self.rise)


def pieces_of(model: LinearModel, inputs: Inputs, engine: str, precision: Precision) -> list[Pieces]:
    """Return the curves of all features as functions of raw values, or of places within the query where inputs are that.

    Steps are exact: a number of this precision is behind a step here where it is, scaled in double precision, in the model.
    """
    found = []
    for name, curve, scaling in zip(model.features, model.curves, inputs.scalings, strict=True):
        pieces = _pieces(curve)
        if scaling.scale == 0.0 or not len(pieces):
            found.append(Pieces(*np.empty((3, 0))))
            continue
        step = pieces.is_step
        with np.errstate(over="ignore"):
            low = _rounded(pieces.low * scaling.scale + scaling.shift, precision)
            high = _rounded(pieces.high * scaling.scale + scaling.shift, precision)
            width = _rounded(high - low, precision)
        if not (np.isfinite(width) & (width > 0.0))[~step].all():
            raise InvalidValue(
                f"{engine} keeps numbers in {np.dtype(precision).name}, in which a piece of the curve of {name!r} has no "
                "positive, finite width; rescale that feature before it is learned"
            )
        low[step] = high[step] = _last_up_to(pieces.low[step], scaling, precision)
        live = ~step | ((low > -np.inf) & (low < np.finfo(precision).max))  # a step beyond all numbers divides none
        found.append(Pieces(low[live], high[live], pieces.rise[live]))
    return found


def _pieces(curve: Curve) -> Pieces:
    """Return the pieces of a curve over its own inputs."""
    rise = np.diff(curve.heights)
    if curve.shape == "steps":
        low = high = curve.values[1:]
    else:
        low, high = curve.values[:-1], curve.values[1:]
        jump = low == high  # at the value itself a curve is halfway: half the step is before it
        low = np.concatenate([low, np.nextafter(low[jump], -np.inf)])
        high = np.concatenate([high, np.nextafter(high[jump], -np.inf)])
        half = np.where(jump, 0.5 * rise, rise)
        rise = np.concatenate([half, half[jump]])
    keep = np.flatnonzero(rise != 0.0)
    order = keep[np.argsort(low[keep], kind="stable")]
    return Pieces(low[order], high[order], rise[order])


def _last_up_to(limits: NDArray[np.float64], scaling: Scaling, precision: Precision) -> NDArray[np.float64]:
    """Return the largest number of a precision whose scaled value is at most each limit; −inf where none is."""
    bits = np.int32 if precision is np.float32 else np.int64
    most = int(np.array(np.finfo(precision).max).view(bits))
    low, high = np.full(limits.shape, -most - 1, np.int64), np.full(limits.shape, most, np.int64)
    while (low < high).any():
        middle = (low | high) - ((low ^ high) >> 1)  # rounded up, without overflow
        with np.errstate(over="ignore"):
            fits = (_numbered(middle, precision) - scaling.shift) / scaling.scale <= limits
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return np.where(low < -most, -np.inf, _numbered(np.maximum(low, -most), precision))


def _rounded(values: NDArray[np.float64], precision: Precision) -> NDArray[np.float64]:
    return values.astype(precision).astype(np.float64)


def _numbered(places: NDArray[np.int64], precision: Precision) -> NDArray[np.float64]:
    """Return the numbers of a precision by their place in ascending order, 0.0 at place 0."""
    bits = np.int32 if precision is np.float32 else np.int64
    sizes = np.abs(places).astype(bits).view(precision).astype(np.float64)
    return np.where(places < 0, -sizes, sizes)
