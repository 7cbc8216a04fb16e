"""Decoders of structs, made by one thread at a time.

msgspec keeps what it finds out about a type before that is complete: two threads that are the first to ask for the same type can
crash the process (seen with msgspec 0.22).
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import msgspec

_one_at_a_time = Lock()


def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of JSON for a type."""
    with _one_at_a_time:
        return msgspec.json.Decoder(kind)


def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return a decoder of MessagePack for a type."""
    with _one_at_a_time:
        return msgspec.msgpack.Decoder(kind)
