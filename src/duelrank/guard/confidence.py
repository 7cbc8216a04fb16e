"""How often a ranker wins: an interval that is right at all times at once.

Reference: Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences" (2021).
"""

from __future__ import annotations

import math

from duelrank.core.errors import InvalidValue
from duelrank.guard.values import Value
from duelrank.kernels.elementary import log

__all__ = ["ConfidenceSequence", "check_counts", "check_level"]

# Of the normal mixture: the interval is tightest, in relation to the best of its size, near some hundred decisive lists.
_RHO = 100.0


def check_level(level: float) -> None:
    """Raise where a level of error makes no sense."""
    if not 0.0 < level < 1.0:
        raise InvalidValue(f"a level is between 0 and 1, such as 0.05, got {level!r}")


def check_counts(wins: int, losses: int) -> None:
    """Raise where there are fewer than no wins or losses."""
    if wins < 0 or losses < 0:
        raise InvalidValue(f"wins and losses are counted from 0 up, got {wins} and {losses}")


class ConfidenceSequence(Value, frozen=True):
    """The win rate over decisive lists, with a band that holds the mean chance to win at all times at once.

    With probability at least 1 − ``level`` there is no time at which the mean of the chances so far is outside. The chance may
    change from list to list. One may look as often as one likes.

    Parameters
    ----------
    wins, losses
        So far.
    level
        The probability that the band is ever wrong.

    Examples
    --------
    >>> from duelrank.guard import ConfidenceSequence
    >>> sequence = ConfidenceSequence(wins=560, losses=440)
    >>> low, high = sequence.interval
    >>> round(low, 3), round(sequence.rate, 3), round(high, 3)
    (0.51, 0.56, 0.61)
    """

    wins: int = 0
    losses: int = 0
    level: float = 0.05

    def __post_init__(self) -> None:
        check_counts(self.wins, self.losses)
        check_level(self.level)

    @property
    def decisive(self) -> int:
        """The number of decisive lists."""
        return self.wins + self.losses

    @property
    def rate(self) -> float:
        """The share of decisive lists that were won; one half before the first."""
        return self.wins / self.decisive if self.decisive else 0.5

    @property
    def half_width(self) -> float:
        """How far the band goes to either side; an outcome is 0 or 1, which varies by at most ¼."""
        n = self.decisive
        if not n:
            return math.inf
        spread = n / 4.0 + _RHO
        return math.sqrt(spread * (log(spread / _RHO) - 2.0 * log(self.level))) / n

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper end of the band, from 0 to 1."""
        rate, half = self.rate, self.half_width
        return max(rate - half, 0.0), min(rate + half, 1.0)

    def update(self, won: bool) -> ConfidenceSequence:
        """Return the sequence after one more decisive list."""
        return ConfidenceSequence(self.wins + won, self.losses + (not won), self.level)
