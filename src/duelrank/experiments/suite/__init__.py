"""Defines suites of experiments: their runs, and the tables and figures made from them."""

from duelrank.experiments.suite.backfill import Backfill
from duelrank.experiments.suite.experiment import Experiment, Study
from duelrank.experiments.suite.grid import Grid
from duelrank.experiments.suite.guards import Guards
from duelrank.experiments.suite.kinds import Ablation, Curves, League, Sweep, Tables
from duelrank.experiments.suite.suite import Suite, load_suite, read_suite, suite_names

__all__ = [
    "Ablation",
    "Backfill",
    "Curves",
    "Experiment",
    "Grid",
    "Guards",
    "League",
    "Study",
    "Suite",
    "Sweep",
    "Tables",
    "load_suite",
    "read_suite",
    "suite_names",
]
