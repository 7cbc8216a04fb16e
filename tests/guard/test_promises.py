"""What the values of a guard promise, by simulation: few false alarms, a band that is right at all times, proofs that are.

A bound is what is promised, and four standard errors for chance.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from duelrank.core.randomness import stream
from duelrank.guard.confidence import _RHO
from duelrank.guard.detector import _MOST, ALTERNATIVES
from duelrank.kernels import guard

N_DOCUMENTS = 6
ONE_CLICK = np.array([0.4, 0.0, 0.0, 0.0])  # on the first document or nowhere
SEVERAL = np.array([0.6, 0.5, 0.4, 0.3])
DRIFT = np.linspace(0.45, 0.60, 5000)


def lists_until_alarm(every: float, number: int, clicks: NDArray[np.float64] | float, margin: float = 0.0) -> int:
    """Return the decisive lists until an alarm; clicks depend on positions only, or the chance to win is always the same."""
    draws, evidence, before, chunk = stream(number, "alarm"), np.zeros(len(ALTERNATIVES)), 0, int(every)
    while True:
        if isinstance(clicks, float):
            won = guard.outcomes(np.full(chunk, clicks), draws)
        else:
            won, _ = guard.equal_rankers(N_DOCUMENTS, clicks, chunk, draws)
        taken, _ = guard.detect(evidence, np.array(ALTERNATIVES), margin, _MOST, every, won)
        if taken <= chunk:
            return before + taken
        before += chunk


def check_share(found: NDArray[np.bool_], most: float) -> None:
    """At most a share of the streams may have gone wrong, and some did: else the streams were too short to show anything."""
    assert found.mean() <= most + 4 * np.sqrt(most * (1 - most) / len(found))
    assert found.any()


class TestMeanRunLength:
    @pytest.mark.parametrize("clicks", [ONE_CLICK, SEVERAL], ids=["one click", "several clicks"])
    @pytest.mark.parametrize("every", [200.0, 1000.0])
    def test_through_the_team_draft(self, every: float, clicks: NDArray[np.float64]) -> None:
        self.check(np.array([lists_until_alarm(every, number, clicks) for number in range(700)]), every)

    @pytest.mark.parametrize("margin", [0.0, 0.05, 0.2])
    def test_at_the_least_chance_to_win_that_is_allowed(self, margin: float) -> None:
        self.check(np.array([lists_until_alarm(500.0, n, 0.5 - margin, margin) for n in range(3000)]), 500.0)

    def check(self, lengths: NDArray[np.int64], every: float) -> None:
        error = lengths.std() / np.sqrt(len(lengths))
        assert lengths.mean() >= every - 4 * error
        assert lengths.mean() <= 2 * every  # it is not kept by never raising an alarm

    def test_harm_is_found_within_a_few_hundred_lists(self) -> None:
        lengths = [lists_until_alarm(1000.0, number, 0.35) for number in range(200)]
        assert np.mean(lengths) < 150
        assert np.max(lengths) < 1000


class TestCoverage:
    @pytest.mark.parametrize("level", [0.05, 0.3])
    def test_of_a_drifting_chance_at_all_times_at_once(self, level: float) -> None:
        found = [guard.outcomes(DRIFT, stream(number, "drift")) for number in range(2000)]
        check_share(np.array([guard.first_miss(won, DRIFT, _RHO, level) <= len(DRIFT) for won in found]), level)

    def test_of_equal_rankers_through_the_team_draft(self) -> None:
        half = np.full(5000, 0.5)
        found = [guard.equal_rankers(N_DOCUMENTS, SEVERAL, 5000, stream(number, "equal"))[0] for number in range(500)]
        check_share(np.array([guard.first_miss(won, half, _RHO, 0.2) <= 5000 for won in found]), 0.2)

    def test_of_a_chance_that_answers_to_the_past(self) -> None:
        """Who leads has a lower chance to win than who does not: the band is of the mean of the chances that there were."""
        missed = []
        for number in range(300):
            draws, chances, won, lead = np.random.default_rng(number).random(1000), [], [], 0
            for draw in draws:
                chances.append(0.3 if lead > 0 else 0.8)
                won.append(draw < chances[-1])
                lead += 1 if won[-1] else -1
            missed.append(guard.first_miss(np.array(won), np.array(chances), _RHO, 0.3) <= 1000)
        assert np.mean(missed) <= 0.3 + 4 * np.sqrt(0.3 * 0.7 / 300)


class TestLevel:
    @pytest.mark.parametrize("level", [0.05, 0.2])
    def test_of_a_proof_of_gain_where_there_is_none(self, level: float) -> None:
        found = [guard.outcomes(np.full(3000, 0.5), stream(number, "gain")) for number in range(3000)]
        check_share(np.array([guard.highest_e_value(won) >= 1 / level for won in found]), level)

    def test_through_the_team_draft(self) -> None:
        found = [guard.equal_rankers(N_DOCUMENTS, ONE_CLICK, 2000, stream(n, "level"))[0] for n in range(500)]
        check_share(np.array([guard.highest_e_value(won) >= 10 for won in found]), 0.1)

    def test_a_gain_is_proved(self) -> None:
        found = [guard.outcomes(np.full(1000, 0.6), stream(number, "gain")) for number in range(200)]
        assert np.mean([guard.highest_e_value(won) >= 20 for won in found]) > 0.99
