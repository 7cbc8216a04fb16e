"""The features of an impression as the event log keeps them, until the impression is learned from: compressed, and exact."""

from __future__ import annotations

from threading import local
from typing import Literal

import msgspec
import numpy as np
import zstandard

from duelrank.core.errors import StoreCorrupt
from duelrank.core.types import Features

__all__ = ["pack_features", "unpack_features"]

#: The fastest level: higher ones save a few percent of such numbers, and take several times as long.
LEVEL = 1
#: Fewer bytes are kept as they are: the compressor lets other threads go first, and to get one's turn again takes longer.
SMALL = 16 << 10
#: A table cannot be larger than this; a damaged length must not take all memory.
MOST_BYTES = 1 << 30

_threads = local()  # zstandard's contexts may be used by one thread at a time


class _Table(msgspec.Struct, frozen=True, array_like=True):
    kind: Literal["<f4", "<f8"]
    documents: int
    features: int
    data: bytes
    compressed: bool


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Table).decode


def pack_features(features: Features) -> bytes:
    """Return a table of features as bytes; in single precision where that loses nothing."""
    with np.errstate(over="ignore"):
        single = features.astype("<f4")
    exact = bool((single == features).all())
    table = single if exact else features.astype("<f8", copy=False)
    n_documents, n_features = features.shape
    compressed = table.nbytes > SMALL
    data = _compress(table.tobytes()) if compressed else table.tobytes()
    return _encode(_Table("<f4" if exact else "<f8", n_documents, n_features, data, compressed))


def unpack_features(attachment: bytes) -> Features:
    """Return the table that was packed, in double precision and read-only."""
    try:
        found = _decode(attachment)
        data = _decompress(found.data) if found.compressed else found.data
        table = np.frombuffer(data, found.kind).reshape(found.documents, found.features)
    except (msgspec.MsgspecError, zstandard.ZstdError, ValueError) as error:
        raise StoreCorrupt(f"the features of an impression are damaged: {error}") from None
    features = table.astype(np.float64)
    features.flags.writeable = False
    return features


def _compress(data: bytes) -> bytes:
    if not hasattr(_threads, "compressor"):
        _threads.compressor = zstandard.ZstdCompressor(level=LEVEL)
    compressed: bytes = _threads.compressor.compress(data)
    return compressed


def _decompress(data: bytes) -> bytes:
    if not hasattr(_threads, "decompressor"):
        _threads.decompressor = zstandard.ZstdDecompressor()
    found: bytes = _threads.decompressor.decompress(data, max_output_size=MOST_BYTES)
    return found
