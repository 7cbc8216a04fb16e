"""How often one caller may ask: a bucket of tokens each, in a table that cannot grow for ever."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["Buckets"]


class Buckets:
    """Token buckets by caller: each fills at a rate, up to a size, and every request takes one token out.

    Parameters
    ----------
    rate
        Tokens a second.
    size
        The most that a bucket holds: how many requests may come at once after a pause.
    most
        How many callers are remembered; the one that was quiet for longest is forgotten first, and starts full again.
    """

    def __init__(self, rate: float, size: float, most: int = 10_000) -> None:
        self.rate, self.size, self.most = rate, max(size, 1.0), most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str, now: float) -> float:
        """Take a token and return 0, or leave it and return how many seconds it takes until there is one."""
        level, then = self._levels.get(caller, (self.size, now))
        level = min(self.size, level + max(0.0, now - then) * self.rate)
        allowed = level >= 1.0
        self._levels[caller] = (level - 1.0 if allowed else level, now)
        self._levels.move_to_end(caller)
        if len(self._levels) > self.most:
            self._levels.popitem(last=False)
        return 0.0 if allowed else (1.0 - level) / self.rate

    def __len__(self) -> int:
        return len(self._levels)
