"""Stage 1: what an algorithm sees of the features of documents."""

from duelrank.representation.base import Curve, Representation
from duelrank.representation.bent_lines import BentLines
from duelrank.representation.chain import Chain
from duelrank.representation.distribution import Distribution
from duelrank.representation.fixed import Fixed, MinMax, Scaling, Standard, Unscaled
from duelrank.representation.query_ranks import QueryRanks
from duelrank.representation.query_scaled import QueryScaled
from duelrank.representation.ramps import Ramps
from duelrank.representation.raw import Raw
from duelrank.representation.steps import Steps

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
