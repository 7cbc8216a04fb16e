"""Named random streams from one seed: parts that draw from streams of different names never disturb each other."""

from __future__ import annotations

import hashlib

from duelrank.errors import InvalidValue
from duelrank.kernels import random
from duelrank.types import Stream

__all__ = ["stream", "stream_key"]


def stream_key(seed: int, name: str) -> int:
    """Return the key of a family of streams, from which `kernels.random.derive` makes one per number."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InvalidValue(f"a seed is a whole number from 0 up, got {seed!r}")
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # 63 bits: compiled code takes it as a plain int64


def stream(seed: int, name: str, number: int = 0) -> Stream:
    """Return the stream of a name and a number: same arguments, same draws, on every machine.

    Examples
    --------
    >>> from duelrank.kernels.random import uniform
    >>> uniform(stream(7, "user")) == uniform(stream(7, "user"))
    True
    """
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 63:
        raise InvalidValue(f"the number of a stream is a whole number from 0 to 2^63 − 1, got {number!r}")
    fresh: Stream = random.derive(stream_key(seed, name), number)
    return fresh
