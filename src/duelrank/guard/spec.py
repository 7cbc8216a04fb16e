"""Settings of a guard."""

from __future__ import annotations

from typing import Literal

import msgspec

OnAlarm = Literal["baseline", "rollback", "tell"]
Anonymous = Literal["count", "ignore"]


class GuardSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a guard; a part of the stored state of a `Guard`, so fields are only added, with defaults.

    Parameters
    ----------
    share
        Share of all lists that compare the learned ranker with the baseline.
    false_alarm_every
        Lower bound of the mean number of decisive lists between two false alarms.
    margin
        Distance below one half that the probability of winning a decisive list may have without an alarm.
    on_alarm
        "baseline" serves the baseline and stops learning; "rollback" restores the newest version with proved gain, or acts as
        "baseline" if there is none; "tell" only reports the alarm.
    promote
        Rising shares of the other lists that the learned ranker decides, one for each rung.
    webhook
        http or https address that receives alarms and promotions.
    anonymous
        Treatment of decisive lists without a user: "count" or "ignore".

    Examples
    --------
    >>> from duelrank.guard import GuardSpec
    >>> GuardSpec(share=0.2).promote
    (0.1, 0.5, 1.0)
    """

    share: float = 0.1
    false_alarm_every: float = 1_000_000.0
    margin: float = 0.0
    on_alarm: OnAlarm = "baseline"
    promote: tuple[float, ...] = (0.1, 0.5, 1.0)
    webhook: str | None = None
    anonymous: Anonymous = "count"
