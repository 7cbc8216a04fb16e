"""Reference versions of `duelrank.kernels.random`: the generators as published, with Python integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from duelrank.kernels.random import _AREA, _TAIL

MASK = (1 << 64) - 1


def split_mix(state: Any) -> tuple[int, int]:
    """Advance a SplitMix64 state and return (new state, output)."""
    state = (int(state) + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def derive(key: Any, number: Any) -> NDArray[np.uint64]:
    """Return the stream of (key, number)."""
    state = split_mix(key)[1] ^ int(number)
    words = []
    for _ in range(4):
        state, word = split_mix(state)
        words.append(word)
    return np.array(words, np.uint64)


def _rotate(x: int, k: int) -> int:
    return ((x << k) | (x >> (64 - k))) & MASK


def bits(stream: Any) -> int:
    """Draw 64 random bits."""
    s = [int(word) for word in stream]
    result = (_rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
    t = (s[1] << 17) & MASK
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= t
    s[3] = _rotate(s[3], 45)
    stream[:] = s
    return result


def uniform(stream: Any) -> float:
    """Draw a float in [0, 1)."""
    return (bits(stream) >> 11) / (1 << 53)


def below(stream: Any, n: Any) -> int:
    """Draw an integer from 0 to n - 1: the upper half of n · (32 random bits), with rejection."""
    while True:
        product = (bits(stream) >> 32) * int(n)
        if product % (1 << 32) >= (1 << 32) % int(n):
            return product >> 32


def _density(x: float) -> float:
    return math.exp(-0.5 * x * x)


def _layers() -> list[float]:
    edges = [_AREA / _density(_TAIL), _TAIL]
    while len(edges) < 128:
        edges.append(math.sqrt(-2.0 * math.log(_AREA / edges[-1] + _density(edges[-1]))))
    return [*edges, 0.0]


EDGES = _layers()


def normal(stream: Any) -> float:
    """Draw a standard normal number: a point under the density, layer by layer."""
    while True:
        draw = bits(stream)
        layer, u = draw % 128, 2.0 * ((draw >> 11) / (1 << 53)) - 1.0
        x = u * EDGES[layer]
        if abs(u) < EDGES[layer + 1] / EDGES[layer]:
            return x
        if layer == 0:
            return _tail(stream, u < 0.0)
        upper, lower = _density(EDGES[layer]) / _density(x), _density(EDGES[layer + 1]) / _density(x)
        if lower + uniform(stream) * (upper - lower) < 1.0:
            return x


def _tail(stream: Any, negative: bool) -> float:
    while True:
        x = math.log(1.0 - uniform(stream)) / _TAIL
        y = math.log(1.0 - uniform(stream))
        if -2.0 * y >= x * x:
            return x - _TAIL if negative else _TAIL - x


def integers(stream: Any, n: Any, size: int) -> NDArray[np.int64]:
    """Draw ``size`` integers from 0 to n - 1."""
    return np.array([below(stream, n) for _ in range(size)], np.int64)


def normals(stream: Any, rows: int, columns: int) -> NDArray[np.float64]:
    """Draw a (rows, columns) table of standard normal numbers."""
    return np.array([normal(stream) for _ in range(rows * columns)]).reshape(rows, columns)


def permutation(stream: Any, n: int) -> NDArray[np.int64]:
    """Draw a random order of 0 to n - 1."""
    order = list(range(n))
    for i in range(n - 1, 0, -1):
        j = below(stream, i + 1)
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int64)


def categories(stream: Any, chances: Any, size: int) -> NDArray[np.int64]:
    """Draw indices with the given probabilities."""
    bounds = np.cumsum(chances)[:-1]
    return np.array([np.searchsorted(bounds, uniform(stream), side="right") for _ in range(size)], np.int64)


def binomial(stream: Any, n: int, chance: float) -> int:
    """Draw the number of successes in n trials, by inversion over the outcomes from the mode outwards."""
    if not 0.0 < chance < 1.0:
        return n if chance >= 1.0 else 0
    mode = min(int((n + 1) * chance), n)
    outcomes = sorted(range(n + 1), key=lambda k: (abs(k - mode), -k))
    bounds = np.cumsum(stats.binom.pmf(outcomes, n, chance))
    place = int(np.searchsorted(bounds, uniform(stream), side="right"))
    return outcomes[place] if place <= n else mode


def multinomial(stream: Any, n: int, chances: Any) -> NDArray[np.int64]:
    """Draw the number of n trials with each outcome, one outcome after the other."""
    counts: list[int] = []
    rest = 1.0  # rounded as in the kernel: whether a probability is exactly 1 decides if a number is drawn
    for chance in chances[:-1].tolist():
        counts.append(binomial(stream, n - sum(counts), min(chance / rest, 1.0)) if rest > 0.0 else 0)
        rest -= chance
    return np.array([*counts, n - sum(counts)], np.int64)
