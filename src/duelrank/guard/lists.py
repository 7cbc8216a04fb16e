"""Guard lists: what is shown in order to compare the learned ranker with the baseline, and what its clicks say."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.types import Clicks, Gains, Ranking, Stream
from duelrank.kernels import multileaving as team_draft
from duelrank.kernels.random import uniform

__all__ = ["BASELINE", "LEARNED", "Kind", "Outcome", "Teams", "draw_kind", "guard_list", "outcome_of"]

#: What decides the order of a list: a team draft of both ("guard"), the learned ranker, or the baseline.
Kind: TypeAlias = Literal["guard", "learned", "baseline"]
#: What a closed guard list says of the learned ranker; a tie and a list without a click say nothing.
Outcome: TypeAlias = Literal["win", "loss", "tie", "no_click"]
#: Who owns each position of a guard list; −1 where both rankings agree from the top.
Teams: TypeAlias = NDArray[np.int64]

BASELINE, LEARNED = 0, 1


def draw_kind(stream: Stream, share: float, learned_share: float) -> Kind:
    """Draw the kind of the next list.

    Parameters
    ----------
    stream
        Of this list; `guard_list` goes on with it.
    share
        Of guard lists among all.
    learned_share
        Of lists that the learned ranker decides, among those that are not guard lists.
    """
    if uniform(stream) < share:
        return "guard"
    return "learned" if learned_share >= 1.0 or uniform(stream) < learned_share else "baseline"


def guard_list(baseline: Ranking, learned: Ranking, length: int, stream: Stream) -> tuple[Ranking, Teams]:
    """Return a team draft of two rankings of the same documents, and who owns each position."""
    found: tuple[Ranking, Teams] = team_draft.team_draft_leave(
        np.stack((baseline, learned)), min(length, len(baseline)), stream
    )
    return found


def outcome_of(teams: Teams, gains: Clicks | Gains) -> Outcome:
    """Return what the clicks on a guard list say: the team wins whose documents have gained more; a plain click gains 1.

    Examples
    --------
    >>> outcome_of(np.array([-1, 0, 1, 1]), np.array([True, True, True, True]))
    'win'
    >>> outcome_of(np.array([-1, 0, 1, 1]), np.array([0.0, 10.0, 1.0, 1.0]))
    'loss'
    """
    if not gains.any():
        return "no_click"
    learned, baseline = gains[teams == LEARNED].sum(), gains[teams == BASELINE].sum()
    if math.isclose(learned, baseline):  # sums that are equal but for rounding
        return "tie"
    return "win" if learned > baseline else "loss"
