"""Stage 1: represents the features of documents as the columns that an algorithm weighs."""

from duelrank.representation.base import Chain, Curve, Missing, QueryRanks, QueryScaled, Raw, Representation
from duelrank.representation.curves import BentLines, Distribution, Ramps, Steps
from duelrank.representation.fixed import Fixed, MinMax, Scaling, Standard, Unscaled
from duelrank.representation.interactions import Interactions

__all__ = [
    "BentLines",
    "Chain",
    "Curve",
    "Distribution",
    "Fixed",
    "Interactions",
    "MinMax",
    "Missing",
    "QueryRanks",
    "QueryScaled",
    "Ramps",
    "Raw",
    "Representation",
    "Scaling",
    "Standard",
    "Steps",
    "Unscaled",
]
