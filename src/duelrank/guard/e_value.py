"""Proof that a ranker is better: an e-value, which may be looked at at any time."""

from __future__ import annotations

from duelrank.guard.confidence import check_counts, check_level
from duelrank.guard.values import Value
from duelrank.kernels.elementary import exp, log, log1p, log_gamma

__all__ = ["EValue"]

_LN2 = 0.6931471805599453
# The largest that is told as a plain number.
_MOST_LOG = 690.0


class EValue(Value, frozen=True):
    """Evidence that a ranker wins more than half of the decisive lists.

    It is the mean, over all chances p from ½ to 1, of how much likelier the outcomes are with p than with ½:
    2^(n+1) ∫ p^wins (1−p)^losses dp. Where the chance to win is never above ½, given the past, the probability that it ever
    reaches 1/α is at most α: at 20, gain is proved at level 0.05, whenever one looks.

    Parameters
    ----------
    wins, losses
        So far.

    Examples
    --------
    >>> from duelrank.guard import EValue
    >>> EValue(wins=70, losses=30).proves(0.05)
    True
    >>> round(EValue(wins=60, losses=40).value, 2), round(EValue(wins=70, losses=30).value, 2)
    (1.78, 854.59)
    """

    wins: int = 0
    losses: int = 0

    def __post_init__(self) -> None:
        check_counts(self.wins, self.losses)

    @property
    def log(self) -> float:
        """The natural logarithm of the e-value."""
        if self.wins <= self.losses:
            return log(_below_half(self.wins, self.losses))
        whole = _log_whole(self.wins, self.losses)
        return whole + log1p(-_below_half(self.losses, self.wins) * exp(-whole))

    @property
    def value(self) -> float:
        """The e-value, or the largest that is told, 10^299, where it is larger."""
        return exp(min(self.log, _MOST_LOG))

    def proves(self, level: float = 0.05) -> bool:
        """Whether it is proved, at this level, that the ranker wins more than half."""
        check_level(level)
        if self.wins <= self.losses or _log_whole(self.wins, self.losses) < -log(level):
            return False  # the e-value is below 1, or below its cheap upper bound
        return self.log >= -log(level)

    def update(self, won: bool) -> EValue:
        """Return the e-value after one more decisive list."""
        return EValue(self.wins + won, self.losses + (not won))


def _log_whole(wins: int, losses: int) -> float:
    """The logarithm of the same with the integral over all p from 0 to 1."""
    n = wins + losses
    return (n + 1) * _LN2 + log_gamma(float(wins + 1)) + log_gamma(float(losses + 1)) - log_gamma(float(n + 2))


def _below_half(wins: int, losses: int) -> float:
    """The e-value where there are no more wins than losses, by a sum of falling terms.

    2^(n+1) ∫ is wins! losses! Σ 1 / (j! (n+1−j)!) over j from 0 to wins; the term of j = wins is 1 / (losses + 1).
    """
    term = total = 1.0
    for j in range(wins):
        term *= (wins - j) / (losses + 2 + j)
        total += term
        if term < 1e-17 * total:
            break
    return total / (losses + 1)
