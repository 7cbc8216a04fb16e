"""Streams and draws: the published outputs of the generators, and the distributions that the draws claim.

Seeds are fixed, so nothing here is flaky; a p-value under 1e-4 or a deviation of more than 4 standard errors is a failure.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank.core.errors import InvalidValue
from duelrank.core.randomness import stream, stream_key
from duelrank.kernels import random

ALPHA = 1e-4
TAIL = 3.44


def uniforms(draws_from, n: int) -> np.ndarray:
    return np.array([random.uniform(draws_from) for _ in range(n)])


class TestPublishedOutputs:
    def test_xoshiro256_plus_plus(self):
        words = np.array([1, 2, 3, 4], np.uint64)
        assert [int(random.bits(words)) for _ in range(10)] == [
            41943041,
            58720359,
            3588806011781223,
            3591011842654386,
            9228616714210784205,
            9973669472204895162,
            14011001112246962877,
            12406186145184390807,
            15849039046786891736,
            10450023813501588000,
        ]

    def test_split_mix_64(self):
        state, outputs = np.uint64(1234567), []
        for _ in range(5):
            state, output = random.split_mix(np.uint64(state))
            outputs.append(int(output))
        assert outputs == [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
            4593380528125082431,
            16408922859458223821,
        ]

    @given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
    def test_a_stream_is_seeded_through_split_mix(self, key, number):
        _, mixed = random.split_mix(np.uint64(key))
        state, words = np.uint64(int(mixed) ^ number), []
        for _ in range(4):
            state, word = random.split_mix(np.uint64(state))
            words.append(int(word))
        assert random.derive(key, number).tolist() == words

    @given(st.lists(st.integers(0, 2**64 - 1), min_size=4, max_size=4).filter(any))
    def test_a_uniform_is_the_upper_53_bits(self, words):
        one, other = np.array(words, np.uint64), np.array(words, np.uint64)
        assert random.uniform(one) == (int(random.bits(other)) >> 11) / 2**53
        assert np.array_equal(one, other)


class TestDistributions:
    def test_uniform_by_kolmogorov_and_smirnov(self):
        draws = uniforms(stream(1, "uniform"), 100_000)
        assert draws.min() >= 0.0
        assert draws.max() < 1.0
        assert stats.kstest(draws, "uniform").pvalue > ALPHA

    def test_successive_uniforms_fill_the_square(self):
        pairs = uniforms(stream(2, "pairs"), 100_000).reshape(-1, 2)
        counts, _, _ = np.histogram2d(*pairs.T, bins=16, range=[[0, 1], [0, 1]])
        assert stats.chisquare(counts.ravel()).pvalue > ALPHA

    def test_normal_by_kolmogorov_and_smirnov(self):
        draws = random.normals(stream(3, "normal"), 500, 400).ravel()
        assert stats.kstest(draws, "norm").pvalue > ALPHA

    def test_normal_moments(self):
        draws = random.normals(stream(4, "moments"), 1000, 1000).ravel()
        for power, moment in {1: 0.0, 2: 1.0, 3: 0.0, 4: 3.0}.items():
            powers = draws**power
            assert abs(powers.mean() - moment) < 4 * powers.std() / math.sqrt(draws.size)

    def test_normal_tails_beyond_the_ziggurat(self):
        """Enough draws that a tail which is exponential instead of normal, the easiest mistake, is found."""
        rounds, n, draws_from = 10, 2_000_000, stream(5, "tails")
        edges = np.array([TAIL, 3.55, 3.7, 3.85, 4.0, 4.4, np.inf])
        bins = np.where(np.isinf(edges), 10.0, edges)
        upper, lower = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
        for _ in range(rounds):
            draws = random.normals(draws_from, n // 1000, 1000).ravel()
            far = draws[np.abs(draws) > TAIL]
            upper += np.histogram(far, bins)[0]
            lower += np.histogram(-far, bins)[0]
        inside = rounds * n - upper.sum() - lower.sum()
        expected = rounds * n * -np.diff(stats.norm.sf(edges))
        observed = np.concatenate((upper, lower, [inside]))
        wanted = np.concatenate((expected, expected, [rounds * n - 2 * expected.sum()]))
        assert stats.chisquare(observed, wanted).pvalue > ALPHA

    def test_normal_at_the_edges_of_all_layers(self):
        """Where the rectangles of the ziggurat end a wrong wedge test would show as a step in the density."""
        draws = random.normals(stream(6, "layers"), 2000, 1000).ravel()
        edges = np.concatenate(([-np.inf], np.linspace(-3.4, 3.4, 200), [np.inf]))
        observed = np.histogram(draws, np.clip(edges, -10, 10))[0]
        assert stats.chisquare(observed, draws.size * np.diff(stats.norm.cdf(edges))).pvalue > ALPHA

    @pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 100])
    def test_below_is_uniform(self, n):
        draws = random.integers(stream(7, "below", n), n, 50_000)
        assert draws.min() >= 0
        assert draws.max() < n
        if n > 1:
            assert stats.chisquare(np.bincount(draws, minlength=n)).pvalue > ALPHA

    def test_below_has_no_bias_where_plain_remainders_would(self):
        n = 3 * 2**30  # 2^32 = (4/3) n: remainders alone favour the lowest third, multiples alone those divisible by 3
        draws = random.integers(stream(8, "bias"), n, 20_000)
        for cells in (draws // 2**30, draws % 3):
            assert stats.chisquare(np.bincount(cells, minlength=3)).pvalue > ALPHA

    def test_integers_are_one_below_after_the_other(self):
        one, other = stream(9, "integers"), stream(9, "integers")
        assert random.integers(one, 12, 50).tolist() == [random.below(other, 12) for _ in range(50)]

    def test_every_order_of_four_is_equally_likely(self):
        draws_from = stream(10, "permutation")
        counts = Counter(tuple(random.permutation(draws_from, 4).tolist()) for _ in range(24_000))
        assert set(counts) == set(permutations(range(4)))
        assert stats.chisquare(list(counts.values())).pvalue > ALPHA

    @given(st.integers(0, 30), st.integers(0, 1000))
    def test_a_permutation_holds_every_index_once(self, n, number):
        assert sorted(random.permutation(stream(0, "p", number), n).tolist()) == list(range(n))

    @pytest.mark.parametrize(("n", "chance"), [(1, 0.3), (10, 0.5), (40, 0.05), (10_000, 0.4)])
    def test_binomial(self, n, chance):
        draws = stream(6, "binomial")
        counts = np.array([random.binomial(draws, n, chance) for _ in range(4000)])
        edges = np.unique(stats.binom.ppf(np.arange(0.05, 0.95, 0.1), n, chance))
        wanted = np.diff(stats.binom.cdf(edges, n, chance), prepend=0.0, append=1.0)
        observed = np.bincount(np.searchsorted(edges, counts), minlength=len(wanted))
        assert stats.chisquare(observed[wanted > 0], counts.size * wanted[wanted > 0]).pvalue > ALPHA

    def test_categories_and_multinomial(self):
        chances, draws = np.array([0.5, 0.0, 0.3, 0.15, 0.05]), stream(7, "categories")
        one = np.bincount(random.categories(draws, chances, 20_000), minlength=5)
        other = sum(random.multinomial(draws, 20, chances) for _ in range(1000))
        for counts in (one, other):
            assert counts[1] == 0
            assert stats.chisquare(counts[chances > 0], 20_000 * chances[chances > 0]).pvalue > ALPHA


class TestStreams:
    @given(st.integers(0, 2**70), st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers(0, 2**62))
    def test_equal_arguments_give_equal_streams(self, seed, name, number):
        words = stream(seed, name, number)
        assert words.dtype == np.uint64
        assert words.shape == (4,)
        assert words.any()
        assert np.array_equal(words, stream(seed, name, number))
        assert np.array_equal(words, random.derive(stream_key(seed, name), number))

    def test_seeds_names_and_numbers_all_matter(self):
        settings = [(seed, name, number) for seed in range(8) for name in "abcdefgh" for number in range(8)]
        assert len({tuple(stream(*setting).tolist()) for setting in settings}) == len(settings)

    def test_a_seed_and_a_name_are_not_mixed_up(self):
        assert stream_key(1, "1/a") != stream_key(11, "/a")
        assert stream_key(1, "2/a") != stream_key(12, "a")

    @pytest.mark.parametrize(
        "labels",
        [
            [(1, name, 0) for name in ("queries", "user", "rank", "learn", "start", "evaluation")],
            [(seed, "user", 0) for seed in range(12)],
            [(1, "user", number) for number in range(30)],
            [(1, "user", 2**bit) for bit in range(30)],
        ],
        ids=["names", "seeds", "numbers", "one-bit"],
    )
    def test_different_streams_are_uncorrelated(self, labels):
        n = 4000
        table = np.array([uniforms(stream(*label), n) for label in labels])
        # A correlation of n independent pairs has standard error 1/√n; their scaled squares sum to a χ².
        correlations = [np.corrcoef(table[i], table[j])[0, 1] for i, j in combinations(range(len(labels)), 2)]
        assert stats.chi2.sf(n * np.square(correlations).sum(), len(correlations)) > ALPHA
        shifted = [np.corrcoef(table[i, 1:], table[j, :-1])[0, 1] for i, j in combinations(range(len(labels)), 2)]
        assert stats.chi2.sf(n * np.square(shifted).sum(), len(shifted)) > ALPHA

    def test_the_first_draws_of_successive_numbers_are_uniform_and_unrelated(self):
        """Each impression has its own stream and may take only a draw or two from it."""
        key = stream_key(1, "rank")
        firsts = np.array([random.uniform(random.derive(key, number)) for number in range(50_000)])
        assert stats.kstest(firsts, "uniform").pvalue > ALPHA
        for lag in (1, 2, 256):
            assert abs(np.corrcoef(firsts[lag:], firsts[:-lag])[0, 1]) < 4 / math.sqrt(firsts.size)

    def test_drawing_advances_only_the_stream_that_is_drawn_from(self):
        one, other = stream(1, "a"), stream(1, "b")
        before = other.copy()
        random.uniform(one)
        assert not np.array_equal(one, stream(1, "a"))
        assert np.array_equal(other, before)

    @pytest.mark.parametrize("seed", [-1, 1.0, True, None, "1"])
    def test_a_seed_is_a_whole_number(self, seed):
        with pytest.raises(InvalidValue, match="whole number from 0 up"):
            stream(seed, "a")

    def test_a_seed_of_numpy_is_the_same_seed(self):
        assert np.array_equal(stream(np.int64(7), "a"), stream(7, "a"))

    def test_a_number_too_large_is_an_error_of_ours(self):
        with pytest.raises(InvalidValue):
            stream(1, "a", 2**64)
