"""Searches for good parameters of a recipe with Optuna, by reward and validation quality; needs the extra ``tune``."""

from duelrank.experiments.tuning.search import Tuned, tune
from duelrank.experiments.tuning.settings import Objective, Parameter, Scores, Settings, search_space, with_values

__all__ = ["Objective", "Parameter", "Scores", "Settings", "Tuned", "search_space", "tune", "with_values"]
