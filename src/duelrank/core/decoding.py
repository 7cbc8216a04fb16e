"""Decoders of structs, created by one thread at a time.

msgspec caches what it knows about a type before that is complete: two threads that create the first decoders of the same type can
crash the process (seen with msgspec 0.22).
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import msgspec

_creating = Lock()


def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of JSON for a type."""
    with _creating:
        return msgspec.json.Decoder(kind)


def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return a decoder of MessagePack for a type."""
    with _creating:
        return msgspec.msgpack.Decoder(kind)
