"""How short loops inside an impression are compiled."""

from __future__ import annotations

import jax

__all__ = ["unrolls"]


_MOST = 32  # rounds to write out: beyond that, compiling takes minutes


def unrolls(rounds: int) -> bool:
    """Whether to write them out: that takes longer to compile, but an accelerator waits for every round of a loop."""
    return rounds <= _MOST and str(jax.default_backend()) != "cpu"
