"""Stage 3: merges the rankings of several rankers into one list, and assigns credit for clicks to the rankers."""

from duelrank.multileaving.balanced import Balanced
from duelrank.multileaving.base import Multileaver
from duelrank.multileaving.contested_pairs import ContestedPairs
from duelrank.multileaving.optimized_interleaving import OptimizedInterleaving
from duelrank.multileaving.optimized_multileaving import OptimizedMultileaving
from duelrank.multileaving.pairwise_preference import PairwisePreference
from duelrank.multileaving.probabilistic import Probabilistic
from duelrank.multileaving.sample_only_scored import SampleOnlyScored
from duelrank.multileaving.team_draft import TeamDraft

__all__ = [
    "Balanced",
    "ContestedPairs",
    "Multileaver",
    "OptimizedInterleaving",
    "OptimizedMultileaving",
    "PairwisePreference",
    "Probabilistic",
    "SampleOnlyScored",
    "TeamDraft",
]
