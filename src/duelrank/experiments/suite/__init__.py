"""Suites of experiments: which runs there are, and the tables and figures that are made of them."""

from duelrank.experiments.suite.experiment import Experiment, Study
from duelrank.experiments.suite.grid import Grid
from duelrank.experiments.suite.kinds import Ablation, Curves, League, Sweep, Tables
from duelrank.experiments.suite.suite import Suite, load_suite, read_suite, suite_names

__all__ = [
    "Ablation",
    "Curves",
    "Experiment",
    "Grid",
    "League",
    "Study",
    "Suite",
    "Sweep",
    "Tables",
    "load_suite",
    "read_suite",
    "suite_names",
]
