"""How short loops inside an impression are compiled."""

from __future__ import annotations

import jax

__all__ = ["unrolls"]


def unrolls() -> bool:
    """Whether to write them out: that takes longer to compile, but an accelerator waits for every round of a loop."""
    return str(jax.default_backend()) != "cpu"
