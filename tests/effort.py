"""How long tests search for counter-examples: shortly by default; DUELRANK_SOAK multiplies it, as `make soak` does."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

SOAK = int(os.environ.get("DUELRANK_SOAK", "1"))


def examples(count: int, **others: Any) -> settings:
    """Return settings of hypothesis that try so many examples, or that many times more."""
    return settings(max_examples=count * SOAK, **others)
