"""The alarm: an e-detector of the Shiryaev-Roberts form.

Reference: Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change detection" (2022).
"""

from __future__ import annotations

import math

from duelrank.core.errors import InvalidValue
from duelrank.guard.values import Value

__all__ = ["ALTERNATIVES", "MOST_MARGIN", "Detector"]

#: Win rates that it looks for, where half of the decisive lists is what may be expected.
ALTERNATIVES = (0.30, 0.40, 0.45, 0.475, 0.49)
#: A ranker that may lose more than that is not guarded.
MOST_MARGIN = 0.25
# Evidence stops to grow here, far beyond any threshold, so that it stays a plain number for ever.
_MOST = 1e100


class Detector(Value, frozen=True):
    """Raises an alarm when the chance to win has fallen below one half, less a margin, at whatever time that happens.

    As long as each decisive list is won with a chance of at least ½ − ``margin``, given all before it, the mean number of
    decisive lists until a (false) alarm is at least ``false_alarm_every``. The chance may change all the time.

    For each alternative p there is one number, M ← (M + 1) · L, where L is how much likelier the outcome is with p than with
    ½ − ``margin``; the alarm is raised when their mean reaches ``false_alarm_every``.

    Parameters
    ----------
    false_alarm_every
        Decisive lists between two false alarms, on average, or more.
    margin
        How far below one half the chance to win may be.
    evidence
        One number per alternative; it says all about the past.

    Examples
    --------
    >>> from duelrank.guard import Detector
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
                f"false_alarm_every is a number of decisive lists from 1 to 10^15, got {self.false_alarm_every!r}"
            )
        if not 0.0 <= self.margin <= MOST_MARGIN:
            raise InvalidValue(f"the margin is from 0 to {MOST_MARGIN}, got {self.margin!r}")
        if len(self.evidence) != len(ALTERNATIVES) or not all(0.0 <= each < math.inf for each in self.evidence):
            raise InvalidValue(
                f"a detector has {len(ALTERNATIVES)} numbers of evidence from 0 up, got {self.evidence!r}"
            )

    @property
    def statistic(self) -> float:
        """What is compared with ``false_alarm_every``."""
        total = 0.0
        for each in (
            self.evidence
        ):  # not `sum`, which rounds differently from Python 3.12 on: a replay must make the same alarm
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
            found.append(min((evidence + 1.0) * ratio, _MOST))
        return Detector(self.false_alarm_every, self.margin, tuple(found))

    def reset(self) -> Detector:
        """Return the detector without a past."""
        return Detector(self.false_alarm_every, self.margin)
