"""Runs experiments in parallel on one or several machines, stores their results, and makes tables, figures and reports."""

from duelrank.core.extensions import load_extension, load_extensions
from duelrank.experiments.executors import Executor, run_all
from duelrank.experiments.experiment import Experiment, Grid, Study
from duelrank.experiments.pipeline import compare, reproduce
from duelrank.experiments.reference import Reference, Skyline, reference_for
from duelrank.experiments.report import Picture, Report, Section
from duelrank.experiments.results import Frame, Store, load_results
from duelrank.experiments.suite import Suite, load_suite
from duelrank.experiments.summary import (
    Estimate,
    MeanCurve,
    Replication,
    Summary,
    mean_curves,
    replicate,
    summarise,
)
from duelrank.experiments.tables import Table
from duelrank.experiments.tabulate import league_table, performance_table, replication_table
from duelrank.experiments.tuning import tune
from duelrank.experiments.workers import warm_up

__all__ = [
    "Estimate",
    "Executor",
    "Experiment",
    "Frame",
    "Grid",
    "MeanCurve",
    "Picture",
    "Reference",
    "Replication",
    "Report",
    "Section",
    "Skyline",
    "Store",
    "Study",
    "Suite",
    "Summary",
    "Table",
    "compare",
    "league_table",
    "load_extension",
    "load_extensions",
    "load_results",
    "load_suite",
    "mean_curves",
    "performance_table",
    "reference_for",
    "replicate",
    "replication_table",
    "reproduce",
    "run_all",
    "summarise",
    "tune",
    "warm_up",
]
