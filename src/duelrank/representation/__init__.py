"""Stage 1: what an algorithm sees of the features of documents."""

from duelrank.representation.base import Chain, Curve, QueryRanks, QueryScaled, Raw, Representation
from duelrank.representation.curves import BentLines, Distribution, Ramps, Steps
from duelrank.representation.fixed import Fixed, MinMax, Scaling, Standard, Unscaled

__all__ = [
    "BentLines",
    "Chain",
    "Curve",
    "Distribution",
    "Fixed",
    "MinMax",
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
