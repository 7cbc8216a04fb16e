"""Searches for good parameters of a recipe with Optuna, by reward and validation quality; needs the extra ``tune``."""

from duelrank.experiments.tuning.objective import Objective, Scores
from duelrank.experiments.tuning.search import Tuned, make_settings, search, tune
from duelrank.experiments.tuning.settings import Settings
from duelrank.experiments.tuning.space import Parameter, search_space, with_values

__all__ = [
    "Objective",
    "Parameter",
    "Scores",
    "Settings",
    "Tuned",
    "make_settings",
    "search",
    "search_space",
    "tune",
    "with_values",
]
