"""Guard lists: kinds in their shares, drafts that are fair whatever positions are clicked, and what clicks say."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats

from duelrank.core.randomness import stream
from duelrank.guard.lists import BASELINE, LEARNED, draw_kind, guard_list, outcome_of
from duelrank.kernels.multileaving import team_draft_credit as credit
from duelrank.kernels.random import permutation

BASE = np.arange(6)
OTHERS = [[0, 1, 5, 4, 3, 2], [5, 4, 3, 2, 1, 0], [1, 0, 2, 3, 4, 5], [3, 1, 0, 5, 2, 4]]


def drafts(baseline: list[int], learned: list[int], length: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return all drafts, equally likely: who is first in each round is a coin; the top that both agree on belongs to nobody."""
    common = next((i for i in range(length) if baseline[i] != learned[i]), length)
    found = []
    for coins in product([0, 1], repeat=(length - common + 1) // 2):
        ranking, teams = list(baseline[:common]), [-1] * common
        for team in [each for coin in coins for each in (coin, 1 - coin)][: length - common]:
            ranking.append(next(each for each in (baseline, learned)[team] if each not in ranking))
            teams.append(team)
        found.append((tuple(ranking), tuple(teams)))
    return found


class TestKinds:
    @pytest.mark.parametrize(("share", "learned"), [(0.1, 0.5), (0.3, 0.1), (0.05, 1.0), (0.2, 0.0), (1.0, 0.5)])
    def test_their_shares(self, share: float, learned: float) -> None:
        n = 20_000
        found = Counter(draw_kind(stream(1, "kind", number), share, learned) for number in range(n))
        expected = {"guard": share, "learned": (1 - share) * learned, "baseline": (1 - share) * (1 - learned)}
        for kind, chance in expected.items():
            assert abs(found[kind] - n * chance) <= 4.5 * np.sqrt(n * chance * (1 - chance)), kind

    def test_the_same_stream_gives_the_same_kind(self) -> None:
        kinds = [[draw_kind(stream(2, "kind", number), 0.4, 0.5) for number in range(50)] for _ in range(2)]
        assert kinds[0] == kinds[1]


class TestDrafts:
    @pytest.mark.parametrize("learned", OTHERS, ids=str)
    @pytest.mark.parametrize("length", [3, 4, 6])
    def test_each_is_as_likely_as_any_other(self, learned: list[int], length: int) -> None:
        possible = Counter(drafts(BASE.tolist(), learned, length))
        found: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
        for number in range(1600):
            ranking, teams = guard_list(BASE, np.array(learned), length, stream(3, "draft", number))
            found[tuple(ranking.tolist()), tuple(teams.tolist())] += 1
        assert set(found) == set(possible)
        if len(possible) > 1:
            expected = [1600 * n / possible.total() for n in possible.values()]
            assert stats.chisquare([found[key] for key in possible], expected).pvalue > 1e-5

    @pytest.mark.parametrize("learned", OTHERS, ids=str)
    @pytest.mark.parametrize("length", [1, 3, 4, 6])
    def test_wins_are_exactly_as_likely_as_losses_whichever_positions_are_clicked(
        self, learned: list[int], length: int
    ) -> None:
        for clicks in product([False, True], repeat=length):
            said = Counter(
                outcome_of(np.array(teams), np.array(clicks)) for _, teams in drafts(BASE.tolist(), learned, length)
            )
            assert said["win"] == said["loss"]

    def test_a_better_ranker_wins(self) -> None:
        """Only document 5 is clicked; one ranks it first, the other last."""
        said = Counter(
            outcome_of(np.array(teams), np.array(ranking) == 5) for ranking, teams in drafts(list(BASE), OTHERS[1], 4)
        )
        assert said == {"win": 4}

    def test_equal_rankings_compare_nothing(self) -> None:
        ranking, teams = guard_list(BASE, BASE, 4, stream(1, "draft"))
        assert ranking.tolist() == [0, 1, 2, 3]
        assert outcome_of(teams, np.ones(4, bool)) == "tie"

    def test_a_list_is_never_longer_than_there_are_documents(self) -> None:
        ranking, teams = guard_list(BASE, BASE[::-1], 100, stream(1, "draft"))
        assert sorted(ranking) == BASE.tolist()
        assert sorted(teams) == [BASELINE] * 3 + [LEARNED] * 3


class TestOutcomes:
    @pytest.mark.parametrize(
        ("teams", "clicks", "said"),
        [
            ([0, 1, 1, 0], [0, 0, 0, 0], "no_click"),
            ([0, 1, 1, 0], [1, 0, 0, 0], "loss"),
            ([0, 1, 1, 0], [0, 1, 0, 0], "win"),
            ([0, 1, 1, 0], [1, 1, 0, 0], "tie"),
            ([0, 1, 1, 0], [1, 1, 1, 0], "win"),
            ([-1, -1, 1, 0], [1, 1, 0, 0], "tie"),
            ([-1, -1, 1, 0], [1, 1, 0, 1], "loss"),
        ],
    )
    def test_the_team_with_more_clicks_wins(self, teams: list[int], clicks: list[int], said: str) -> None:
        assert outcome_of(np.array(teams), np.array(clicks, bool)) == said

    @pytest.mark.parametrize(
        ("gains", "said"),
        [
            ([0.0, 10.0, 1.0, 1.0], "loss"),
            ([0.0, 1.0, 10.0, 0.0], "win"),
            ([9.0, 0.3, 0.1, 0.2], "tie"),  # 0.1 + 0.2 is not 0.3 in floats
            ([9.0, 0.0, 0.0, 0.0], "tie"),
            ([0.0, 0.0, 0.0, 0.0], "no_click"),
        ],
    )
    def test_the_team_that_gained_more_wins(self, gains: list[float], said: str) -> None:
        assert outcome_of(np.array([-1, 0, 1, 1]), np.array(gains)) == said

    def test_it_is_the_sign_of_the_credit_of_a_team_draft(self) -> None:
        for number in range(200):
            draws = stream(5, "outcome", number)
            _, teams = guard_list(BASE, permutation(draws, 6), 5, draws)
            clicks = permutation(draws, 5) < 2
            baseline, learned = credit(teams, clicks, 2)
            assert outcome_of(teams, clicks) == (
                "win" if learned > baseline else "loss" if learned < baseline else "tie"
            )
