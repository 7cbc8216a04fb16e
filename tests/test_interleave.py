"""Comparing rankers without learning: who is better is found, who is not is not, and nothing is lost on the way."""

from __future__ import annotations

import io
import json
from functools import cache

import numpy as np
import pytest
from scipy import stats

from duelrank.core.errors import InvalidRecipe, InvalidValue, UnknownName
from duelrank.core.randomness import stream
from duelrank.core.registry import classes
from duelrank.core.statistics import anytime_test, sign_test
from duelrank.core.types import Impression, Query
from duelrank.guard import ConfidenceSequence
from duelrank.interleave import Comparison, Result, Shown
from duelrank.interleave.history import History
from duelrank.kernels.random import permutation, uniform
from duelrank.multileaving import Multileaver

NAMES = list(classes(Multileaver))
LISTS = {"bm25": ["a", "b", "c", "d"], "neural": ["d", "c", "x"]}


def shuffled(number: int, name: str, n: int = 6) -> list[str]:
    return [f"d{i}" for i in permutation(stream(number, name), n)]


def simulated(comparison: Comparison, n: int, ranked: dict[str, list[list[str]]], seed: int = 0) -> Comparison:
    """Show n lists to a user who clicks d0 with probability 0.9 and anything else with 0.1."""
    draws = stream(seed, "clicks")
    for number in range(n):
        shown = comparison.show({name: lists[number % len(lists)] for name, lists in ranked.items()})
        chances = [0.9 if document == "d0" else 0.1 for document in shown.documents]
        comparison.record(shown, [d for d, p in zip(shown.documents, chances, strict=True) if uniform(draws) < p])
    return comparison


@pytest.fixture(scope="module")
def equal() -> list[Comparison]:
    """200 comparisons of 60 lists of rankers that both rank at random: neither is better, whatever users click."""
    found = []
    for seed in range(200):
        ranked = {name: [shuffled(1000 * seed + i, name) for i in range(60)] for name in ("one", "other")}
        found.append(simulated(Comparison(["one", "other"], "TeamDraft", seed, length=4), 60, ranked, seed))
    return found


class TestFinding:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_better_ranker_is_found(self, name: str) -> None:
        """The good one has the relevant document first, the other anywhere."""
        bad = [shuffled(number, "bad") for number in range(50)]
        good = [["d0", *(d for d in shuffled(number, "good") if d != "d0")] for number in range(50)]
        comparison = simulated(Comparison(["bad", "good"], name, seed=1, length=5), 150, {"bad": bad, "good": good})
        for test in ("sign", "credit", "anytime"):
            result = comparison.result(test)
            assert result.beats("good", "bad")
            assert not result.beats("bad", "good")

    def three(self, name: str) -> Result:
        """The relevant document is first with one, third with another, last with the third."""
        ranked = {}
        for ranker, place in {"good": 0, "middling": 2, "poor": 5}.items():
            rest = [[d for d in shuffled(number, ranker) if d != "d0"] for number in range(50)]
            ranked[ranker] = [[*others[:place], "d0", *others[place:]] for others in rest]
        return simulated(Comparison(list(ranked), name, seed=2, length=6), 600, ranked).result()

    @pytest.mark.parametrize("name", ["SampleOnlyScored", "PairwisePreference", "Probabilistic"])
    def test_three_are_put_in_order(self, name: str) -> None:
        result = self.three(name)
        assert result.beats("good", "middling")
        assert result.beats("middling", "poor")
        assert result.beats("good", "poor")

    def test_team_draft_cannot_tell_the_others_apart_where_one_takes_all_clicks(self) -> None:
        """The best ranker adds the relevant document in each first round, so that the others never own it."""
        result = self.three("TeamDraft")
        assert result.beats("good", "middling")
        assert not result.beats("middling", "poor")

    @pytest.mark.parametrize("test", ["sign", "credit", "anytime"])
    def test_of_equal_rankers_hardly_any_is_called_better(self, equal: list[Comparison], test: str) -> None:
        """Each may be significant with probability 5% at most (the exact test is a little below, that of the mean near it).

        So their number is at most binomial(200, 0.05): above its 99.99% quantile, 23, something is wrong.
        """
        found = sum(comparison.result(test).p_values[0, 1] < 0.05 for comparison in equal)
        assert found <= stats.binom.ppf(0.9999, 200, 0.05)
        assert found > 0 or test == "anytime"  # it is a test that can be passed by chance

    def test_rankers_that_return_the_same_always_tie(self) -> None:
        for name in ("PairwisePreference", "Probabilistic", "SampleOnlyScored", "OptimizedMultileaving", "Balanced"):
            comparison = Comparison(["one", "other"], name, length=4)
            lists = [shuffled(number, "same")[:4] for number in range(20)]
            assert not simulated(comparison, 20, {"one": lists, "other": lists}).result().wins.any()


class TestRankings:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_click_on_a_document_that_a_ranker_did_not_return_is_never_its_credit(self, name: str) -> None:
        comparison = Comparison(["a", "b"], name, seed=3)
        for _ in range(60):
            comparison.record(comparison.show({"a": [1, 2], "b": [2, 3]}), [3])
        wins = comparison.result().wins
        assert wins[0, 1] == 0
        assert wins[1, 0] > 0

    @pytest.mark.parametrize("name", NAMES)
    def test_one_that_returned_nothing_leaves_the_list_to_the_other_and_never_wins(self, name: str) -> None:
        comparison = Comparison(["all", "nothing"], name)
        for clicked in "abc":
            shown = comparison.show({"all": ["a", "b", "c"], "nothing": []})
            assert sorted(shown.documents) == ["a", "b", "c"]
            comparison.record(shown, [clicked])
        assert comparison.result().wins[1, 0] == 0

    def test_a_list_is_as_long_as_asked_or_as_there_are_documents(self) -> None:
        assert len(Comparison(["bm25", "neural"], length=3).show(LISTS).documents) == 3
        assert sorted(Comparison(["bm25", "neural"]).show(LISTS).documents) == ["a", "b", "c", "d", "x"]

    def test_whole_numbers_are_documents_too(self) -> None:
        comparison = Comparison(["one", "other"])
        shown = comparison.show({"one": [3, 1], "other": [1, 2]})
        comparison.record(Shown.from_dict(json.loads(json.dumps(shown.to_dict()))), [1])
        assert comparison.result().clicked == 1


class TestCounting:
    @pytest.mark.parametrize("name", NAMES)
    def test_wins_are_what_the_multileaver_says(self, name: str) -> None:
        """Preferences are antisymmetric, and against the first ranker they have the sign of the lead in credit."""
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
        """By the clicks that come first; also where it was stored in between."""
        comparison = Comparison(["bm25", "neural"], seed=4)
        shown, other = comparison.show(LISTS), comparison.show(LISTS)
        assert comparison.record(shown, ["a"])
        before = comparison.to_dict()
        restored = Comparison.from_dict(json.loads(json.dumps(before)))
        for each in (comparison, restored):
            assert not each.record(shown, ["a"])
            assert not each.record(shown, ["x"])
            assert each.to_dict() == before
            assert each.record(other, [])
            assert each.result().impressions == 2

    def test_a_list_that_two_have_recorded_is_not_counted_twice_by_a_merge(self) -> None:
        one, other = Comparison(["bm25", "neural"], seed=1), Comparison(["bm25", "neural"], seed=2)
        shown = one.show(LISTS)
        for each in (one, other):
            each.record(shown, ["a"])
        with pytest.raises(InvalidValue, match="some of the same lists"):
            one.merge(other)
        assert one.result().impressions == 1

    def test_no_click_is_a_tie(self) -> None:
        comparison = Comparison(["bm25", "neural"])
        comparison.record(comparison.show(LISTS), [])
        result = comparison.result()
        assert (result.impressions, result.clicked) == (1, 0)
        assert result.ties.tolist() == [[0, 1], [1, 0]]
        assert result.p_values[0, 1] == 1.0

    def test_wins_losses_and_ties_are_all_impressions(self) -> None:
        result = simulated(
            Comparison(["one", "other"]), 40, {n: [shuffled(i, n) for i in range(9)] for n in ("one", "other")}
        ).result()
        total = result.wins + result.losses + result.ties
        assert total[0, 1] == total[1, 0] == result.impressions == 40
        assert result.shares[0, 1] == result.wins[0, 1] / 40

    def test_pairs_are_corrected_for_being_many(self) -> None:
        names, wins = ("a", "b", "c"), np.array([[0, 9, 2], [1, 0, 3], [2, 3, 0]])
        comparison = Comparison(names)
        comparison._tally.wins[:] = wins
        p_values = comparison.result().p_values
        assert p_values[0, 1] == pytest.approx(3 * stats.binomtest(9, 10).pvalue)
        assert p_values[0, 2] == p_values[1, 2] == 1.0
        assert np.isnan(np.diag(p_values)).all()

    def test_counts_of_processes_are_merged(self) -> None:
        ranked = {name: [shuffled(i, name) for i in range(9)] for name in ("one", "other")}
        halves = [simulated(Comparison(["one", "other"], seed=seed), 30, ranked, seed) for seed in (1, 2)]
        wins = halves[0].result().wins + halves[1].result().wins
        # A list that one process has shown may be recorded by another.
        halves[0].record(halves[1].show({name: lists[0] for name, lists in ranked.items()}), [])
        halves[0].merge(halves[1])
        assert (halves[0].result().wins == wins).all()
        assert halves[0].result().impressions == 61

    def test_what_is_kept_does_not_grow(self) -> None:
        ranked = {name: [shuffled(i, name) for i in range(9)] for name in ("one", "other")}
        comparison = simulated(Comparison(["one", "other"]), 50, ranked)
        early = len(json.dumps(comparison.to_dict()))
        later = len(json.dumps(simulated(comparison, 400, ranked).to_dict()))
        # A digit more here and there, one for four lists that were recorded, and 33 points of history for a power of ten.
        assert later <= early + 60 + 400 / 4 + 33 * 33


class TestAnytime:
    def test_p_values_are_of_the_anytime_test_corrected_for_all_pairs(self) -> None:
        comparison = Comparison(["a", "b", "c"])
        comparison._tally.wins[:] = np.array([[0, 40, 2], [10, 0, 30], [2, 20, 0]])
        p_values = comparison.result("anytime").p_values
        assert p_values[0, 1] == p_values[1, 0] == pytest.approx(3 * anytime_test(40, 10))
        assert p_values[0, 2] == 1.0
        assert np.isnan(np.diag(p_values)).all()

    def test_who_beats_whom_is_by_its_p_value_and_its_lead(self) -> None:
        comparison = Comparison(["a", "b"])
        comparison._tally.wins[:] = np.array([[0, 40], [15, 0]])
        result = comparison.result("anytime")
        p = result.p_values[0, 1]
        assert result.beats("a", "b", level=1.01 * p)
        assert not result.beats("a", "b", level=p)
        assert not result.beats("b", "a", level=1.01 * p)

    def test_equal_rankers_are_hardly_ever_told_apart_however_often_one_looks(self, equal: list[Comparison]) -> None:
        """After each of some of 60 lists; the sign test is significant at some time in more than twice 5%."""
        ever = {"anytime": 0, "sign": 0}
        p_values = {"anytime": cache(anytime_test), "sign": cache(sign_test)}
        for comparison in equal:
            history = comparison.result().history
            assert history.impressions[-1] == 60
            for test, p_value in p_values.items():
                ever[test] += any(p_value(int(wins[0, 1]), int(wins[1, 0])) < 0.05 for wins in history.wins)
        assert ever["anytime"] <= stats.binom.ppf(0.9999, 200, 0.05)
        assert ever["sign"] > 2 * 0.05 * 200

    def test_bands_are_of_the_win_rate_and_wide_enough_for_all_pairs(self) -> None:
        comparison = Comparison(["a", "b", "c"])
        comparison._tally.wins[:] = np.array([[0, 400, 0], [100, 0, 300], [0, 200, 0]])
        result = comparison.result("anytime")
        expected = ConfidenceSequence(400, 100, 0.05 / 3)
        assert result.interval("a", "b") == expected.interval == (result.low[0, 1], result.high[0, 1])
        assert result.rates[0, 1] == 0.8
        assert result.interval("a", "c") == (0.0, 1.0)  # nothing is known
        np.testing.assert_allclose(result.low, 1 - result.high.T)
        assert result.interval("a", "b", level=0.01)[0] < result.low[0, 1]
        for level in (0.0, 1.0, 2.0):
            with pytest.raises(InvalidValue, match="between 0 and 1"):
                result.interval("a", "b", level)

    def test_it_is_read_as_a_table(self) -> None:
        comparison = Comparison(["a", "b"])
        comparison._tally.wins[:] = np.array([[0, 400], [100, 0]])
        comparison._tally.impressions = comparison._tally.clicked = 600
        result = comparison.result("anytime")
        table = str(result)
        assert (
            f"| a |  | **80.0%, {result.low[0, 1]:.1%} to {result.high[0, 1]:.1%} (p {result.p_values[0, 1]:.2g})** |"
            in table
        )
        assert "valid whenever one looks" in table
        assert "valid whenever one looks" not in str(comparison.result())


class TestHistory:
    @pytest.fixture
    def ranked(self) -> dict[str, list[list[str]]]:
        return {name: [shuffled(i, name) for i in range(9)] for name in ("one", "other")}

    def test_it_has_the_counts_of_earlier_times(self, ranked: dict[str, list[list[str]]]) -> None:
        comparison, seen = Comparison(["one", "other"]), {}
        for number in range(200):
            simulated(comparison, 1, ranked, seed=number)
            result = comparison.result()
            seen[result.impressions] = result.wins
        history = comparison.result().history
        assert history.impressions[:14] == list(range(1, 15))
        assert history.impressions[-1] == 200
        assert max(np.diff(history.impressions) / history.impressions[:-1]) <= 1
        for impressions, wins in zip(history.impressions, history.wins, strict=True):
            assert (wins == seen[impressions]).all()

    def test_it_grows_with_the_logarithm(self) -> None:
        history, wins = History(), np.zeros((2, 2), np.int64)
        impressions = 1
        while impressions < 10**9:
            history.add(impressions, wins)
            impressions = history.next
        assert len(history.impressions) < 9 * 34
        ratios = np.array(history.impressions[100:]) / history.impressions[99:-1]
        assert ratios.max() < 1.08

    def test_a_result_keeps_its_own(self, ranked: dict[str, list[list[str]]]) -> None:
        comparison = simulated(Comparison(["one", "other"]), 30, ranked)
        history = comparison.result().history
        before = history.to_dict()
        simulated(comparison, 30, ranked, seed=1)
        assert history.to_dict() == before

    def test_one_that_was_stored_without_is_still_read_and_begins_then(
        self, ranked: dict[str, list[list[str]]]
    ) -> None:
        comparison = simulated(Comparison(["one", "other"]), 30, ranked)
        data = json.loads(json.dumps(comparison.to_dict()))
        del data["history"]
        restored = Comparison.from_dict({**data, "format": 2})
        assert (restored.result().wins == comparison.result().wins).all()
        assert restored.result().history.impressions == [30]
        simulated(restored, 10, ranked, seed=1)
        assert restored.result().history.impressions == [30, 32, 34, 36, 38, 40]

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
    def test_a_damaged_one_is_refused(self, ranked: dict[str, list[list[str]]], history: object) -> None:
        data = simulated(Comparison(["one", "other"]), 30, ranked).to_dict()
        with pytest.raises(InvalidValue):
            Comparison.from_dict({**data, "history": history})

    def test_merged_ones_are_joined_as_if_side_by_side(self) -> None:
        tables = [np.array([[0, wins], [0, 0]]) for wins in (1, 2, 3, 4)]
        one, other = History([10, 20], tables[:2]), History([100, 200, 400], tables[1:])
        both = History.side_by_side(one, other)
        # A quarter: 100 of the other alone. Half: 10 and 200. The end: 20 and 400.
        assert both.impressions == [100, 210, 420]
        assert [int(wins[0, 1]) for wins in both.wins] == [2, 1 + 3, 2 + 4]
        assert History.side_by_side(other, one).to_dict() == both.to_dict()

    def test_a_merge_with_an_empty_one_changes_nothing(self, ranked: dict[str, list[list[str]]]) -> None:
        full = simulated(Comparison(["one", "other"], seed=1), 100, ranked)
        expected = full.result().history.to_dict()
        empty = Comparison(["one", "other"], seed=2)
        empty.merge(full)
        full.merge(Comparison(["one", "other"], seed=3))
        for each in (empty, full):
            assert each.result().history.to_dict() == expected

    def test_a_merged_one_ends_with_all_and_goes_on(self, ranked: dict[str, list[list[str]]]) -> None:
        one, other = (simulated(Comparison(["one", "other"], seed=s), 20 * (s + 1), ranked, s) for s in (0, 1))
        one.merge(other)
        history = one.result().history
        assert history.impressions[-1] == 60
        assert (history.wins[-1] == one.result().wins).all()
        assert (np.diff(history.wins, axis=0) >= 0).all()
        assert (np.diff(history.impressions) > 0).all()
        assert Comparison.from_dict(json.loads(json.dumps(one.to_dict()))).to_dict() == one.to_dict()
        simulated(one, 20, ranked, seed=9)
        assert one.result().history.impressions[-1] == 80


class TestPlot:
    def test_it_shows_the_rate_its_band_and_one_half(self) -> None:
        ranked = {name: [shuffled(i, name) for i in range(9)] for name in ("one", "other")}
        result = simulated(Comparison(["one", "other"]), 150, ranked).result("anytime")
        (panel,) = result.plot("one", "other").axes
        assert panel.get_title() == "one against other"
        half, rate = panel.lines[:2]
        assert list(half.get_ydata()) == [0.5, 0.5]
        assert (rate.get_xdata()[-1], rate.get_ydata()[-1]) == (150, result.rates[0, 1])
        band = panel.collections[0].get_paths()[0].vertices
        at_the_end = band[band[:, 0] == 150, 1]
        assert (at_the_end.min(), at_the_end.max()) == pytest.approx((result.low[0, 1], result.high[0, 1]))
        assert panel.texts[0].get_text() == f"{result.rates[0, 1]:.1%}"

    def test_without_names_it_shows_all_pairs(self) -> None:
        comparison = Comparison(["a", "b", "c"])
        comparison.record(comparison.show({name: ["x", "y"] for name in "abc"}), [])
        panels = comparison.result("anytime").plot().axes
        assert [panel.get_title() for panel in panels] == ["b against a", "c against a", "c against b"]

    @pytest.mark.parametrize(("rankers", "impressions"), [(2, 0), (2, 1), (4, 40), (6, 2)])
    def test_it_is_drawn_whatever_is_known(self, rankers: int, impressions: int) -> None:
        names = [f"${i}" for i in range(rankers)]  # not a formula
        comparison = Comparison(names)
        for number in range(impressions):
            shown = comparison.show({name: shuffled(number, name) for name in names})
            comparison.record(shown, shown.documents[:2])
        comparison.result().plot().savefig(io.BytesIO())

    def test_one_name_alone_is_refused(self) -> None:
        with pytest.raises(InvalidValue, match="two rankers, or none"):
            Comparison(["one", "other"]).result().plot("one")
        with pytest.raises(UnknownName):
            Comparison(["one", "other"]).result().plot("one", "another")


class TestStoring:
    @pytest.mark.parametrize("name", ["TeamDraft()", "Probabilistic(tau=1.0)", "PairwisePreference()"])
    def test_a_stored_comparison_goes_on_as_if_nothing_had_happened(self, name: str) -> None:
        ranked = {each: [shuffled(i, each) for i in range(9)] for each in ("one", "other")}
        comparison = simulated(Comparison(["one", "other"], name, seed=5, length=4), 30, ranked)
        restored = Comparison.from_dict(json.loads(json.dumps(comparison.to_dict())))
        assert repr(restored) == repr(comparison)
        for each in (comparison, restored):
            simulated(each, 30, ranked, seed=1)
        assert restored.to_dict() == comparison.to_dict()

    def test_a_shown_list_travels(self) -> None:
        comparison = Comparison(["bm25", "neural"], seed=6)
        shown = comparison.show(LISTS)
        back = Shown.from_dict(json.loads(json.dumps(shown.to_dict())))
        assert back == shown
        Comparison.from_dict(comparison.to_dict()).record(back, ["a"])

    @pytest.mark.parametrize(
        "change",
        [
            {"format": 1},
            {"rankers": ["one"]},
            {"rankers": None},
            {"length": 0},
            {"seed": -1},
            {"shown": -1},
            {"tally": {}},
            {"tally": None},
            {"recorded": None},
            {"recorded": [[0, 0, "g"]]},
            {"recorded": [[0, 0, "0"]]},
            {"recorded": [[0, -1, "1"]]},
        ],
        ids=str,
    )
    def test_a_damaged_comparison_is_refused(self, change: dict[str, object]) -> None:
        with pytest.raises(InvalidValue):
            Comparison.from_dict({**Comparison(["one", "other"]).to_dict(), **change})

    def test_a_table_of_another_shape_is_refused(self) -> None:
        data = Comparison(["one", "other"]).to_dict()
        data["tally"]["wins"] = [[0, 0, 0]]
        with pytest.raises(InvalidValue, match="2 × 2 table of wins"):
            Comparison.from_dict(data)

    @pytest.mark.parametrize(
        "change", [{"rankings": None}, {"rankings": {"bm25": 3}}, {"documents": 1}, {"number": None}, {"seed": "1"}]
    )
    def test_a_damaged_list_is_refused(self, change: dict[str, object]) -> None:
        comparison = Comparison(["bm25", "neural"])
        with pytest.raises(InvalidValue):
            comparison.record(Shown.from_dict({**comparison.show(LISTS).to_dict(), **change}), [])

    def test_a_list_that_was_changed_is_refused(self) -> None:
        comparison = Comparison(["bm25", "neural"])
        data = comparison.show(LISTS).to_dict()
        data["documents"] = data["documents"][::-1]
        with pytest.raises(InvalidValue, match="was not made by Comparison"):
            comparison.record(Shown.from_dict(data), ["a"])
        assert comparison.result().impressions == 0


class TestErrors:
    def test_names(self) -> None:
        for names in (["one"], "bm25", [], ["one", ""], ["one", 2]):
            with pytest.raises(InvalidValue, match="two or more rankers"):
                Comparison(names)
        with pytest.raises(InvalidValue, match="must be unique"):
            Comparison(["one", "one"])

    def test_multileavers(self) -> None:
        with pytest.raises(InvalidRecipe, match="got 3; for more use"):
            Comparison(["a", "b", "c"], "Balanced()")
        with pytest.raises(InvalidRecipe, match="but a multileaver is required"):
            Comparison(["a", "b"], "mgd")
        with pytest.raises(InvalidRecipe, match="a multileaver or its text"):
            Comparison(["a", "b"], 3)

    def test_rankers(self) -> None:
        comparison = Comparison(["bm25", "neural"])
        with pytest.raises(UnknownName, match="did you mean neural"):
            comparison.show({"bm25": ["a"], "neutral": ["b"]})
        with pytest.raises(InvalidValue, match="the ranking of 'neural' is missing"):
            comparison.show({"bm25": ["a"]})
        with pytest.raises(UnknownName):
            comparison.result().beats("bm25", "bm52")

    def test_documents(self) -> None:
        comparison = Comparison(["bm25", "neural"])
        with pytest.raises(InvalidValue, match="'neural' contains 'b' twice"):
            comparison.show({"bm25": ["a"], "neural": ["b", "c", "b"]})
        with pytest.raises(InvalidValue, match="no ranker returned any"):
            comparison.show({"bm25": [], "neural": []})
        with pytest.raises(InvalidValue, match=r"for one document give \['abc'\]"):
            comparison.show({"bm25": "abc", "neural": []})
        with pytest.raises(InvalidValue, match="a string or a whole number"):
            comparison.show({"bm25": [["a"]], "neural": []})
        assert comparison.shown == 0

    def test_clicks(self) -> None:
        comparison = Comparison(["bm25", "neural"])
        shown = comparison.show(LISTS)
        with pytest.raises(InvalidValue, match="'y', 'z' cannot have been clicked: this list has "):
            comparison.record(shown, ["a", "z", "y"])
        with pytest.raises(InvalidValue, match=r"for one document give \['d'\]"):
            comparison.record(shown, "d")
        assert comparison.result().impressions == 0

    def test_the_rest(self) -> None:
        with pytest.raises(InvalidValue, match="from 1 up"):
            Comparison(["a", "b"], length=0)
        with pytest.raises(InvalidValue, match="seed must be a whole number"):
            Comparison(["a", "b"], seed=-1)
        with pytest.raises(InvalidValue, match="'anytime', 'sign' or 'credit'"):
            Comparison(["a", "b"]).result("t")
        with pytest.raises(InvalidValue, match="same settings"):
            Comparison(["a", "b"]).merge(Comparison(["a", "c"]))


def test_who_is_ahead_is_asked_of_what_was_tested() -> None:
    """One that wins rarely, but by much, is behind in wins and ahead in credit."""
    wins, p_values = np.array([[0, 10], [30, 0]]), np.full((2, 2), 0.01)
    credit = np.array([[0.0, 0.5], [-0.5, 0.0]])
    assert Result(("a", "b"), 100, 60, wins, credit, p_values, "sign").beats("b", "a")
    assert Result(("a", "b"), 100, 60, wins, credit, p_values, "credit").beats("a", "b")


def test_the_table_reads_itself() -> None:
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
