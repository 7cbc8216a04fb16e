"""What every registered multileaver is held to, over all its lists where they can be counted; exceptions are named and shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import SOAK
from tests.reference import multileaving as kernel
from tests.swap import reference, swapped

from duelrank import Learner, multileaving, parse
from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.randomness import stream
from duelrank.core.registry import classes
from duelrank.core.types import Impression, Query
from duelrank.multileaving import Multileaver, _top_ranks
from duelrank.testing import CHECKS, play, tiny_split
from duelrank.testing.checks import variations

NAMES = list(classes(Multileaver))
EXACT = 1e-9  # of sums over all lists; 1e-7 is what the solver of the linear programme promises
UNUSED = stream(0, "unused")  # no default draws anything for its credit
SAMPLED = 600  # lists, where they cannot all be gone through


# All lists of a method --------------------------------------------------------------------------------------------------------


class Continuous(Exception):
    """A method draws a number that cannot take all its values in turn."""


@dataclass
class Lists:
    """Lists of one comparison with their probabilities: all of them, or a sample of equal ones."""

    chances: np.ndarray
    impressions: list[Impression]
    tolerance: float | None = EXACT  # None: a sample

    def expect_zero(self, values: Any) -> None:
        """Hold that a value for each list is 0 on average: exactly, or within 4.5 standard errors of the mean."""
        values = np.asarray(values, float)
        bound = self.tolerance
        if bound is None:  # one comparison in 150,000 would fail by chance
            bound = EXACT + 4.5 * values.std() / math.sqrt(values.size)
        assert abs(self.chances @ values) <= bound


def impression(rankings: np.ndarray, ranking: Any, trace: Any) -> Impression:
    return Impression(Query("q", np.ones((rankings.shape[1], 1))), np.asarray(ranking), trace)


def in_every_way(run: Callable[[], Any]) -> Iterator[tuple[float, Any]]:
    """Yield each result of a function that draws through `below` and `permutation`, with its probability."""
    waiting: list[list[int]] = [[]]
    while waiting:
        script = waiting.pop()
        with scripted(script) as sizes:
            result = run()
        yield 1.0 / math.prod(sizes), result
        # Branch at each draw that was made beyond the script, where it took its first value.
        for place in range(len(script), len(sizes)):
            waiting += [[*script, *[0] * (place - len(script)), value] for value in range(1, sizes[place])]


@contextmanager
def scripted(script: list[int]) -> Iterator[list[int]]:
    """Replace all kernels by their references, with draws from the script and then 0; yield how many values each draw had."""
    sizes: list[int] = []

    def below(_: Any, n: int) -> int:
        sizes.append(int(n))
        return script[len(sizes) - 1] if len(sizes) <= len(script) else 0

    def permutation(_: Any, n: int) -> np.ndarray:
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = below(_, i + 1)
            order[i], order[j] = order[j], order[i]
        return np.array(order)

    def refuse(*_: Any) -> Any:
        raise Continuous

    draws = {"below": below, "permutation": permutation}

    def replacement(module: str, name: str, kernel: Any) -> Any:
        return draws.get(name, refuse) if module == "random" else reference(module, name)

    with swapped(lambda module, name, kernel: kernel if module in LETOR else replacement(module, name, kernel)):
        yield sizes


LETOR = {"datasets"}


def test_the_scripted_permutation_is_the_real_one() -> None:
    for n in range(5):
        orders = [tuple(order) for _, order in in_every_way(lambda n=n: kernel.permutation(None, n))]
        assert sorted(orders) == sorted(permutations(range(n)))


def probabilistic_lists(multileaver: Any, rankings: np.ndarray, length: int) -> Lists:
    """The mixture of softmaxes, written out."""
    chances, impressions = [], []
    for shown in permutations(range(rankings.shape[1]), length):
        chance = 1.0
        for position, document in enumerate(shown):
            masses = [
                {d: r**-multileaver.tau for r, d in enumerate(row, 1) if d not in shown[:position]} for row in rankings
            ]
            chance *= np.mean([mass[document] / sum(mass.values()) for mass in masses])
        chances.append(chance)
        impressions.append(impression(rankings, shown, multileaver.evidence(rankings, np.array(shown))))
    return Lists(np.array(chances), impressions)


def optimized_lists(multileaver: Any, rankings: np.ndarray, length: int) -> Lists:
    """The solved probabilities, read from where they are remembered."""
    documents = list(dict.fromkeys(rankings[:, :length].ravel().tolist()))
    first, second = _top_ranks(rankings, np.array(documents), length).tolist()
    lists, ranks, bounds = multileaving._lists(tuple(first), tuple(second), length, multileaver.scoring)
    found = [impression(rankings, np.array(documents)[s], {"ranks": r}) for s, r in zip(lists, ranks, strict=True)]
    return Lists(np.diff(bounds, prepend=0.0), found, tolerance=1e-7)


COUNTLESS = {"OptimizedMultileaving"}  # as many ways as there are to draw ten lists
KNOWN = {"Probabilistic": probabilistic_lists, "OptimizedInterleaving": optimized_lists}


def all_lists(multileaver: Multileaver, rankings: np.ndarray, length: int) -> Lists:
    """All lists that a method may show, by going through its draws or from what is known of it, else a sample."""
    name = type(multileaver).__name__
    if name in KNOWN:
        return KNOWN[name](multileaver, rankings, length)
    try:
        if name in COUNTLESS:
            raise Continuous
        unused = stream(0, "unused")
        found = list(in_every_way(lambda: multileaver.leave(rankings, length, unused)))
        return Lists(np.array([chance for chance, _ in found]), [impression(rankings, *made) for _, made in found])
    except Continuous:
        draws = stream(3, "sample")
        made = [impression(rankings, *multileaver.leave(rankings, length, draws)) for _ in range(SAMPLED)]
        return Lists(np.full(SAMPLED, 1 / SAMPLED), made, tolerance=None)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COUNTLESS])
def test_all_lists_are_gone_through(name: str) -> None:
    """All draws of a method, and no others: its probabilities sum to 1, and samples of it are among its lists."""
    rankings = np.array([[0, 1, 2, 3], [2, 3, 1, 0]])
    found = all_lists(parse(name), rankings, 3)
    assert found.tolerance is not None
    assert found.chances.sum() == pytest.approx(1.0)
    known = {tuple(each.ranking.tolist()) for each in found.impressions}
    sample = {tuple(parse(name).leave(rankings, 3, stream(n, "sample"))[0].tolist()) for n in range(200)}
    assert sample <= known


@st.composite
def comparisons(draw: Any, name: str, n: int = 4) -> tuple[np.ndarray, int]:
    """Rankings of n documents, two or three of them where the method takes as many, and a length."""
    most = parse(name).most_rankers or 3
    rows = draw(st.lists(st.permutations(range(n)), min_size=2, max_size=most))
    return np.array(rows, np.int64), draw(st.integers(1, n))


EXAMPLES = {"OptimizedMultileaving": 2}


def examples(name: str) -> settings:
    return settings(max_examples=EXAMPLES.get(name, 10) * SOAK)


def leads(lists: Lists, multileaver: Multileaver, clicks: Callable[[np.ndarray], Any], one: int) -> np.ndarray:
    """By how much a ranker leads the first, in each list, where a user clicks as the function says."""
    credit = (multileaver.assign_credit(each, np.asarray(clicks(each.ranking)), UNUSED) for each in lists.impressions)
    return np.array([given[one] - given[0] for given in credit])


# Lists ------------------------------------------------------------------------------------------------------------------------

#: Methods whose list may go deeper than each ranker's best document left, and how deep; all others are held to that.
DEEPER = {"Probabilistic": "anywhere", "PairwisePreference": "top"}


@pytest.mark.parametrize("name", NAMES)
def test_a_list_holds_different_documents_and_goes_no_deeper_than_it_may(name: str) -> None:
    multileaver = parse(name)

    @given(comparisons(name, n=7), st.integers(0, 1000))
    @settings(max_examples=40)
    def holds(comparison: Any, number: int) -> None:
        rankings, length = comparison
        ranking = multileaver.leave(rankings, length, stream(0, "list", number))[0].tolist()
        assert len(ranking) == len(set(ranking)) == length
        for position, document in enumerate(ranking):
            left = [next(d for d in row if d not in ranking[:position]) for row in rankings.tolist()]
            tops = {d for row in rankings.tolist() for d in row[: position + 1]}
            assert document in {"anywhere": set(range(7)), "top": tops}.get(DEEPER.get(name, ""), set(left))

    holds()


@pytest.mark.parametrize("name", NAMES)
def test_the_stream_decides_alone_and_the_rankings_stay(name: str) -> None:
    rankings = np.array([[0, 1, 2, 3, 4], [4, 2, 0, 1, 3]])
    before = rankings.copy()
    lists = [parse(name).leave(rankings, 4, stream(5, "same"))[0].tolist() for _ in range(2)]
    assert lists[0] == lists[1]
    assert len({tuple(parse(name).leave(rankings, 4, stream(n, "other"))[0].tolist()) for n in range(30)}) > 1
    assert (rankings == before).all()


def test_pairwise_lists_are_all_equally_likely() -> None:
    """What each position is chosen from depends on how many were chosen before, not on which."""
    found = all_lists(parse("PairwisePreference"), np.array([[0, 1, 2, 3], [2, 0, 3, 1]]), 4)
    assert np.ptp(found.chances) < EXACT


# Fidelity ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_rankers_that_rank_alike_are_preferred_equally_whatever_is_clicked(name: str) -> None:
    """By credit and by who wins; the current ranker's copy among others, where the method takes three."""
    multileaver = parse(name)

    @given(comparisons(name), st.sets(st.integers(0, 3)))
    @examples(name)
    def holds(comparison: Any, clicked: set[int]) -> None:
        rankings, length = comparison
        rankings[-1] = rankings[0]
        found = all_lists(multileaver, rankings, length)
        lead = leads(found, multileaver, lambda ranking: np.isin(ranking, list(clicked)), len(rankings) - 1)
        found.expect_zero(lead)
        found.expect_zero(np.sign(lead))

    holds()


#: Methods that random clicks can mislead, and why; all others are held to the tests below.
BIASED = {
    "ContestedPairs": "test_contested_pairs_favour_the_ranker_against_a_document_that_is_always_shown_above",
    "Balanced": "test_balanced_prefers_the_ranking_whose_documents_are_nearer_to_its_rivals_top",
    "OptimizedMultileaving": "a few lists can rarely be mixed without bias: test_unbiased.py, test_more_lists_less_bias",
}
#: Methods that are fair where any position is clicked equally often, but not where the upper ones are clicked more.
POSITION_BIASED = {"SampleOnlyScored": "test_sample_only_scored_prefers_agreement_where_the_top_is_clicked_more"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BIASED | POSITION_BIASED])
def test_clicks_that_do_not_depend_on_the_documents_favour_nobody(name: str) -> None:
    """For every fixed set of clicked positions, hence for every mixture of them: any user who never looks at a document."""
    multileaver = parse(name)

    @given(comparisons(name), st.data())
    @examples(name)
    def holds(comparison: Any, data: Any) -> None:
        rankings, length = comparison
        found = all_lists(multileaver, rankings, length)
        clicks = data.draw(st.lists(st.booleans(), min_size=length, max_size=length))
        for one in range(1, len(rankings)):
            found.expect_zero(leads(found, multileaver, lambda _: clicks, one))

    holds()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BIASED])
def test_clicks_that_are_equally_likely_everywhere_favour_nobody(name: str) -> None:
    multileaver = parse(name)

    @given(comparisons(name), st.floats(0.05, 0.95))
    @examples(name)
    def holds(comparison: Any, chance: float) -> None:
        rankings, length = comparison
        found = all_lists(multileaver, rankings, length)
        for one in range(1, len(rankings)):
            total = np.zeros(len(found.impressions))
            for clicks in product([False, True], repeat=length):
                weight = chance ** sum(clicks) * (1 - chance) ** (length - sum(clicks))
                total += weight * leads(found, multileaver, lambda _, clicks=clicks: clicks, one)
            found.expect_zero(total)

    holds()


#: Methods that are fair not only in credit but in how often each wins, which is what a sign test of wins assumes.
FAIR_WINS = ["TeamDraft", "PairDraft"]


@pytest.mark.parametrize("name", FAIR_WINS)
def test_clicks_that_do_not_depend_on_the_documents_let_all_win_equally_often(name: str) -> None:
    multileaver = parse(name)

    @given(comparisons(name), st.data())
    @examples(name)
    def holds(comparison: Any, data: Any) -> None:
        rankings, length = comparison
        found = all_lists(multileaver, rankings, length)
        clicks = data.draw(st.lists(st.booleans(), min_size=length, max_size=length))
        for one in range(1, len(rankings)):
            found.expect_zero(np.sign(leads(found, multileaver, lambda _: clicks, one)))

    holds()


def wins_of_the_third(name: str, copies: tuple[int, int]) -> float:
    """How much more often the third ranker beats the first than it is beaten, if half of the users want 0 and half want 3.

    The second ranker is a copy of the first or of the third, each so many times of all.
    """
    one, other = [0, 1, 2, 3, 4, 5], [3, 5, 4, 0, 2, 1]
    multileaver, lead = parse(name), 0.0
    for second, weight in zip((one, other), copies, strict=True):
        found = all_lists(multileaver, np.array([one, second, other]), 3)
        for wanted in (0, 3):
            gains = [(each.ranking == wanted).astype(float) for each in found.impressions]
            pairs = zip(found.impressions, gains, strict=True)
            signs = [np.sign(multileaver.preferences(each, given, UNUSED)[2, 0]) for each, given in pairs]
            lead += weight * 0.5 * float(found.chances @ signs)
    return lead / sum(copies)


@pytest.mark.parametrize("copies", [(1, 0), (0, 1), (9, 1)])
def test_a_copy_of_one_of_two_equal_rankers_changes_nothing_for_a_draft_of_pairs(copies: tuple[int, int]) -> None:
    assert wins_of_the_third("PairDraft", copies) == pytest.approx(0.0, abs=EXACT)


def test_a_team_draft_of_three_prefers_the_ranker_without_a_copy() -> None:
    """Two that return the same documents share the clicks on them, so each alone wins less often than the third."""
    assert wins_of_the_third("TeamDraft", (1, 0)) > 0.1
    assert wins_of_the_third("TeamDraft", (0, 1)) < -0.1


def test_others_fill_a_list_of_two_that_have_nothing_left_and_get_nothing_for_that() -> None:
    multileaver, rankings = parse("PairDraft"), np.array([[0, -1, -1, -1], [1, 0, -1, -1], [3, 2, 1, 0]])
    seen = set()
    for number in range(40):
        ranking, trace = multileaver.leave(rankings, 4, stream(number, "filled"))
        pair = trace["pair"].tolist()
        returned = set(rankings[pair].ravel().tolist()) - {-1}
        assert sorted(ranking.tolist()) == [0, 1, 2, 3]
        assert set(ranking[: len(returned)].tolist()) == returned
        assert set(trace["teams"][len(returned) :].tolist()) <= {-1}
        preferences = multileaver.preferences(impression(rankings, ranking, trace), ranking == 2, UNUSED)
        assert preferences.any() == (2 in pair)
        seen.add(tuple(pair))
    assert seen == {(0, 1), (0, 2), (1, 2)}


@pytest.mark.parametrize(
    ("name", "other", "clicks"),
    [
        ("PairwisePreference", [1, 2, 0, 3], [False, False, True]),
        ("OptimizedInterleaving", [1, 2, 0], [False, True]),
        ("Probabilistic", [1, 2, 0], [False, True]),
    ],
)
def test_fair_credit_may_be_many_small_wins_against_few_large_ones(name: str, other: list[int], clicks: Any) -> None:
    multileaver = parse(name)
    found = all_lists(multileaver, np.array([sorted(other), other]), len(clicks))
    lead = leads(found, multileaver, lambda _: clicks, 1)
    found.expect_zero(lead)
    assert found.chances @ np.where(np.abs(lead) > EXACT, np.sign(lead), 0.0) > 0.2


def test_balanced_prefers_the_ranking_whose_documents_are_nearer_to_its_rivals_top() -> None:
    """The known counter-example: of one random click on (a, b, c) against (b, c, a), the second wins two of three."""
    multileaver = parse("Balanced")
    found = all_lists(multileaver, np.array([[0, 1, 2], [1, 2, 0]]), 3)
    wins = [found.chances @ np.sign(leads(found, multileaver, lambda _, p=p: np.arange(3) == p, 1)) for p in range(3)]
    assert np.mean(wins) == pytest.approx(2 / 3 - 1 / 3)


def test_contested_pairs_favour_the_ranker_against_a_document_that_is_always_shown_above() -> None:
    """Half of the rankers have 0 above 2, but all lists show it so, and a random click at the end then speaks for 2."""
    multileaver = parse("ContestedPairs")
    found = all_lists(multileaver, np.array([[0, 1, 2, 3], [1, 2, 0, 3]]), 3)
    lead = leads(found, multileaver, lambda _: np.array([False, False, True]), 1)
    above = [list(each.ranking).index(0) < list(each.ranking).index(2) for each in found.impressions]
    assert all(above)
    assert found.chances @ lead > 0.1


def test_contested_pairs_are_fair_where_two_documents_are_shown_as_often_as_rankers_have_them_so() -> None:
    """Two documents, any number of rankers on either side: the list is drawn as the rankers are, and no position is favoured."""
    multileaver = parse("ContestedPairs")
    for n_for in (1, 2, 3):
        rankings = np.array([[0, 1]] * n_for + [[1, 0]] * (4 - n_for))
        found = all_lists(multileaver, rankings, 2)
        for position in range(2):
            found.expect_zero(leads(found, multileaver, lambda _, p=position: np.arange(2) == p, 3))


def test_contested_pairs_count_nothing_where_all_rankers_agree() -> None:
    """The first two are undisputed, so a click on the first says nothing; the click on the third is against one ranker of three."""
    multileaver = parse("ContestedPairs")
    rankings = np.array([[0, 1, 2], [0, 1, 2], [0, 2, 1]])
    shown = impression(rankings, [0, 1, 2], multileaver.evidence(rankings, np.array([0, 1, 2])))
    assert multileaver.assign_credit(shown, np.array([1.0, 0.0, 0.0]), UNUSED).tolist() == [0.0] * 3
    np.testing.assert_allclose(multileaver.assign_credit(shown, np.array([0.0, 0.0, 1.0]), UNUSED), [0.0, 0.0, 1 / 3])


def test_sample_only_scored_prefers_agreement_where_the_top_is_clicked_more() -> None:
    """Two rankers that agree fill two thirds of the list's first positions, so the third loses clicks there."""
    multileaver = parse("SampleOnlyScored")
    found = all_lists(multileaver, np.array([[0, 1, 2], [0, 1, 2], [2, 1, 0]]), 3)
    assert found.chances @ leads(found, multileaver, lambda _: np.array([True, False, False]), 2) < -0.1


@pytest.mark.parametrize("scoring", ["linear", "inverse"])
def test_optimized_interleaving_is_exactly_unbiased_for_every_pair_of_short_rankings(scoring: str) -> None:
    multileaver = parse(f"OptimizedInterleaving(scoring={scoring!r})")
    for length in (1, 2, 3):
        for second in permutations(range(length + 2)):
            rankings = np.array([range(length + 2), second])
            found = all_lists(multileaver, rankings, length)
            assert found.chances.sum() == pytest.approx(1.0)
            for position in range(length):
                clicks = np.arange(length) == position
                found.expect_zero(leads(found, multileaver, lambda _, clicks=clicks: clicks, 1))


# Monotone ---------------------------------------------------------------------------------------------------------------------

#: Methods that may punish moving a clicked document up where several are clicked; for one click all are monotone.
NOT_MONOTONE = {
    "Balanced": "a document that is the lowest click shortens the top that counts when it moves up",
    "Probabilistic": "the clicked document that is overtaken loses more than the other gains",
}
#: Methods whose credit for a given list does not follow from the rankings: held to it on average over their lists.
OWNED = {"TeamDraft", "PairDraft"}


def moved(row: np.ndarray, old: int, new: int) -> np.ndarray:
    """The ranking after its document at one rank has moved up to another."""
    return np.insert(np.delete(row, old), new, row[old])


def lead_on(multileaver: Multileaver, shown: Impression, rankings: np.ndarray, clicks: np.ndarray) -> float:
    """By how much ranker 1 leads ranker 0 on a list that was shown, had the rankings been these."""
    ranks = reference("multileaving", "shown_ranks")(rankings, shown.ranking)
    sizes = np.full(len(rankings), rankings.shape[1])
    credit = multileaver.assign_credit(
        Impression(shown.query, shown.ranking, {**shown.trace, "ranks": ranks, "sizes": sizes}), clicks, UNUSED
    )
    return float(credit[1] - credit[0])


@pytest.mark.parametrize(
    ("name", "several"),
    [(n, several) for n in NAMES if n not in OWNED for several in (False, True) if not (several and n in NOT_MONOTONE)],
)
def test_a_ranker_that_moves_a_clicked_document_up_is_never_worse_off(name: str, several: bool) -> None:
    """For a given list, its clicks, and what else the trace holds of how it was made. Only the one ranking changes."""
    multileaver = parse(name)

    @given(comparisons(name, n=5), st.integers(0, 1000), st.data())
    def holds(comparison: Any, number: int, data: Any) -> None:
        rankings, _ = comparison
        shown = impression(rankings, *multileaver.leave(rankings, 5, stream(0, "moved", number)))
        old = data.draw(st.integers(1, 4))
        better = rankings.copy()
        better[1] = moved(rankings[1], old, data.draw(st.integers(0, old - 1)))
        clicks = shown.ranking == rankings[1, old]
        if several:
            clicks = clicks | data.draw(st.lists(st.booleans(), min_size=5, max_size=5).map(np.array))
        before, after = (lead_on(multileaver, shown, table, clicks) for table in (rankings, better))
        assert after >= before - EXACT

    holds()


@pytest.mark.parametrize("name", sorted(OWNED))
def test_on_average_a_ranker_that_moves_the_clicked_document_up_is_never_worse_off(name: str) -> None:
    """For a user who clicks one document wherever it is shown, over all lists. A single list may punish it: see below."""
    multileaver = parse(name)

    @given(comparisons(name), st.data())
    @examples(name)
    def holds(comparison: Any, data: Any) -> None:
        rankings, length = comparison
        old = data.draw(st.integers(1, 3))
        better = rankings.copy()
        better[1] = moved(rankings[1], old, data.draw(st.integers(0, old - 1)))
        lead = []
        for table in (rankings, better):
            found = all_lists(multileaver, table, length)
            lead.append(found.chances @ leads(found, multileaver, lambda r: r == rankings[1, old], 1))
        assert lead[1] >= lead[0] - EXACT

    holds()


def test_team_draft_may_punish_on_a_single_list() -> None:
    """Three agree on (x, d): no ranker owns d. One puts d first, and then another may own it."""
    multileaver = parse("TeamDraft")
    found = all_lists(multileaver, np.array([[0, 1, 2], [1, 0, 2], [0, 1, 2]]), 3)
    assert min(leads(found, multileaver, lambda ranking: ranking == 1, 1)) == -1.0


@pytest.mark.parametrize(
    ("name", "current", "candidate", "better", "shown"),
    [
        ("Balanced", [0, 2, 1], [0, 1, 2], [1, 0, 2], [0, 1, 2]),
        ("Probabilistic", [0, 1, 2], [0, 1, 2], [1, 0, 2], [0, 1, 2]),
    ],
)
def test_those_that_are_not_monotone_punish_a_clicked_document_that_moves_over_another(
    name: str, current: list[int], candidate: list[int], better: list[int], shown: list[int]
) -> None:
    multileaver, clicks = parse(name), np.array([True, True, False])
    lists = [
        lead_on(multileaver, impression(np.array([current]), shown, {}), np.array([current, row]), clicks)
        for row in (candidate, better)
    ]
    assert lists[1] < lists[0]
    assert set(NOT_MONOTONE) == {"Balanced", "Probabilistic"}


def test_pairwise_preference_may_lose_a_pair_where_a_move_changes_what_could_be_shown() -> None:
    """The same list, the same click on 3, but 1, 2 and 3 could come earlier: one pair more counts, and it contradicts."""
    multileaver, current, shown = parse("PairwisePreference"), [1, 2, 3, 0], [1, 0, 2, 3]
    lead = []
    for candidate in ([0, 1, 2, 3], [0, 3, 1, 2]):
        rankings = np.array([current, candidate])
        (found,) = (x for x in all_lists(multileaver, rankings, 4).impressions if x.ranking.tolist() == shown)
        credit = multileaver.assign_credit(found, np.array([False, False, False, True]), UNUSED)
        lead.append(credit[1] - credit[0])
    assert lead[1] < lead[0]


# Rankers that return some of the documents only --------------------------------------------------------------------------------

PARTIAL = [*NAMES, "Probabilistic(credit='sampled', samples=50)", "OptimizedInterleaving(scoring='linear')"]


@st.composite
def partial_comparisons(draw: Any, name: str, n: int = 5) -> tuple[np.ndarray, int]:
    """Rankings whose rows end in −1 where a ranker returned fewer documents; each document is returned by some ranker."""
    most = parse(name).most_rankers or 3
    rows = [
        row[: draw(st.integers(0, n))] for row in draw(st.lists(st.permutations(range(n)), min_size=2, max_size=most))
    ]
    known = sorted({document for row in rows for document in row})
    if not known:
        rows[0], known = [0], [0]
    rankings = np.full((len(rows), len(known)), -1, np.int64)
    for row, given_row in zip(rankings, rows, strict=True):
        row[: len(given_row)] = [known.index(document) for document in given_row]
    return rankings, draw(st.integers(1, len(known)))


@pytest.mark.parametrize("name", PARTIAL)
def test_the_others_fill_a_list_where_a_ranker_has_nothing_left(name: str) -> None:
    multileaver = parse(name)

    @given(partial_comparisons(name), st.integers(0, 1000))
    @settings(max_examples=60)
    def holds(comparison: Any, number: int) -> None:
        rankings, length = comparison
        ranking = multileaver.leave(rankings, length, stream(0, "partial", number))[0].tolist()
        assert len(ranking) == len(set(ranking)) == length
        assert set(ranking) <= set(range(rankings.shape[1]))

    holds()


@pytest.mark.parametrize("name", PARTIAL)
def test_one_that_returned_none_of_the_clicked_documents_beats_nobody(name: str) -> None:
    multileaver = parse(name)

    @given(partial_comparisons(name), st.integers(0, 1000), st.data())
    @settings(max_examples=100)
    def holds(comparison: Any, number: int, data: Any) -> None:
        rankings, length = comparison
        shown = impression(rankings, *multileaver.leave(rankings, length, stream(0, "partial", number)))
        one = data.draw(st.integers(0, len(rankings) - 1))
        foreign = ~np.isin(shown.ranking, rankings[one])
        clicks = foreign & np.array(data.draw(st.lists(st.booleans(), min_size=length, max_size=length)))
        preferences = multileaver.preferences(shown, clicks, stream(1, "credit"))
        assert (preferences[one] <= EXACT).all()
        credit = multileaver.assign_credit(shown, clicks, stream(1, "credit"))
        rivals = (
            [0] if name == "PairDraft" else range(len(credit))
        )  # it has no credit for pairs without the current ranker
        assert (credit[one] <= credit[rivals] + EXACT).all()

    holds()


@pytest.mark.parametrize("name", PARTIAL)
def test_the_one_that_returned_the_clicked_document_can_win(name: str) -> None:
    """With (0, 1) against (1, 2) and clicks on 2 only the second may win, and it does on some lists."""
    multileaver, rankings, leads = parse(name), np.array([[0, 1, -1], [1, 2, -1]]), []
    for number in range(40):
        shown = impression(rankings, *multileaver.leave(rankings, 3, stream(number, "partial")))
        leads.append(multileaver.preferences(shown, shown.ranking == 2, stream(number, "credit"))[1, 0])
    assert min(leads) >= 0.0
    assert max(leads) > 0.0


# Inside an algorithm ----------------------------------------------------------------------------------------------------------

SLOW = {"check_learns_from_easy_clicks", "check_every_parameter_matters", "check_memory_is_bounded"}


@pytest.mark.parametrize("check", [c for c in CHECKS if c.__name__ not in SLOW], ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_an_algorithm_with_it_keeps_the_conventions(name: str, check: Any) -> None:
    check(parse(f"{'dbgd' if parse(name).most_rankers == 2 else 'mgd'}(multileaver={name}())"))


@pytest.mark.parametrize("name", NAMES)
def test_each_of_its_parameters_matters(name: str) -> None:
    """On lists of 8: on shorter ones any τ > 0 orders the same clicks alike in sample-only scored multileaving."""

    def weights(multileaver: Multileaver) -> np.ndarray:
        recipe = parse(f"{'dbgd' if multileaver.most_rankers == 2 else 'mgd'}(multileaver={multileaver!r})")
        return play(recipe, 80, learner=Learner(recipe, tiny_split().n_features, length=8)).weights

    base = weights(parse(name))
    for path, others in variations(parse(name)):
        assert any(not np.allclose(weights(other), base) for other in others), path


@pytest.mark.parametrize("name", [name for name in NAMES if parse(name).most_rankers])
def test_too_many_rankers_are_refused_with_what_to_use_instead(name: str) -> None:
    with pytest.raises(InvalidRecipe, match=r"compares 2 rankers .* got 10; for more use .*PairwisePreference"):
        play(parse(f"mgd(multileaver={name}())"), 1)


def test_too_long_a_list_for_all_possible_ones_is_refused() -> None:
    with pytest.raises(InvalidValue, match="use OptimizedMultileaving"):
        parse("OptimizedInterleaving").leave(np.array([range(20), range(20)]), 13, stream(0, "long"))
