"""One vote per user and day, so that no heavy user decides."""

from __future__ import annotations

from duelrank.core.errors import InvalidValue

__all__ = ["MOST_VOTERS", "Voters"]

#: So many users of a day are remembered; beyond that, those who voted first may vote once more.
MOST_VOTERS = 20_000
_DAY = 86_400.0
_BYTES = 8


class Voters:
    """Who has voted on the present day, by a hash of 8 bytes each; bounded, and the same whenever the same is asked.

    Parameters
    ----------
    day
        Counted from the beginning of 1970.
    hashes
        Of those who have voted, one after the other, the first vote first.

    Examples
    --------
    >>> from duelrank.guard import Voters
    >>> voters = Voters()
    >>> [voters.admit(user, time=0.0) for user in (b"11111111", b"22222222", b"11111111")], len(voters)
    ([True, True, False], 2)
    """

    def __init__(self, day: int = 0, hashes: bytes = b"") -> None:
        if len(hashes) % _BYTES:
            raise InvalidValue(f"hashes of voters have {_BYTES} bytes each")
        self.day = day
        self._voted = dict.fromkeys(hashes[at : at + _BYTES] for at in range(0, len(hashes), _BYTES))

    def __len__(self) -> int:
        return len(self._voted)

    @property
    def hashes(self) -> bytes:
        """All that is remembered, as it can be given again."""
        return b"".join(self._voted)

    def admit(self, user: bytes, time: float) -> bool:
        """Whether a user may vote at a time, in seconds; who may has voted then."""
        day = int(time // _DAY)
        if not self.day - 1 <= day <= self.day:  # a new day, or a clock had jumped ahead
            self.day, self._voted = day, {}
        if user in self._voted:
            return False
        self._voted[user] = None
        if len(self._voted) > MOST_VOTERS:
            del self._voted[next(iter(self._voted))]
        return True
