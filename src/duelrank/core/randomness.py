"""Derives named random streams from one seed: drawing from one stream never affects another."""

from __future__ import annotations

import hashlib

from duelrank.core.types import Stream
from duelrank.core.validation import whole_number
from duelrank.kernels import random


def stream_key(seed: int, name: str) -> int:
    """Return the key of a family of streams; `kernels.random.derive` makes one stream per number from it.

    Examples
    --------
    >>> from duelrank.core.randomness import stream_key
    >>> stream_key(1, "clicks") == stream_key(2, "clicks")
    False
    """
    digest = hashlib.blake2b(f"{whole_number('seed', seed, least=0)}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # 63 bits: compiled code takes it as a plain int64


def stream(seed: int, name: str, number: int = 0) -> Stream:
    """Return the stream of a name and a number; equal arguments give equal draws on every machine.

    Examples
    --------
    >>> from duelrank.kernels.random import uniform
    >>> from duelrank.core.randomness import stream
    >>> uniform(stream(7, "user")) == uniform(stream(7, "user"))
    True
    """
    fresh: Stream = random.derive(stream_key(seed, name), whole_number("number", number, 0, (1 << 63) - 1))
    return fresh
