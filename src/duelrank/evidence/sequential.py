"""Sequential tests of wins against losses. Each is valid at all times at once, so that one may look at it as often as one likes.

A win or a loss is the outcome of one decisive list, in which the documents of one ranker got more clicks than those of the other.

References
----------
Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences" (2021).
Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change detection" (2022).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar

import msgspec

from duelrank.core.errors import InvalidValue
from duelrank.core.statistics import log_beta
from duelrank.kernels.elementary import exp, log, log1p, log_gamma

Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")

#: Win rates that the detector looks for, scaled down by the margin.
ALTERNATIVES = (0.30, 0.40, 0.45, 0.475, 0.49)
#: The largest margin of a detector.
MAX_MARGIN = 0.25

# Parameter of the normal mixture: the interval is tightest, relative to the best of its size, near some hundred decisive lists.
_RHO = 100.0
# Evidence stops growing here, far above any threshold, so that it never overflows.
_MAX_EVIDENCE = 1e100
# The largest logarithm of an e-value that is converted to a plain number.
_MAX_LOG = 690.0
_LN2 = 0.6931471805599453
# Parameters a of the Beta(a, a) mixtures: small ones find large differences soon, large ones find differences of a few percent.
_PRIORS = (1.0, 10.0, 100.0, 1000.0)


def check_level(level: float) -> None:
    """Raise an error unless a level of error is between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise InvalidValue(f"level must be between 0 and 1, such as 0.05, got {level!r}")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An immutable value that can be stored as JSON; equal values behave equally from then on."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible values, from which `from_dict` restores an equal value."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Restore a value from the result of `to_dict`."""
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise InvalidValue(f"this is not a stored {cls.__name__}: {error}") from None


class _Outcomes(Value, frozen=True):
    """Numbers of decisive lists that were won and lost."""

    wins: int = 0
    losses: int = 0

    def __post_init__(self) -> None:
        if self.wins < 0 or self.losses < 0:
            raise InvalidValue(f"wins and losses must be 0 or more, got {self.wins} and {self.losses}")

    def update(self, won: bool) -> Self:
        """Return the value after one more decisive list."""
        return msgspec.structs.replace(self, wins=self.wins + won, losses=self.losses + (not won))


class ConfidenceSequence(_Outcomes, frozen=True):
    """The win rate over decisive lists, with a band that holds the mean chance to win at all times at once.

    With probability at least 1 − ``level``, the mean of the chances so far is never outside the band. The chance may change from
    list to list.

    Parameters
    ----------
    wins, losses
        Number of decisive lists that were won, and that were lost.
    level
        Probability that the band is ever wrong.

    Examples
    --------
    >>> from duelrank.evidence import ConfidenceSequence
    >>> sequence = ConfidenceSequence(wins=560, losses=440)
    >>> low, high = sequence.interval
    >>> round(low, 3), round(sequence.rate, 3), round(high, 3)
    (0.51, 0.56, 0.61)
    """

    level: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_level(self.level)

    @property
    def decisive(self) -> int:
        """Number of decisive lists."""
        return self.wins + self.losses

    @property
    def rate(self) -> float:
        """Share of the decisive lists that were won; one half before the first."""
        return self.wins / self.decisive if self.decisive else 0.5

    @property
    def half_width(self) -> float:
        """Distance from the win rate to either end of the band; an outcome of 0 or 1 has a variance of at most ¼."""
        n = self.decisive
        if not n:
            return math.inf
        spread = n / 4.0 + _RHO
        return math.sqrt(spread * (log(spread / _RHO) - 2.0 * log(self.level))) / n

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the band, within 0 and 1."""
        rate, half = self.rate, self.half_width
        return max(rate - half, 0.0), min(rate + half, 1.0)


class EValue(_Outcomes, frozen=True):
    """Evidence that a ranker wins more than half of the decisive lists.

    The e-value is the mean, over all chances p from ½ to 1, of the likelihood ratio of p against ½:
    2^(n+1) ∫ p^wins (1−p)^losses dp. If the chance to win, given the past, is never above ½, the probability that the e-value
    ever reaches 1/α is at most α. At 20, gain is proved at level 0.05.

    Parameters
    ----------
    wins, losses
        Number of decisive lists that were won, and that were lost.

    Examples
    --------
    >>> from duelrank.evidence import EValue
    >>> EValue(wins=70, losses=30).proves(0.05)
    True
    >>> round(EValue(wins=60, losses=40).value, 2), round(EValue(wins=70, losses=30).value, 2)
    (1.78, 854.59)
    """

    @property
    def log(self) -> float:
        """Natural logarithm of the e-value."""
        if self.wins <= self.losses:
            return log(_up_to_half(self.wins, self.losses))
        whole = _log_whole(self.wins, self.losses)
        return whole + log1p(-_up_to_half(self.losses, self.wins) * exp(-whole))

    @property
    def value(self) -> float:
        """The e-value, capped at about 10^299."""
        return exp(min(self.log, _MAX_LOG))

    def proves(self, level: float = 0.05) -> bool:
        """Whether it is proved, at this level, that the ranker wins more than half of the decisive lists."""
        check_level(level)
        if self.wins <= self.losses or _log_whole(self.wins, self.losses) < -log(level):
            return False  # the e-value is below 1, or its upper bound, which is cheaper, is too low
        return self.log >= -log(level)


def _log_whole(wins: int, losses: int) -> float:
    """Return the logarithm of the e-value with the integral over all p from 0 to 1, an upper bound."""
    n = wins + losses
    return (n + 1) * _LN2 + log_gamma(float(wins + 1)) + log_gamma(float(losses + 1)) - log_gamma(float(n + 2))


def _up_to_half(wins: int, losses: int) -> float:
    """Return the e-value if there are no more wins than losses, as a sum of falling terms.

    2^(n+1) ∫ is wins! losses! Σ 1 / (j! (n+1−j)!) over j from 0 to wins; the term of j = wins is 1 / (losses + 1).
    """
    term = total = 1.0
    for j in range(wins):
        term *= (wins - j) / (losses + 2 + j)
        total += term
        if term < 1e-17 * total:
            break
    return total / (losses + 1)


class Detector(Value, frozen=True):
    """Raises an alarm when the chance to win falls below ½ − ``margin``: an e-detector of the Shiryaev-Roberts form.

    As long as each decisive list is won with a chance of at least ½ − ``margin``, given the past, the mean number of decisive
    lists until a (false) alarm is at least ``false_alarm_every``. The chance may change from list to list.

    Each alternative p has one number, M ← (M + 1) · L, where L is the likelihood ratio of p against ½ − ``margin``. The alarm is
    raised when the mean of these numbers reaches ``false_alarm_every``.

    Parameters
    ----------
    false_alarm_every
        Least mean number of decisive lists between two false alarms.
    margin
        Distance below one half that the chance to win may have without an alarm.
    evidence
        The number M of each alternative, which holds all that matters of the past.

    Examples
    --------
    >>> from duelrank.evidence import Detector
    >>> detector = Detector(false_alarm_every=1000)
    >>> for won in [False] * 12:
    ...     detector = detector.update(won)
    >>> detector.alarm, round(detector.statistic)
    (False, 59)
    """

    false_alarm_every: float = 1_000_000.0
    margin: float = 0.0
    evidence: tuple[float, ...] = (0.0,) * len(ALTERNATIVES)

    def __post_init__(self) -> None:
        if not 1.0 <= self.false_alarm_every <= 1e15:
            raise InvalidValue(
                f"false_alarm_every must be from 1 to 10^15 decisive lists, got {self.false_alarm_every!r}"
            )
        if not 0.0 <= self.margin <= MAX_MARGIN:
            raise InvalidValue(f"margin must be from 0 to {MAX_MARGIN}, got {self.margin!r}")
        if len(self.evidence) != len(ALTERNATIVES) or not all(0.0 <= each < math.inf for each in self.evidence):
            raise InvalidValue(
                f"evidence must have {len(ALTERNATIVES)} finite numbers of 0 or more, got {self.evidence!r}"
            )

    @property
    def statistic(self) -> float:
        """Mean of the evidence, which is compared with ``false_alarm_every``."""
        total = 0.0
        for each in self.evidence:  # `sum` rounds differently since Python 3.12, and a replay must raise the same alarm
            total += each
        return total / len(self.evidence)

    @property
    def alarm(self) -> bool:
        """Whether there is enough evidence that the chance to win has fallen."""
        return self.statistic >= self.false_alarm_every

    def update(self, won: bool) -> Detector:
        """Return the detector after one more decisive list."""
        allowed = 1.0 - 2.0 * self.margin
        found = []
        for evidence, alternative in zip(self.evidence, ALTERNATIVES, strict=True):
            p = alternative * allowed
            ratio = p / (0.5 * allowed) if won else (1.0 - p) / (1.0 - 0.5 * allowed)
            found.append(min((evidence + 1.0) * ratio, _MAX_EVIDENCE))
        return Detector(self.false_alarm_every, self.margin, tuple(found))

    def reset(self) -> Detector:
        """Return the detector without evidence."""
        return Detector(self.false_alarm_every, self.margin)


class InOrder(Generic[Key, T]):
    """Returns the outcomes of lists in the order in which the lists were shown, each when all lists before it are closed.

    The sequential tests need this order. In the order of closing, an outcome could depend on how long a list stays open: where won
    lists close earlier than lost ones, wins would be counted first, and gain would be proved without any.

    Parameters
    ----------
    lists
        Outcomes in the order of showing, None for a list that is open: `lists` of another one.

    Examples
    --------
    >>> from duelrank.evidence import InOrder
    >>> order = InOrder()
    >>> for list_number in (1, 2, 3):
    ...     order.show(list_number)
    >>> order.close(2, "win")
    >>> list(order.ready()), order.waiting
    ([], 1)
    >>> order.close(1, "loss")
    >>> list(order.ready()), order.waiting, len(order)
    (['loss', 'win'], 0, 1)
    """

    def __init__(self, lists: Mapping[Key, T | None] | None = None) -> None:
        self._lists = OrderedDict[Key, T | None](lists or {})  # not a dict: that needs long to find its first key
        #: Number of closed lists that wait for an earlier one.
        self.waiting = sum(outcome is not None for outcome in self._lists.values())

    def __len__(self) -> int:
        return len(self._lists)

    def __contains__(self, key: object) -> bool:
        return key in self._lists

    @property
    def lists(self) -> dict[Key, T | None]:
        """Outcomes in the order of showing, None for a list that is open."""
        return dict(self._lists)

    @property
    def first(self) -> Key | None:
        """The earliest list, None if there is none."""
        return next(iter(self._lists), None)

    def show(self, key: Key) -> None:
        """Add a list; those that are added later wait for it."""
        self._lists[key] = None

    def close(self, key: Key, outcome: T) -> None:
        """Note the outcome of a list. One that was not added, or was dropped, is ready at once."""
        known = key in self._lists
        self.waiting += self._lists.get(key) is None
        self._lists[key] = outcome
        if not known:
            self._lists.move_to_end(key, last=False)

    def drop(self, key: Key) -> None:
        """Remove a list, whose outcome does not count; no list waits for it any more."""
        self.waiting -= self._lists.pop(key, None) is not None

    def waiting_for(self, key: Key) -> Iterator[T]:
        """Return the outcomes that are ready as soon as a list is closed or dropped, without its own."""
        for other, outcome in self._lists.items():
            if outcome is not None:
                yield outcome
            elif other != key:
                return

    def ready(self) -> Iterator[T]:
        """Remove and return the outcomes whose turn has come.

        An outcome is removed when the next one is asked for, so it is not lost if its use raises an error.
        """
        while self._lists:
            key, outcome = next(iter(self._lists.items()))
            if outcome is None:
                return
            yield outcome
            self.drop(key)


def anytime_test(wins: int, losses: int) -> float:
    """Return a two-sided p-value that is valid at any time; the null hypothesis is that wins and losses are equally likely.

    It is 1 / e, at most 1. The e-value e is the mean of four likelihood ratios of a Beta(a, a) mixture of chances against ½:
    2^n B(wins + a, losses + a) / B(a, a) for a = 1, 10, 100 and 1,000. If the rankers are equal, the probability that the p-value
    is ever at or below α is at most α (Ville's inequality). The ratio of a = 1 is the mean of both directions of `EValue`.

    Examples
    --------
    >>> from duelrank.evidence import anytime_test
    >>> round(anytime_test(9, 1), 3), round(anytime_test(13, 1), 3)
    (0.287, 0.046)
    """
    # No replay depends on this p-value, so the functions of the C library may be used, as in the other p-values.
    logs = [(wins + losses) * math.log(2.0) + log_beta(wins + a, losses + a) - log_beta(a, a) for a in _PRIORS]
    most = max(logs)
    log_e = most + math.log(sum(math.exp(each - most) for each in logs) / len(logs))
    return math.exp(-max(log_e, 0.0))
