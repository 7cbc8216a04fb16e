"""Stores and summarises the results of many runs: frames, stores, summaries, significance tests and provenance."""

from duelrank.experiments.results.frame import Frame
from duelrank.experiments.results.published import Replication, replicate
from duelrank.experiments.results.store import Store, load_results
from duelrank.experiments.results.summary import Curve, Estimate, Measure, Summary, mean_curves, summarise

__all__ = [
    "Curve",
    "Estimate",
    "Frame",
    "Measure",
    "Replication",
    "Store",
    "Summary",
    "load_results",
    "mean_curves",
    "replicate",
    "summarise",
]
