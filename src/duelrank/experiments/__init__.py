"""Many runs: which ones, over several processes or machines, what is kept, and what they say together."""

from duelrank.experiments.comparison import Comparison, Curve, Row, Spread, compare
from duelrank.experiments.grid import Grid
from duelrank.experiments.reference import Reference, reference_for
from duelrank.experiments.run import Executor, load_extension, load_extensions, run_all, warm_up
from duelrank.experiments.store import Store, load_results

__all__ = [
    "Comparison",
    "Curve",
    "Executor",
    "Grid",
    "Reference",
    "Row",
    "Spread",
    "Store",
    "compare",
    "load_extension",
    "load_extensions",
    "load_results",
    "reference_for",
    "run_all",
    "warm_up",
]
