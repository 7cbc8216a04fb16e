"""What click bandits remember: a model per query, of so many queries at most."""

from __future__ import annotations

from hashlib import blake2b
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.query_memory import UNUSED, forget, recall, remember, surplus
from duelrank.types import Memory

__all__ = ["QueryMemory"]

_EMPTY = np.empty(0, np.int64)


class QueryMemory:
    """Read and write models, flat int64 arrays, in a `Memory`; of too many, the one that was written the longest ago is forgotten.

    A query is known by a 64-bit hash of its id; that two of 10,000 share one has probability 3e-12. A state is never changed but
    replaced, and copying all models for every impression would be slow: they lie in buckets, of which only one is copied. There
    are so many buckets that this takes about as long as copying the names of all.

    Parameters
    ----------
    queries
        How many are remembered.
    """

    def __init__(self, queries: int) -> None:
        self.queries = queries
        self.n_buckets = 4 * isqrt(queries)

    def start(self) -> Memory:
        """Return the memory before the first query."""
        directory = np.zeros((2, self.n_buckets), np.int64)
        directory[1] = UNUSED
        return {"directory": directory}

    def read(self, memory: Memory, query: str) -> tuple[NDArray[np.int64], int]:
        """Return the model of a query and how often it was written; an empty one where the query is unknown."""
        key = _hash(query)
        bucket = memory.get(f"bucket_{key % self.n_buckets}", _EMPTY)
        rounds, start, stop = recall(bucket, key)
        return bucket[start:stop], rounds

    def write(self, memory: Memory, query: str, model: NDArray[np.int64], rounds: int, now: int) -> Memory:
        """Return the memory with the model; no earlier write has been at a later time than now."""
        key = _hash(query)
        number = key % self.n_buckets
        bucket = memory.get(f"bucket_{number}", _EMPTY)
        directory, bucket = remember(memory["directory"], number, bucket, key, now, rounds, model)
        after = {**memory, f"bucket_{number}": bucket}
        excess = surplus(directory, self.queries)
        if excess >= 0:
            directory, after[f"bucket_{excess}"] = forget(directory, excess, after[f"bucket_{excess}"])
        after["directory"] = directory
        return after


def _hash(query: str) -> int:
    """Return 64 bits that are the same in every process."""
    digest = blake2b(str(query).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
