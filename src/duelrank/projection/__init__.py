"""Stage 5: which shown documents were seen, and keep of a gradient only what they can tell apart."""

from duelrank.projection.base import Examination, Projection
from duelrank.projection.document_space import DocumentSpace
from duelrank.projection.last_click import LastClick
from duelrank.projection.observed import Observed
from duelrank.projection.whole_list import WholeList

__all__ = ["DocumentSpace", "Examination", "LastClick", "Observed", "Projection", "WholeList"]
