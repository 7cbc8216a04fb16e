"""Thousands of runs at once on an accelerator, one impression of every run per step; needs the extra ``lockstep`` (JAX).

`Lockstep` runs specs and yields the same `Record` as `simulate`. A recipe can run here if each of its parts has a twin: the same
stage as a function of arrays, for all runs at once. `why_not` says what is missing.
"""

from duelrank.lockstep import (  # noqa: F401  # each registers its twins
    algorithms,
    exploration,
    inference,
    metrics,
    multileaving,
    projection,
    representation,
    updates,
    users,
)
from duelrank.lockstep.engine import Lockstep, why_not

__all__ = ["Lockstep", "why_not"]
