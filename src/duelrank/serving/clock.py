"""Two clocks: one that tells the time and may jump, and one that only goes forward."""

from __future__ import annotations

import time

__all__ = ["Clock"]


class Clock:
    """The clocks of this computer; tests have others."""

    def time(self) -> float:
        """Return seconds since 1970; may jump, in both directions."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since some moment; never goes back."""
        return time.monotonic()
