"""Counter-based random numbers: run, impression, purpose and index determine each number, so there is no state.

The generator is Threefry 2x32 with 20 rounds, written out so that the compiler can fuse it with the use of the numbers.

Reference: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import jax.numpy as jnp

from duelrank.lockstep.twin import Array, DType

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


class Purpose(IntEnum):
    """The purpose of a random number; numbers of different purposes are independent."""

    QUERY = 0
    START = 1
    DIRECTIONS = 2
    TIES = 3
    RANKERS = 4
    RACE = 5
    CLICKS = 6
    STOPS = 7
    REPLAY_TIES = 8
    EVALUATION = 9
    SAMPLE = 10
    PAIRS = 11
    POPULARITY = 12
    CURIOUS = 13
    CURIOSITY = 14


_N_PURPOSES = 16
_ROW = 1 << 16  # longer than any row
_PLACE_BITS = 12  # bits of a place in an order, enough for 4,096 documents; the other 20 are random


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return two random words for a key of two words and a counter of two words, all uint32."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            a = a + b
            b = (b << jnp.uint32(rotation)) | (b >> jnp.uint32(32 - rotation))
            b = a ^ b
        a = a + keys[(block + 1) % 3]
        b = b + keys[(block + 2) % 3] + jnp.uint32(block + 1)
    return a, b


@dataclass(frozen=True)
class Draws:
    """The random numbers of one impression of one run.

    Parameters
    ----------
    key
        (2,) uint32 words of the run.
    impression
        The number of the impression.
    real
        The type of the numbers: float32 or float64.
    """

    key: Array
    impression: Array
    real: DType

    def words(self, purpose: Purpose, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Return two arrays of random words.

        The counter of a number depends on its row and its place in the row, but not on the length of rows, which depends on the
        largest query or the most features of all runs of a program: a run must not depend on the other runs of its batch.
        """
        rows = jnp.arange(math.prod(shape[:-1]), dtype=jnp.uint32).reshape(*shape[:-1], 1) * jnp.uint32(_ROW)
        index = (rows + jnp.arange(shape[-1], dtype=jnp.uint32)) if shape else jnp.uint32(0)
        first = self.impression.astype(jnp.uint32) * jnp.uint32(_N_PURPOSES) + jnp.uint32(purpose)
        return threefry((self.key[0], self.key[1]), (first, index))

    def uniform(self, purpose: Purpose, shape: tuple[int, ...] = ()) -> Array:
        """Return numbers between 0 and 1, both excluded."""
        return self._unit(*self.words(purpose, shape))

    def below(self, purpose: Purpose, limit: Array, shape: tuple[int, ...] = ()) -> Array:
        """Return whole numbers from 0 to limit − 1."""
        drawn = (self.uniform(purpose, shape) * limit).astype(jnp.int32)
        return jnp.minimum(drawn, jnp.asarray(limit, jnp.int32) - 1)  # the product may be rounded up to the limit

    def normal(self, purpose: Purpose, shape: tuple[int, ...]) -> Array:
        """Return standard normal numbers (Box and Muller's method)."""
        one, other = self.words(purpose, shape)
        return jnp.sqrt(-2.0 * jnp.log(self._unit(one, other))) * jnp.cos(2.0 * math.pi * self._unit(other, one))

    def log_exponential(self, purpose: Purpose, shape: tuple[int, ...]) -> Array:
        """Return the logarithms of exponential numbers of rate 1."""
        return jnp.log(-jnp.log(self.uniform(purpose, shape)))

    def order(self, purpose: Purpose, shape: tuple[int, ...]) -> Array:
        """Return distinct random numbers along the last axis, as sort keys for a random order."""
        bits = max(_PLACE_BITS, (shape[-1] - 1).bit_length())
        words, _ = self.words(purpose, shape)
        mask = jnp.uint32((1 << bits) - 1)
        return (words & ~mask) | jnp.arange(shape[-1], dtype=jnp.uint32)

    def _unit(self, high: Array, low: Array) -> Array:
        """Return (k + ½) / 2ⁿ for n bits of one word, or of both for double precision."""
        if self.real == jnp.float32:
            return ((high >> jnp.uint32(9)).astype(jnp.float32) + 0.5) * jnp.float32(2.0**-23)
        whole = (high >> jnp.uint32(6)).astype(jnp.float64) * 2.0**26 + (low >> jnp.uint32(6)).astype(jnp.float64)
        return (whole + 0.5) * 2.0**-52
