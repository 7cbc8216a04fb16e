"""The twins of the stages, one small file each, named as the part; importing this package registers them."""

from duelrank.lockstep import algorithms as dueling_bandit
from duelrank.lockstep import algorithms as log_pairs
from duelrank.lockstep import algorithms as pairrank
from duelrank.lockstep import algorithms as pdgd
from duelrank.lockstep import algorithms as projected
from duelrank.lockstep import algorithms as represented
from duelrank.lockstep import exploration as null_space
from duelrank.lockstep import exploration as opposite_pair
from duelrank.lockstep import exploration as uniform_sphere
from duelrank.lockstep import inference as best_winner
from duelrank.lockstep import inference as credit_weighted
from duelrank.lockstep import inference as difficult_queries
from duelrank.lockstep import inference as mean_winner
from duelrank.lockstep import metrics, users
from duelrank.lockstep import multileaving as contested_pairs
from duelrank.lockstep import multileaving as probabilistic
from duelrank.lockstep import multileaving as sample_only_scored
from duelrank.lockstep import multileaving as team_draft
from duelrank.lockstep import projection as click_model
from duelrank.lockstep import projection as dependent_click
from duelrank.lockstep import projection as document_space
from duelrank.lockstep import projection as dynamic_bayesian
from duelrank.lockstep import projection as examination
from duelrank.lockstep import projection as position_based
from duelrank.lockstep import representation as bent_lines
from duelrank.lockstep import representation as chain
from duelrank.lockstep import representation as fixed
from duelrank.lockstep import representation as knots
from duelrank.lockstep import representation as ramps
from duelrank.lockstep import updates as step

__all__ = [
    "bent_lines",
    "best_winner",
    "chain",
    "click_model",
    "contested_pairs",
    "credit_weighted",
    "dependent_click",
    "difficult_queries",
    "document_space",
    "dueling_bandit",
    "dynamic_bayesian",
    "examination",
    "fixed",
    "knots",
    "log_pairs",
    "mean_winner",
    "metrics",
    "null_space",
    "opposite_pair",
    "pairrank",
    "pdgd",
    "position_based",
    "probabilistic",
    "projected",
    "ramps",
    "represented",
    "sample_only_scored",
    "step",
    "team_draft",
    "uniform_sphere",
    "users",
]
