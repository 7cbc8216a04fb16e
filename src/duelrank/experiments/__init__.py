"""Many runs: which ones, over several processes, and what they say together."""

from duelrank.experiments.comparison import Comparison, Curve, Row, Spread, compare
from duelrank.experiments.executor import run_all, warm_up
from duelrank.experiments.extensions import load_extension, load_extensions
from duelrank.experiments.grid import Grid
from duelrank.experiments.reference import Reference, reference_for

__all__ = [
    "Comparison",
    "Curve",
    "Grid",
    "Reference",
    "Row",
    "Spread",
    "compare",
    "load_extension",
    "load_extensions",
    "reference_for",
    "run_all",
    "warm_up",
]
