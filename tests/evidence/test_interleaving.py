"""Comparisons of finished rankers: a better ranker is found, equal rankers are not told apart, and every list counts once."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

from duelrank.core.errors import InvalidRecipe, InvalidValue, UnknownName
from duelrank.core.randomness import stream
from duelrank.core.registry import classes
from duelrank.core.statistics import sign_test
from duelrank.core.types import Impression, Query
from duelrank.evidence import Comparison, ConfidenceSequence, Result, Shown, anytime_test
from duelrank.evidence.interleaving import SignificanceTest, WinHistory
from duelrank.kernels.random import permutation, uniform
from duelrank.multileaving import Multileaver

NAMES = list(classes(Multileaver))
LISTS = {"bm25": ["a", "b", "c", "d"], "neural": ["d", "c", "x"]}

Lists = dict[str, list[list[str]]]


def shuffled(number: int, name: str, n: int = 6) -> list[str]:
    return [f"d{i}" for i in permutation(stream(number, name), n)]


@cache
def two_rankers() -> Lists:
    return {name: [shuffled(i, name) for i in range(9)] for name in ("one", "other")}


def simulated(comparison: Comparison, n: int, ranked: Lists | None = None, seed: int = 0) -> Comparison:
    """Show n lists to a user who clicks d0 with probability 0.9 and any other document with 0.1."""
    ranked, draws = ranked or two_rankers(), stream(seed, "clicks")
    for number in range(n):
        shown = comparison.show({name: lists[number % len(lists)] for name, lists in ranked.items()})
        chances = [0.9 if document == "d0" else 0.1 for document in shown.documents]
        comparison.record(shown, [d for d, p in zip(shown.documents, chances, strict=True) if uniform(draws) < p])
    return comparison


def with_wins(rankers: str, wins: list[list[int]]) -> Comparison:
    comparison = Comparison(list(rankers))
    comparison._tally.wins[:] = wins
    return comparison


def through_json(data: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(data))


class TestFinding:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_better_ranker_is_found(self, name: str) -> None:
        """The good ranker has the relevant document first, the bad one anywhere."""
        bad = [shuffled(number, "bad") for number in range(50)]
        good = [["d0", *(d for d in shuffled(number, "good") if d != "d0")] for number in range(50)]
        comparison = simulated(Comparison(["bad", "good"], name, seed=1, length=5), 150, {"bad": bad, "good": good})
        for test in ("sign", "credit", "anytime"):
            result = comparison.result(test)
            assert result.beats("good", "bad")
            assert not result.beats("bad", "good")

    @pytest.mark.parametrize("name", ["SampleOnlyScored", "PairwisePreference", "Probabilistic", "TeamDraft"])
    def test_three_rankers_are_ordered(self, name: str) -> None:
        """The relevant document is first, third or last.

        With a team draft the best ranker takes it in each first round, so that the other two never own it and tie.
        """
        ranked = {}
        for ranker, place in {"good": 0, "middling": 2, "poor": 5}.items():
            rest = [[d for d in shuffled(number, ranker) if d != "d0"] for number in range(50)]
            ranked[ranker] = [[*others[:place], "d0", *others[place:]] for others in rest]
        result = simulated(Comparison(list(ranked), name, seed=2, length=6), 600, ranked).result()
        assert result.beats("good", "middling")
        assert result.beats("good", "poor")
        assert result.beats("middling", "poor") == (name != "TeamDraft")

    def test_equal_rankers_are_rarely_told_apart_and_only_the_anytime_test_allows_many_looks(self) -> None:
        """Both rankers rank at random: a test may be significant in 5% of the comparisons, the anytime test at any time."""
        found, ever = Counter(), Counter()
        p_values = {"anytime": cache(anytime_test), "sign": cache(sign_test)}
        for seed in range(200):
            ranked = {name: [shuffled(1000 * seed + i, name) for i in range(60)] for name in ("one", "other")}
            comparison = simulated(Comparison(["one", "other"], "TeamDraft", seed, length=4), 60, ranked, seed)
            found.update(test for test in get_args(SignificanceTest) if comparison.result(test).p_values[0, 1] < 0.05)
            for test, p_value in p_values.items():
                wins = comparison.result().history.wins
                ever[test] += any(p_value(int(each[0, 1]), int(each[1, 0])) < 0.05 for each in wins)
        most = stats.binom.ppf(0.9999, 200, 0.05)
        assert 0 < found["sign"] <= most
        assert 0 < found["credit"] <= most
        assert found["anytime"] <= ever["anytime"] <= most
        assert ever["sign"] > 2 * 0.05 * 200

    @pytest.mark.parametrize(
        "name", ["PairwisePreference", "Probabilistic", "SampleOnlyScored", "OptimizedMultileaving", "Balanced"]
    )
    def test_rankers_that_return_the_same_always_tie(self, name: str) -> None:
        lists = [shuffled(number, "same")[:4] for number in range(20)]
        comparison = simulated(Comparison(["one", "other"], name, length=4), 20, {"one": lists, "other": lists})
        assert not comparison.result().wins.any()


class TestRankings:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_ranker_has_no_credit_for_documents_that_it_did_not_return(self, name: str) -> None:
        comparison = Comparison(["a", "b"], name, seed=3)
        for _ in range(60):
            comparison.record(comparison.show({"a": [1, 2], "b": [2, 3]}), [3])
        wins = comparison.result().wins
        assert wins[0, 1] == 0
        assert wins[1, 0] > 0

    @pytest.mark.parametrize("name", NAMES)
    def test_a_ranker_that_returned_nothing_leaves_the_list_to_the_other(self, name: str) -> None:
        comparison = Comparison(["all", "nothing"], name)
        for clicked in "abc":
            shown = comparison.show({"all": ["a", "b", "c"], "nothing": []})
            assert sorted(shown.documents) == ["a", "b", "c"]
            comparison.record(shown, [clicked])
        assert comparison.result().wins[1, 0] == 0

    def test_a_list_has_the_given_length_or_all_documents(self) -> None:
        assert len(Comparison(["bm25", "neural"], length=3).show(LISTS).documents) == 3
        assert sorted(Comparison(["bm25", "neural"]).show(LISTS).documents) == ["a", "b", "c", "d", "x"]

    def test_whole_numbers_are_documents_too(self) -> None:
        comparison = Comparison(["one", "other"])
        shown = comparison.show({"one": [3, 1], "other": [1, 2]})
        comparison.record(Shown.from_dict(through_json(shown.to_dict())), [1])
        assert comparison.result().clicked == 1


class TestCounting:
    @pytest.mark.parametrize("name", NAMES)
    def test_preferences_follow_credit(self, name: str) -> None:
        """Preferences are antisymmetric, and against the first ranker they are the lead in credit."""
        part = classes(Multileaver)[name]()
        rankings = np.array([[0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 0, 1]][: part.most_rankers or 3])
        for number in range(30):
            ranking, trace = part.leave(rankings, 3, stream(number, "list"))
            impression = Impression(Query("q", np.ones((4, 1))), ranking, trace)
            clicks = np.array([uniform(stream(number, f"click {i}")) < 0.5 for i in range(3)])
            credit, preferences = (
                method(impression, clicks, stream(number, "credit"))
                for method in (part.assign_credit, part.preferences)
            )
            np.testing.assert_allclose(preferences, -preferences.T, atol=1e-12)
            np.testing.assert_allclose(preferences[:, 0], credit - credit[0], atol=1e-12)

    def test_late_reversed_and_missing_clicks(self) -> None:
        one, other = (Comparison(["bm25", "neural"], seed=4) for _ in range(2))
        lists = [[each.show(LISTS) for _ in range(5)] for each in (one, other)]
        assert lists[0] == lists[1]
        for shown in lists[0]:
            one.record(shown, ["a"])
        for shown in reversed(lists[1]):
            other.record(shown, ["a"])
        one.show(LISTS)
        assert (one.result().wins == other.result().wins).all()
        assert one.result().impressions == other.result().impressions == 5

    def test_a_list_counts_once(self) -> None:
        """The clicks that arrive first count, also if the comparison was stored in between."""
        comparison = Comparison(["bm25", "neural"], seed=4)
        shown, other = comparison.show(LISTS), comparison.show(LISTS)
        assert comparison.record(shown, ["a"])
        before = comparison.to_dict()
        for each in (comparison, Comparison.from_dict(through_json(before))):
            assert not each.record(shown, ["a"])
            assert not each.record(shown, ["x"])
            assert each.to_dict() == before
            assert each.record(other, [])
            assert each.result().impressions == 2

    def test_a_list_without_a_click_is_a_tie(self) -> None:
        comparison = Comparison(["bm25", "neural"])
        comparison.record(comparison.show(LISTS), [])
        result = comparison.result()
        assert (result.impressions, result.clicked) == (1, 0)
        assert result.ties.tolist() == [[0, 1], [1, 0]]
        assert result.p_values[0, 1] == 1.0

    def test_wins_losses_and_ties_are_all_impressions(self) -> None:
        result = simulated(Comparison(["one", "other"]), 40).result()
        total = result.wins + result.losses + result.ties
        assert total[0, 1] == total[1, 0] == result.impressions == 40
        assert result.shares[0, 1] == result.wins[0, 1] / 40

    def test_counts_of_processes_are_merged(self) -> None:
        halves = [simulated(Comparison(["one", "other"], seed=seed), 30, seed=seed) for seed in (1, 2)]
        wins = halves[0].result().wins + halves[1].result().wins
        # One process may record a list that another has shown.
        halves[0].record(halves[1].show({name: lists[0] for name, lists in two_rankers().items()}), [])
        halves[0].merge(halves[1])
        assert (halves[0].result().wins == wins).all()
        assert halves[0].result().impressions == 61

    def test_comparisons_with_a_common_list_are_not_merged(self) -> None:
        one, other = Comparison(["bm25", "neural"], seed=1), Comparison(["bm25", "neural"], seed=2)
        shown = one.show(LISTS)
        for each in (one, other):
            each.record(shown, ["a"])
        with pytest.raises(InvalidValue, match="some of the same lists"):
            one.merge(other)
        assert one.result().impressions == 1

    def test_the_stored_size_hardly_grows(self) -> None:
        comparison = simulated(Comparison(["one", "other"]), 50)
        early = len(json.dumps(comparison.to_dict()))
        later = len(json.dumps(simulated(comparison, 400).to_dict()))
        # Some digits, one digit for each four recorded lists, and 33 points of history per power of ten.
        assert later <= early + 60 + 400 / 4 + 33 * 33


class TestOrder:
    """Lists are counted in the order in which they were shown."""

    @pytest.mark.parametrize("stored", [False, True])
    def test_the_counts_at_every_number_of_impressions_do_not_depend_on_the_order_of_recording(
        self, stored: bool
    ) -> None:
        def histories(order: list[int]) -> tuple[dict[int, list[list[int]]], Comparison]:
            comparison, found = Comparison(["one", "other"], seed=3), {}
            lists = [comparison.show({name: each[i % 9] for name, each in two_rankers().items()}) for i in range(40)]
            for n, number in enumerate(order, 1):
                comparison = Comparison.from_dict(through_json(comparison.to_dict())) if stored else comparison
                assert comparison.record(lists[number], [lists[number].documents[number % 3]])
                result = comparison.result()
                assert result.impressions + result.waiting == n
                found[result.impressions] = result.wins.tolist()
            return found, comparison

        in_order, one = histories(list(range(40)))
        in_order[0] = [[0, 0], [0, 0]]
        for seed in range(3):
            found, other = histories(np.random.default_rng(seed).permutation(40).tolist())
            assert found == {n: in_order[n] for n in found}
            assert other.to_dict() == one.to_dict()

    def test_a_list_that_is_not_recorded_is_waited_for_until_it_is_given_up(self) -> None:
        comparison = Comparison(["bm25", "neural"], seed=4)
        lists = [comparison.show(LISTS) for _ in range(5)]
        for shown in lists[1:4]:
            assert comparison.record(shown, ["a"])
        result = comparison.result()
        assert (result.impressions, result.waiting) == (0, 3)
        assert "0 impressions, 0 with a click. 3 more wait for lists that were shown earlier." in str(result)
        comparison.expire(before=1)
        assert (comparison.result().impressions, comparison.result().waiting) == (3, 0)
        assert not comparison.record(lists[0], ["a"]), "it was given up"
        assert comparison.record(lists[4], ["a"]), "this one was not"
        last = comparison.show(LISTS)
        comparison.expire()
        assert not comparison.record(last, ["a"])
        assert comparison.result().impressions == 4
        with pytest.raises(InvalidValue, match="before must be a whole number from 0 to 6"):
            comparison.expire(7)

    def test_the_earliest_is_given_up_if_too_many_are_open(self) -> None:
        comparison = Comparison(["bm25", "neural"], seed=4, max_open=2)
        lists = [comparison.show(LISTS) for _ in range(3)]
        assert not comparison.record(lists[0], [])
        assert comparison.record(lists[2], [])
        assert comparison.result().waiting == 1
        restored = Comparison.from_dict(through_json(comparison.to_dict()))
        for each in (comparison, restored):
            each.show(LISTS)
            assert (each.result().impressions, each.result().waiting) == (1, 0)
            assert not each.record(lists[1], [])

    def test_a_list_is_not_waited_for_twice_after_an_earlier_copy_was_restored(self) -> None:
        comparison = Comparison(["bm25", "neural"], seed=4)
        copy = comparison.to_dict()
        shown, comparison = comparison.show(LISTS), Comparison.from_dict(copy)
        assert comparison.record(shown, ["a"])
        assert comparison.show(LISTS) == shown
        assert comparison.record(comparison.show(LISTS), [])
        assert comparison.result().impressions == 2

    def test_merged_comparisons_count_the_lists_that_wait_and_those_that_either_recorded(self) -> None:
        one, other = (Comparison(["bm25", "neural"], seed=seed) for seed in (1, 2))
        mine, theirs = ([each.show(LISTS) for _ in range(3)] for each in (one, other))
        one.record(mine[1], ["a"])
        other.record(theirs[2], ["a"])
        other.record(mine[0], ["a"])  # in a process that did not show it
        assert [each.result().impressions for each in (one, other)] == [0, 1]
        one.merge(other)
        assert (one.result().impressions, one.result().waiting) == (2, 1)
        for shown in (mine[2], *theirs[:2]):
            assert one.record(shown, [])
        assert (one.result().impressions, one.result().waiting) == (6, 0)

    def test_one_of_format_3_waits_for_the_lists_that_it_had_shown(self) -> None:
        comparison = Comparison(["bm25", "neural"], seed=4)
        lists = [comparison.show(LISTS) for _ in range(3)]
        comparison.record(lists[0], ["a"])
        stored = comparison.to_dict() | {"format": 3}
        restored = Comparison.from_dict({name: stored[name] for name in stored if name not in ("order", "max_open")})
        assert restored.to_dict() == comparison.to_dict()


class TestResult:
    @pytest.mark.parametrize(("test", "p_value"), [("sign", sign_test), ("anytime", anytime_test)])
    def test_p_values_are_corrected_for_all_pairs(self, test: Any, p_value: Any) -> None:
        p_values = with_wins("abc", [[0, 40, 2], [10, 0, 25], [2, 25, 0]]).result(test).p_values
        assert p_values[0, 1] == p_values[1, 0] == pytest.approx(3 * p_value(40, 10))
        assert p_values[0, 2] == p_values[1, 2] == 1.0
        assert np.isnan(np.diag(p_values)).all()

    def test_a_ranker_beats_another_by_its_p_value_and_its_lead(self) -> None:
        result = with_wins("ab", [[0, 40], [15, 0]]).result("anytime")
        p = result.p_values[0, 1]
        assert result.beats("a", "b", level=1.01 * p)
        assert not result.beats("a", "b", level=p)
        assert not result.beats("b", "a", level=1.01 * p)

    def test_the_lead_is_in_wins_or_in_credit_as_the_test(self) -> None:
        """A ranker that wins rarely, but by much, is behind in wins and ahead in credit."""
        wins, p_values = np.array([[0, 10], [30, 0]]), np.full((2, 2), 0.01)
        credit = np.array([[0.0, 0.5], [-0.5, 0.0]])
        assert Result(("a", "b"), 100, 60, wins, credit, p_values, "sign").beats("b", "a")
        assert Result(("a", "b"), 100, 60, wins, credit, p_values, "credit").beats("a", "b")

    def test_bands_are_wide_enough_for_all_pairs(self) -> None:
        result = with_wins("abc", [[0, 400, 0], [100, 0, 300], [0, 200, 0]]).result("anytime")
        expected = ConfidenceSequence(400, 100, 0.05 / 3)
        assert result.interval("a", "b") == expected.interval == (result.low[0, 1], result.high[0, 1])
        assert result.rates[0, 1] == 0.8
        assert result.interval("a", "c") == (0.0, 1.0)  # no decisive impressions
        np.testing.assert_allclose(result.low, 1 - result.high.T)
        assert result.interval("a", "b", level=0.01)[0] < result.low[0, 1]
        for level in (0.0, 1.0, 2.0):
            with pytest.raises(InvalidValue, match="between 0 and 1"):
                result.interval("a", "b", level)

    def test_the_table_of_the_sign_test(self) -> None:
        wins, p_values = np.array([[0, 30], [10, 0]]), np.array([[np.nan, 0.002], [0.002, np.nan]])
        result = Result(("a|b", "c"), 100, 60, wins, (wins - wins.T) / 100, p_values)
        lines = str(result).splitlines()
        assert lines[:4] == [
            "| row : column | a\\|b | c |",
            "| --- | ---: | ---: |",
            "| a\\|b |  | **30.0% : 10.0% (p 0.002)** |",
            "| c | **10.0% : 30.0% (p 0.002)** |  |",
        ]
        assert "100 impressions, 60 with a click" in lines[5]
        assert "valid at any time" not in lines[5]

    def test_the_table_of_the_anytime_test(self) -> None:
        comparison = with_wins("ab", [[0, 400], [100, 0]])
        comparison._tally.impressions = comparison._tally.clicked = 600
        result = comparison.result("anytime")
        cell = f"80.0%, {result.low[0, 1]:.1%} to {result.high[0, 1]:.1%} (p {result.p_values[0, 1]:.2g})"
        assert f"| a |  | **{cell}** |" in str(result)
        assert "valid at any time" in str(result)


class TestHistory:
    def test_it_has_the_counts_of_earlier_times(self) -> None:
        comparison, seen = Comparison(["one", "other"]), {}
        for number in range(200):
            simulated(comparison, 1, seed=number)
            seen[number + 1] = comparison._tally.wins.copy()
        history = comparison.result().history
        assert history.impressions[:14] == list(range(1, 15))
        assert history.impressions[-1] == 200
        assert max(np.diff(history.impressions) / history.impressions[:-1]) <= 1
        for impressions, wins in zip(history.impressions, history.wins, strict=True):
            assert (wins == seen[impressions]).all()

    def test_it_grows_with_the_logarithm(self) -> None:
        history, wins = WinHistory(), np.zeros((2, 2), np.int64)
        impressions = 1
        while impressions < 10**9:
            history.add(impressions, wins)
            impressions = history.next
        assert len(history.impressions) < 9 * 34
        ratios = np.array(history.impressions[100:]) / history.impressions[99:-1]
        assert ratios.max() < 1.08

    def test_a_result_keeps_its_own(self) -> None:
        comparison = simulated(Comparison(["one", "other"]), 30)
        history = comparison.result().history
        before = history.to_dict()
        simulated(comparison, 30, seed=1)
        assert history.to_dict() == before

    @pytest.mark.parametrize(
        "history",
        [
            None,
            {},
            {"impressions": [1], "wins": []},
            {"impressions": [2, 1], "wins": [[[0, 0], [0, 0]]] * 2},
            {"impressions": [0], "wins": [[[0, 0], [0, 0]]]},
            {"impressions": [1], "wins": [[[0, 0, 0]] * 3]},
            {"impressions": [1], "wins": [[[0, -1], [0, 0]]]},
            {"impressions": [1], "wins": [[[0, 0.5], [0, 0]]]},
            {"impressions": [31], "wins": [[[0, 0], [0, 0]]]},
            {"impressions": [30], "wins": [[[0, 31], [0, 0]]]},
        ],
        ids=str,
    )
    def test_a_damaged_one_is_refused(self, history: object) -> None:
        comparison = Comparison(["one", "other"])
        comparison._tally.impressions = 30
        with pytest.raises(InvalidValue):
            Comparison.from_dict({**comparison.to_dict(), "history": history})

    def test_merged_ones_are_joined_as_if_they_had_begun_and_ended_together(self) -> None:
        tables = [np.array([[0, wins], [0, 0]]) for wins in (1, 2, 3, 4)]
        one, other = WinHistory([10, 20], tables[:2]), WinHistory([100, 200, 400], tables[1:])
        both = WinHistory.joined(one, other)
        # A quarter: 100 of the other alone. Half: 10 and 200. The end: 20 and 400.
        assert both.impressions == [100, 210, 420]
        assert [int(wins[0, 1]) for wins in both.wins] == [2, 1 + 3, 2 + 4]
        assert WinHistory.joined(other, one).to_dict() == both.to_dict()
        assert WinHistory.joined(one, WinHistory()).to_dict() == one.to_dict()
        assert WinHistory.joined(WinHistory(), WinHistory()).to_dict() == WinHistory().to_dict()

    def test_a_merged_one_ends_with_all_impressions_and_continues(self) -> None:
        one, other = (simulated(Comparison(["one", "other"], seed=s), 20 * (s + 1), seed=s) for s in (0, 1))
        one.merge(other)
        history = one.result().history
        assert history.impressions[-1] == 60
        assert (history.wins[-1] == one.result().wins).all()
        assert (np.diff(history.wins, axis=0) >= 0).all()
        assert (np.diff(history.impressions) > 0).all()
        assert Comparison.from_dict(through_json(one.to_dict())).to_dict() == one.to_dict()
        simulated(one, 20, seed=9)
        assert one.result().history.impressions[-1] == 80


class TestPlot:
    def test_it_shows_the_rate_its_band_and_one_half(self) -> None:
        result = simulated(Comparison(["one", "other"]), 150).result("anytime")
        (panel,) = result.plot("one", "other").axes
        assert panel.get_title() == "one against other"
        half, rate = panel.lines[:2]
        assert list(half.get_ydata()) == [0.5, 0.5]
        assert (rate.get_xdata()[-1], rate.get_ydata()[-1]) == (150, result.rates[0, 1])
        band = panel.collections[0].get_paths()[0].vertices
        at_the_end = band[band[:, 0] == 150, 1]
        assert (at_the_end.min(), at_the_end.max()) == pytest.approx((result.low[0, 1], result.high[0, 1]))
        assert panel.texts[0].get_text() == f"{result.rates[0, 1]:.1%}"

    @pytest.mark.parametrize(("rankers", "impressions"), [(2, 0), (2, 1), (4, 40)])
    def test_it_shows_all_pairs_of_any_comparison(self, rankers: int, impressions: int) -> None:
        names = [f"${i}" for i in range(rankers)]  # not a formula
        comparison = Comparison(names)
        for number in range(impressions):
            shown = comparison.show({name: shuffled(number, name) for name in names})
            comparison.record(shown, shown.documents[:2])
        figure = comparison.result().plot()
        assert len(figure.axes) == rankers * (rankers - 1) // 2
        assert figure.axes[0].get_title() == "\\$1 against \\$0"
        figure.draw_without_rendering()

    def test_one_name_alone_is_refused(self) -> None:
        with pytest.raises(InvalidValue, match="two rankers, or none"):
            Comparison(["one", "other"]).result().plot("one")
        with pytest.raises(UnknownName):
            Comparison(["one", "other"]).result().plot("one", "another")


class TestStoring:
    @pytest.mark.parametrize("name", ["TeamDraft()", "Probabilistic(tau=1.0)", "PairwisePreference()"])
    def test_a_stored_comparison_continues_identically(self, name: str) -> None:
        comparison = simulated(Comparison(["one", "other"], name, seed=5, length=4), 30)
        restored = Comparison.from_dict(through_json(comparison.to_dict()))
        assert repr(restored) == repr(comparison)
        for each in (comparison, restored):
            simulated(each, 30, seed=1)
        assert restored.to_dict() == comparison.to_dict()

    def test_a_stored_list_is_equal(self) -> None:
        comparison = Comparison(["bm25", "neural"], seed=6)
        shown = comparison.show(LISTS)
        restored = Shown.from_dict(through_json(shown.to_dict()))
        assert restored == shown
        Comparison.from_dict(comparison.to_dict()).record(restored, ["a"])

    @pytest.mark.parametrize(
        "change",
        [
            {"format": 2},
            {"rankers": ["one"]},
            {"rankers": None},
            {"length": 0},
            {"seed": -1},
            {"shown": -1},
            {"tally": {}},
            {"tally": None},
            {"tally": {"wins": [[0, 0, 0]]}},
            {"recorded": None},
            {"recorded": [[0, 0, "g"]]},
            {"recorded": [[0, 0, "0"]]},
            {"recorded": [[0, -1, "1"]]},
            {"order": 1},
            {"order": [[0, 0, [[[0.0]], True]]]},
            {"order": [[0, 0, [[[0.0, 1.0], [-1.0, 0.0]], True]]]},
            {"max_open": 0},
        ],
        ids=str,
    )
    def test_a_damaged_comparison_is_refused(self, change: dict[str, object]) -> None:
        with pytest.raises(InvalidValue):
            Comparison.from_dict({**Comparison(["one", "other"]).to_dict(), **change})

    @pytest.mark.parametrize(
        "change",
        [
            {"rankings": None},
            {"rankings": {"bm25": 3}},
            {"documents": 1},
            {"documents": ("d", "b", "c", "a", "x")},
            {"number": None},
            {"seed": "1"},
        ],
        ids=str,
    )
    def test_a_damaged_or_changed_list_is_refused(self, change: dict[str, object]) -> None:
        comparison = Comparison(["bm25", "neural"])
        with pytest.raises(InvalidValue):
            comparison.record(Shown.from_dict({**comparison.show(LISTS).to_dict(), **change}), [])
        assert comparison.result().impressions == 0


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ((["one"],), InvalidValue, "two or more rankers"),
            (("bm25",), InvalidValue, "two or more rankers"),
            (([],), InvalidValue, "two or more rankers"),
            ((["one", ""],), InvalidValue, "two or more rankers"),
            ((["one", 2],), InvalidValue, "two or more rankers"),
            ((["one", "one"],), InvalidValue, "must be unique"),
            ((["a", "b", "c"], "Balanced()"), InvalidRecipe, "got 3; for more use"),
            ((["a", "b"], "mgd"), InvalidRecipe, "but a multileaver is required"),
            ((["a", "b"], 3), InvalidRecipe, "a multileaver or its text"),
            ((["a", "b"], "TeamDraft()", -1), InvalidValue, "seed must be a whole number"),
            ((["a", "b"], "TeamDraft()", 0, 0), InvalidValue, "from 1 up"),
        ],
    )
    def test_arguments(self, arguments: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            Comparison(*arguments)

    @pytest.mark.parametrize(
        ("rankings", "error", "message"),
        [
            ({"bm25": ["a"], "neutral": ["b"]}, UnknownName, "did you mean neural"),
            ({"bm25": ["a"]}, InvalidValue, "the ranking of 'neural' is missing"),
            ({"bm25": ["a"], "neural": ["b", "c", "b"]}, InvalidValue, "'neural' contains 'b' twice"),
            ({"bm25": [], "neural": []}, InvalidValue, "no ranker returned any"),
            ({"bm25": "abc", "neural": []}, InvalidValue, r"for one document give \['abc'\]"),
            ({"bm25": [["a"]], "neural": []}, InvalidValue, "a string or a whole number"),
        ],
    )
    def test_rankings(self, rankings: Any, error: type[Exception], message: str) -> None:
        comparison = Comparison(["bm25", "neural"])
        with pytest.raises(error, match=message):
            comparison.show(rankings)
        assert comparison.shown == 0

    def test_clicks(self) -> None:
        comparison = Comparison(["bm25", "neural"])
        shown = comparison.show(LISTS)
        with pytest.raises(InvalidValue, match="'y', 'z' cannot have been clicked: this list has "):
            comparison.record(shown, ["a", "z", "y"])
        with pytest.raises(InvalidValue, match=r"for one document give \['d'\]"):
            comparison.record(shown, "d")
        assert comparison.result().impressions == 0

    def test_results(self) -> None:
        comparison = Comparison(["a", "b"])
        with pytest.raises(UnknownName):
            comparison.result().beats("a", "c")
        with pytest.raises(InvalidValue, match="'anytime', 'sign' or 'credit'"):
            comparison.result("t")
        with pytest.raises(InvalidValue, match="same settings"):
            comparison.merge(Comparison(["a", "c"]))
