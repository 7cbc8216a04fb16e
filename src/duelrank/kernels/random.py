"""Random draws from a stream: xoshiro256++ seeded by SplitMix64; four uint64 words, which the draws advance in place.

Reference: Blackman and Vigna, "Scrambled linear pseudorandom number generators" (2021). Normals by Doornik's form of the
ziggurat (2005) with 128 layers.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats
from duelrank.kernels.elementary import exp, log, log1p, log_gamma

_LAYERS = 128
_TAIL = 3.442619855899  # start of the tail of the 128-layer ziggurat
_AREA = 9.91256303526217e-3  # of every layer, including the tail


def _ziggurat() -> tuple[Floats, Floats]:
    """Return the right edges of the layers, widest first, and the ratio of each edge to the one before.

    Decimals round logarithms correctly, so the edges are the same on every machine.
    """
    with localcontext(prec=25):
        area, edges = Decimal(repr(_AREA)), [Decimal(repr(_TAIL))]
        density = [(-(edges[0] ** 2) / 2).exp()]
        while len(edges) < _LAYERS - 1:
            density.append(area / edges[-1] + density[-1])
            edges.append((-2 * density[-1].ln()).sqrt())
        table = np.array([area / density[0], *edges, 0], np.float64)
    return table, table[1:] / table[:-1]


_EDGES, _RATIOS = _ziggurat()
_TO_UNIT = 1.0 / (1 << 53)
_LOW = np.uint64((1 << 32) - 1)


@kernel
def split_mix(state: Any) -> Any:
    """Advance a SplitMix64 state and return (new state, output)."""
    state = np.uint64(state) + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


@kernel
def derive(key: Any, number: Any) -> Any:
    """Return the stream of (key, number); equal arguments give equal streams, other streams are independent."""
    _, mixed = split_mix(np.uint64(key))
    state = mixed ^ np.uint64(number)
    stream = np.empty(4, np.uint64)
    for word in range(4):
        state, stream[word] = split_mix(state)
    return stream


@kernel(inline="always")
def _rotate(x: Any, k: int) -> Any:
    return (x << np.uint64(k)) | (x >> np.uint64(64 - k))


@kernel(inline="always")
def _advance(s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """Return the output of one step of xoshiro256++, and its four new words."""
    result = _rotate(s0 + s3, 23) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    return result, s0, s1, s2 ^ t, _rotate(s3, 45)


@kernel
def bits(stream: Any) -> Any:
    """Draw 64 random bits."""
    result, stream[0], stream[1], stream[2], stream[3] = _advance(stream[0], stream[1], stream[2], stream[3])
    return result


@kernel
def uniform(stream: Any) -> Any:
    """Draw a float in [0, 1) with 53 random bits."""
    return (bits(stream) >> np.uint64(11)) * _TO_UNIT


@kernel
def below(stream: Any, n: Any) -> Any:
    """Draw an integer from 0 to n - 1, n at most 2^32, without bias.

    The result is the upper half of n · (32 random bits); Lemire (2019) shows which few draws to reject, and that a division is
    rarely needed.
    """
    if not 1 <= n <= 4294967296:
        raise ValueError("below draws from 1 to 2**32 numbers")
    span = np.uint64(n)
    product = (bits(stream) >> np.uint64(32)) * span
    if (product & _LOW) < span:
        unfair = (np.uint64(1 << 32) - span) % span
        while (product & _LOW) < unfair:
            product = (bits(stream) >> np.uint64(32)) * span
    return np.int64(product >> np.uint64(32))


@kernel(inline="always")
def _layer_and_position(draw: Any) -> Any:
    """Return a layer of the ziggurat and a number in [−1, 1) from 64 bits."""
    return np.int64(draw & np.uint64(_LAYERS - 1)), 2.0 * ((draw >> np.uint64(11)) * _TO_UNIT) - 1.0


@kernel
def normal(stream: Any) -> Any:
    """Draw a standard normal number."""
    layer, u = _layer_and_position(bits(stream))
    return u * _EDGES[layer] if abs(u) < _RATIOS[layer] else _normal_at_edge(stream, layer, u)


@kernel
def _normal_at_edge(stream: Any, layer: Any, u: Any) -> Any:
    """Finish a draw that fell outside the safe part of its layer: about one in eighty."""
    while True:
        if abs(u) < _RATIOS[layer]:
            return u * _EDGES[layer]
        if layer == 0:
            return _normal_tail(stream, u < 0.0)
        x = u * _EDGES[layer]
        upper = exp(-0.5 * (_EDGES[layer] * _EDGES[layer] - x * x))
        lower = exp(-0.5 * (_EDGES[layer + 1] * _EDGES[layer + 1] - x * x))
        if lower + uniform(stream) * (upper - lower) < 1.0:
            return x
        layer, u = _layer_and_position(bits(stream))


@kernel
def _normal_tail(stream: Any, negative: bool) -> Any:
    while True:
        x = log(1.0 - uniform(stream)) / _TAIL
        y = log(1.0 - uniform(stream))
        if -2.0 * y >= x * x:
            return x - _TAIL if negative else _TAIL - x


@kernel
def integers(stream: Any, n: Any, size: int) -> Any:
    """Draw ``size`` integers from 0 to n - 1."""
    drawn = np.empty(size, np.int64)
    for i in range(size):
        drawn[i] = below(stream, n)
    return drawn


@kernel
def normals(stream: Any, rows: int, columns: int) -> Any:
    """Draw a (rows, columns) table of standard normal numbers, the same as from repeated calls of `normal`.

    The words of the stream stay in registers, except for the rare draws at the edge of a layer: this is twice as fast.
    """
    drawn = np.empty((rows, columns))
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for i in range(rows):
        for k in range(columns):
            draw, s0, s1, s2, s3 = _advance(s0, s1, s2, s3)
            layer, u = _layer_and_position(draw)
            if abs(u) < _RATIOS[layer]:
                drawn[i, k] = u * _EDGES[layer]
            else:
                stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
                drawn[i, k] = _normal_at_edge(stream, layer, u)
                s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
    return drawn


@kernel
def permutation(stream: Any, n: int) -> Any:
    """Draw a random order of 0 to n - 1 (Fisher and Yates)."""
    order = np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    for i in range(n - 1, 0, -1):
        j = below(stream, i + 1)
        order[i], order[j] = order[j], order[i]
    return order


@kernel
def categories(stream: Any, chances: Any, size: int) -> Any:
    """Draw ``size`` indices, index i with probability chances[i], by inversion of the cumulative probabilities.

    A guide table (Chen and Asau, 1974) gives the start of the search for a number, which then rarely takes a second step.
    """
    n = chances.shape[0]
    bounds, guide = np.cumsum(chances), np.empty(4 * n, np.int64)
    bounds[n - 1] = 2.0  # the sum of all may be rounded below 1
    first = 0
    for cell in range(4 * n):
        while bounds[first] <= cell / (4 * n):
            first += 1
        guide[cell] = first
    drawn = np.empty(size, np.int64)
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for k in range(size):
        draw, s0, s1, s2, s3 = _advance(s0, s1, s2, s3)
        u = (draw >> np.uint64(11)) * _TO_UNIT
        i = guide[np.int64(u * (4 * n))]
        while bounds[i] <= u:
            i += 1
        drawn[k] = i
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
    return drawn


@kernel
def binomial(stream: Any, n: int, chance: float) -> Any:
    """Draw the number of successes in n trials, by inversion from the mode outwards: a few standard deviations of steps."""
    if chance <= 0.0 or chance >= 1.0:
        return n if chance >= 1.0 else 0
    odds = chance / (1.0 - chance)
    mode: Any = min(np.int64((n + 1) * chance), n)
    ways = log_gamma(n + 1.0) - log_gamma(mode + 1.0) - log_gamma(n - mode + 1.0)
    up = down = exp(ways + mode * log(chance) + (n - mode) * log1p(-chance))
    rest = uniform(stream) - up
    high = low = mode
    while rest >= 0.0 and (up > 0.0 or down > 0.0):
        up *= (n - high) / (high + 1.0) * odds
        high += 1
        rest -= up
        if rest < 0.0:
            return high
        down *= low / ((n - low + 1.0) * odds)
        low -= 1
        rest -= down
        if rest < 0.0:
            return low
    return mode


@kernel
def multinomial(stream: Any, n: int, chances: Any) -> Any:
    """Draw the number of n trials with each outcome, where outcome i has probability chances[i]."""
    counts = np.zeros(chances.shape[0], np.int64)
    rest = 1.0
    for i in range(chances.shape[0] - 1):
        counts[i] = binomial(stream, n, min(chances[i] / rest, 1.0)) if rest > 0.0 else 0
        n -= counts[i]
        rest -= chances[i]
    counts[-1] = n
    return counts
