"""What a guard knows, for tests of those who show it or pass it on."""

from __future__ import annotations

from typing import Any

import msgspec

from duelrank.service.http.schema import GuardAlarm, GuardInfo, GuardRung, GuardSpec

_ALARM = GuardAlarm(
    time=1_700_000_000.0,
    model_version=40,
    statistic=1_250_000.0,
    wins=120,
    losses=310,
    did="baseline",
    to_version=None,
    reason="users preferred your own order in 180 of the last 240 comparisons; your own order is shown, and learning has stopped "
    "until an operator resumes the ranker (120 won and 310 lost in all, the statistic 1,250,000 reached 1,000,000)",
)
_INFO = GuardInfo(
    name="shop",
    model_version=42,
    state="watching",
    summary="The learned ranker won 53.8% of 5,200 comparisons with your own order (51.2% to 56.4% at level 0.05). It is proved "
    "to be better; it won 55% of the last 100 comparisons.",
    lists=12_345,
    decisive=5_200,
    wins=2_800,
    losses=2_400,
    ties=2_000,
    no_click=5_000,
    repeated=145,
    win_rate=0.538,
    low=0.512,
    high=0.564,
    level=0.05,
    e_value=31_000.0,
    proved=True,
    statistic=23.5,
    threshold=1_000_000.0,
    rung=GuardRung(
        number=2, rungs=3, share=0.5, wins=700, losses=650, win_rate=0.519, low=0.472, high=0.566, needed=0.49
    ),
    learned_share=0.5,
    alarms=0,
    promotions=1,
    last_alarm=None,
    guard=GuardSpec(promote=(0.1, 0.5, 1.0)),
    lately=0.55,
)


def guard_info(**changes: Any) -> GuardInfo:
    """Return a guard that is well, or that has raised an alarm (state="alarm"), with changes."""
    if changes.get("state") == "alarm":
        stepped_back = {
            "summary": f"Alarm: {_ALARM.reason}.",
            "statistic": 1_250_000.0,
            "win_rate": 0.279,
            "low": 0.21,
            "high": 0.35,
            "e_value": 0.003,
            "proved": False,
            "learned_share": 0.0,
            "alarms": 1,
            "last_alarm": _ALARM,
            "phase": "alarm",
        }
        changes = stepped_back | changes
    return msgspec.structs.replace(_INFO, **changes)
