"""Runs thousands of simulations at once on an accelerator, impression by impression; needs the extra ``lockstep`` (JAX).

`Lockstep` runs specs and yields a `Record` for each, as `simulate` does. A recipe can run here if each of its parts has a twin, its
lockstep form: the same stage as functions of arrays, for all runs at once. `why_not` lists the reasons if it cannot.
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
