"""How much memory the device has for runs, and what is said when that was not enough."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax

from duelrank.errors import InvalidValue

__all__ = ["usable", "within_memory"]

_UNKNOWN = 4 << 30  # where a device does not say how much it has
_SHARE = 0.6  # for what can be counted before compiling


def usable() -> int:
    """Return how many bytes may be planned for."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return int(stats.get("bytes_limit", _UNKNOWN) * _SHARE)


@contextmanager
def within_memory() -> Iterator[None]:
    """Turn JAX's error for a lack of memory into one that says what to do."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise InvalidValue(
            "the batch did not fit in the device's memory; end what else uses it, run fewer algorithms in one command, or leave "
            "--device out"
        ) from error
