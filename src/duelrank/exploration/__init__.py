"""Stage 1: which rankers to try."""

from duelrank.exploration.base import Exploration
from duelrank.exploration.in_document_space import InDocumentSpace
from duelrank.exploration.null_space import NullSpace
from duelrank.exploration.uniform_sphere import UniformSphere

__all__ = ["Exploration", "InDocumentSpace", "NullSpace", "UniformSphere"]
