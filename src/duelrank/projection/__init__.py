"""Stage 6: estimates which shown documents were examined, and projects the gradient onto their span."""

from duelrank.projection.adaptive_last_click import AdaptiveLastClick
from duelrank.projection.base import Examination, Projection
from duelrank.projection.click_model import ClickModel
from duelrank.projection.dependent_click import DependentClick
from duelrank.projection.document_space import DocumentSpace
from duelrank.projection.dynamic_bayesian import DynamicBayesian
from duelrank.projection.last_click import LastClick
from duelrank.projection.observed import Observed
from duelrank.projection.position_based import PositionBased
from duelrank.projection.whole_list import WholeList

__all__ = [
    "AdaptiveLastClick",
    "ClickModel",
    "DependentClick",
    "DocumentSpace",
    "DynamicBayesian",
    "Examination",
    "LastClick",
    "Observed",
    "PositionBased",
    "Projection",
    "WholeList",
]
