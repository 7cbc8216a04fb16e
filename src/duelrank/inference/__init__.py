"""Stage 5: infers the winners of a comparison, and the gradient."""

from duelrank.inference.base import Inference
from duelrank.inference.best_winner import BestWinner
from duelrank.inference.credit_weighted import CreditWeighted
from duelrank.inference.difficult_queries import DifficultQueries
from duelrank.inference.mean_winner import MeanWinner

__all__ = ["BestWinner", "CreditWeighted", "DifficultQueries", "Inference", "MeanWinner"]
