"""Stage 8: metrics of a list, of a ranker on a split, and the discounted online performance."""

from duelrank.metrics.average_precision import MAP
from duelrank.metrics.base import Metric
from duelrank.metrics.evaluation import evaluate, per_query
from duelrank.metrics.expected_reciprocal_rank import ERR
from duelrank.metrics.ndcg import nDCG
from duelrank.metrics.online import DISCOUNT, online_performance
from duelrank.metrics.precision import P
from duelrank.metrics.reciprocal_rank import MRR

__all__ = ["DISCOUNT", "ERR", "MAP", "MRR", "Metric", "P", "evaluate", "nDCG", "online_performance", "per_query"]
