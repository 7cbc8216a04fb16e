"""Stores the models of click bandits: one per query, for a limited number of queries."""

from __future__ import annotations

from hashlib import blake2b
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.core.types import Memory
from duelrank.kernels.bandits import HEAD, recall

__all__ = ["QueryMemory"]

_EMPTY = np.empty(0, np.int64)
_NEVER = np.iinfo(np.int64).max


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
        return {"queries_oldest": np.full(self.n_buckets, _NEVER), "queries_known": np.zeros(1, np.int64)}

    def read(self, memory: Memory, query: str) -> tuple[NDArray[np.int64], int]:
        """Return the model of a query and the number of times it was written; an empty model if the query is unknown."""
        key = _hash(query)
        bucket = memory.get(f"queries_{key % self.n_buckets}", _EMPTY)
        rounds, start, stop = recall(bucket, key)
        return bucket[start:stop], rounds

    def write(self, memory: Memory, query: str, model: NDArray[np.int64], rounds: int, now: int) -> Memory:
        """Return the memory with the model added; ``now`` must not be earlier than any previous write."""
        key = _hash(query)
        number = key % self.n_buckets
        bucket = memory.get(f"queries_{number}", _EMPTY)
        _, start, stop = recall(bucket, key)
        head = np.array((key, now, rounds, model.size), np.int64)
        # The latest write goes to the end, so that the first model of a bucket is its oldest.
        bucket = np.concatenate((bucket[: max(start - HEAD, 0)], bucket[stop:], head, model.ravel()))
        after = {**memory, f"queries_{number}": bucket, "queries_oldest": memory["queries_oldest"].copy()}
        after["queries_oldest"][number] = bucket[1]
        if stop == 0 and memory["queries_known"][0] == self.queries:
            _forget_oldest(after)
        elif stop == 0:
            after["queries_known"] = memory["queries_known"] + 1
        return after


def _forget_oldest(memory: dict[str, NDArray[Any]]) -> None:
    """Drop, in place, the least recently written model."""
    number = int(memory["queries_oldest"].argmin())
    bucket = memory[f"queries_{number}"]
    memory[f"queries_{number}"] = rest = bucket[HEAD + int(bucket[3]) :].copy()
    memory["queries_oldest"][number] = rest[1] if rest.shape[0] else _NEVER


def _hash(query: str) -> int:
    """Return a 64-bit hash that is the same in every process."""
    digest = blake2b(str(query).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
