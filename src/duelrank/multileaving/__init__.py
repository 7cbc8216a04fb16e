"""Stage 2: one list from many rankers, and from its clicks the credit of each."""

from duelrank.multileaving.base import Multileaver
from duelrank.multileaving.probabilistic import Probabilistic
from duelrank.multileaving.team_draft import TeamDraft

__all__ = ["Multileaver", "Probabilistic", "TeamDraft"]
