"""Click models: clicks follow the probabilities that the papers' generative stories give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank import parse
from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.randomness import stream
from duelrank.kernels.random import uniform
from duelrank.users import DBN, DCM, PBM, UBM, Cascade, ClickModel, Preset

ALPHA = 1e-4
MODELS = [PBM, DCM, DBN, UBM]
LIKE = Cascade((0.3, 0.5, 0.8), (0.2, 0.4, 0.7))
LISTS = [[0], [2, 0], [0, 1, 2], [2, 2, 1, 0], [1, 1, 1, 1]]

Outcome = tuple[tuple[bool, ...], int | None]
Story = Iterator[tuple[Outcome, float]]


def grades(values) -> np.ndarray:
    return np.array(values, np.int8)


def coins(*chances: float) -> Iterator[tuple[tuple[bool, ...], float]]:
    """All ways in which coins with these chances can fall, with their probabilities."""
    for fallen in product((True, False), repeat=len(chances)):
        yield fallen, float(np.prod([p if heads else 1 - p for heads, p in zip(fallen, chances, strict=True)]))


def position_based(user: PBM, labels) -> Story:
    """A coin of examination and one of attraction per position, all independent."""
    n = len(labels)
    examination = [1 / rank**user.decay for rank in range(1, n + 1)]
    attraction = [LIKE.click_probability[label] for label in labels]
    for fallen, chance in coins(*examination, *attraction):
        yield (tuple(fallen[i] and fallen[n + i] for i in range(n)), None), chance


def browsing(user: UBM, labels) -> Story:
    """As above, but each examination depends on the clicks above."""

    def go_on(clicks: tuple[bool, ...], chance: float) -> Story:
        rank = len(clicks) + 1
        if rank > len(labels):
            yield (clicks, None), chance
            return
        distances = [rank - i for i, clicked in enumerate(clicks, start=1) if clicked]
        gamma = ((rank - min(distances) + 1) / rank) ** user.decay_clicked if distances else rank**-user.decay
        for (examined, attracted), p in coins(gamma, LIKE.click_probability[labels[rank - 1]]):
            yield from go_on((*clicks, examined and attracted), chance * p)

    yield from go_on((), 1.0)


def dependent(user: DCM, labels) -> Story:
    """A coin of attraction and one of continuation per position; the second only counts after a click."""
    n = len(labels)
    going_on = [user.continuation[min(i, len(user.continuation) - 1)] for i in range(n)]
    for fallen, chance in coins(*(LIKE.click_probability[label] for label in labels), *going_on):
        ends = [i + 1 for i in range(n) if fallen[i] and not fallen[n + i]]
        yield walked(fallen[:n], min(ends, default=n)), chance


def dynamic_bayesian(user: DBN, labels) -> Story:
    """Attraction, satisfaction and perseverance: three draws per position, two of which are hidden."""
    n = len(labels)
    attraction = [LIKE.click_probability[label] for label in labels]
    satisfaction = [LIKE.stop_probability[label] for label in labels]
    for fallen, chance in coins(*attraction, *satisfaction, *[user.perseverance] * n):
        clicked, satisfied, perseveres = fallen[:n], fallen[n : 2 * n], fallen[2 * n :]
        ends = [i + 1 for i in range(n) if (clicked[i] and satisfied[i]) or not perseveres[i]]
        yield walked(clicked, min(ends, default=n)), chance


def walked(clicks, examined: int) -> Outcome:
    return (*clicks[:examined], *[False] * (len(clicks) - examined)), examined


def distribution(story: Story) -> dict[Outcome, float]:
    found: Counter = Counter()
    for outcome, chance in story:
        found[outcome] += chance
    return {outcome: chance for outcome, chance in found.items() if chance > 0}


USERS = {
    "pbm": (PBM(LIKE), position_based),
    "pbm, gentle": (PBM(LIKE, decay=0.3), position_based),
    "ubm": (UBM(LIKE), browsing),
    "ubm, far from its defaults": (UBM(LIKE, decay=1.5, decay_clicked=0.2), browsing),
    "dcm": (DCM(LIKE, continuation=(0.9, 0.2, 0.6)), dependent),
    "dcm, one for all ranks": (DCM(LIKE, continuation=(0.5,)), dependent),
    "dbn": (DBN(LIKE, perseverance=0.7), dynamic_bayesian),
    "sdbn": (DBN(LIKE, perseverance=1.0), dynamic_bayesian),
}


class TestOutcomes:
    @pytest.mark.parametrize("labels", LISTS, ids=str)
    @pytest.mark.parametrize("name", USERS)
    def test_outcomes_follow_the_enumeration_of_all_coins(self, name, labels):
        (user, story), n = USERS[name], 20_000
        thrown = stream(1, "user")
        found: Counter = Counter()
        for _ in range(n):
            feedback = user.click(grades(labels), thrown)
            found[tuple(feedback.clicks.tolist()), feedback.examined] += 1
        expected = distribution(story(user, labels))
        assert sum(expected.values()) == pytest.approx(1.0)
        assert set(found) <= set(expected)
        # Outcomes with fewer than five expected are one: the statistic is about chi-squared only from there on.
        common = [key for key, p in expected.items() if n * p >= 5]
        observed, wanted = [found[key] for key in common], [n * expected[key] for key in common]
        if sum(wanted) < n - 1e-6:
            observed, wanted = [*observed, n - sum(observed)], [*wanted, n - sum(wanted)]
        if len(wanted) > 1:
            assert stats.chisquare(observed, wanted).pvalue > ALPHA

    @pytest.mark.parametrize("name", ["pbm", "ubm", "dcm", "dbn"])
    def test_click_rates_of_a_long_list(self, name):
        """P(click) at each of ten ranks, from the enumeration by rank: within 4 standard errors, √(p(1 − p)/n) each."""
        user, n = USERS[name][0], 40_000
        labels = [1, 0, 2, 0, 1, 2, 0, 0, 1, 2]
        thrown, clicks = stream(2, "user"), np.zeros(10)
        for _ in range(n):
            clicks += user.click(grades(labels), thrown).clicks
        expected = np.array(click_rates(user, labels))
        assert (np.abs(clicks / n - expected) < 4 * np.sqrt(expected * (1 - expected) / n)).all()


def click_rates(user: ClickModel, labels) -> list[float]:
    """P(click at rank r) by recursion over what the future depends on, not by enumeration of coins."""
    attraction = [LIKE.click_probability[label] for label in labels]
    satisfaction = [LIKE.stop_probability[label] for label in labels]
    if isinstance(user, PBM):
        return [a / rank**user.decay for rank, a in enumerate(attraction, start=1)]
    rates, seen, last = [], 1.0, {0: 1.0}  # P(rank is reached); P(last click above was at rank l)
    for rank, (a, s) in enumerate(zip(attraction, satisfaction, strict=True), start=1):
        if isinstance(user, UBM):
            gammas = {at: ((at + 1) / rank) ** (user.decay_clicked if at else user.decay) for at in last}
            rates.append(sum(p * gammas[at] * a for at, p in last.items()))
            last = {at: p * (1 - gammas[at] * a) for at, p in last.items()} | {rank: rates[-1]}
            continue
        rates.append(seen * a)
        if isinstance(user, DCM):
            seen *= a * user.continuation[min(rank, len(user.continuation)) - 1] + 1 - a
        else:
            seen *= user.perseverance * (1 - a * s)
    return rates


class TestSpecialCases:
    """What the models become at the ends of their parameters: the same clicks from the same coins, or the same rule."""

    @given(st.lists(st.integers(0, 2), max_size=10), st.integers(0, 1000))
    def test_a_dbn_of_full_perseverance_is_the_cascade_that_stops_after_clicks(self, labels, number):
        one, two = (stream(3, "user", number) for _ in range(2))
        textbook = Cascade(LIKE.click_probability, LIKE.stop_probability, stop_without_click=False)
        assert DBN(LIKE, 1.0).click(grades(labels), one) == textbook.click(grades(labels), two)

    @given(st.lists(st.integers(0, 2), max_size=10), st.integers(0, 1000))
    def test_a_dcm_of_one_continuation_is_a_cascade_of_one_stop_probability(self, labels, number):
        one, two = (stream(3, "user", number) for _ in range(2))
        like = Cascade(LIKE.click_probability, (0.25,) * 3, stop_without_click=False)
        assert DCM(LIKE, (0.75,)).click(grades(labels), one) == like.click(grades(labels), two)

    @given(st.lists(st.integers(0, 2), max_size=10), st.integers(0, 1000))
    def test_without_decay_every_position_is_examined(self, labels, number):
        one, two, three = (stream(3, "user", number) for _ in range(3))
        clicks = PBM(LIKE, 0.0).click(grades(labels), one).clicks
        assert np.array_equal(clicks, UBM(LIKE, 0.0, 0.0).click(grades(labels), two).clicks)
        assert clicks.tolist() == [uniform(three) < LIKE.click_probability[label] for label in labels]

    def test_a_dcm_user_leaves_after_a_click_and_nowhere_else(self):
        user = DCM(Cascade((0.0, 1.0), (0.0, 0.0)), continuation=(0.0,))
        assert user.click(grades([0, 0, 1, 1]), stream(0, "user")).examined == 3
        assert user.click(grades([0, 0, 0, 0]), stream(0, "user")).examined == 4

    @pytest.mark.parametrize("user", [PBM(LIKE), UBM(LIKE)], ids=repr)
    def test_examination_that_is_no_top_of_the_list_is_not_called_a_depth(self, user):
        assert user.click(grades([1, 2, 0]), stream(0, "user")).examined is None


class TestGrades:
    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("n_grades", [2, 3, 5])
    @pytest.mark.parametrize("behaviour", ["perfect", "navigational", "informational", "almost-random"])
    def test_probabilities_are_those_of_the_behaviour(self, model, n_grades, behaviour):
        user, like = model(Preset(behaviour)).for_grades(n_grades), Preset(behaviour).for_grades(n_grades)
        assert isinstance(user, model)
        assert user.attraction.tolist() == list(like.click_probability)
        assert user.satisfaction.tolist() == list(like.stop_probability)
        assert user.click(grades(range(n_grades)), stream(0, "user")).clicks.shape == (n_grades,)

    @pytest.mark.parametrize("model", MODELS)
    def test_other_numbers_of_grades_are_refused_with_what_is_possible(self, model):
        with pytest.raises(InvalidValue, match="2, 3, 5 grades, but the data has 4"):
            model().for_grades(4)
        with pytest.raises(InvalidValue, match="3 grades, but the data has 5"):
            model(LIKE).for_grades(5)

    @pytest.mark.parametrize("model", MODELS)
    def test_it_cannot_click_before_the_grades_are_known(self, model):
        with pytest.raises(InvalidValue, match=rf"{model.__name__}\(\).for_grades"):
            model().click(grades([1]), stream(0, "user"))

    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("label", [3, -1])
    def test_a_grade_without_a_probability_is_refused(self, model, label):
        with pytest.raises(InvalidValue, match="grades 0 to 2"):
            model(LIKE).click(grades([label]), stream(0, "user"))

    @pytest.mark.parametrize("model", MODELS)
    def test_an_empty_list_has_no_clicks(self, model):
        assert model(LIKE).click(grades([]), stream(0, "user")).clicks.size == 0

    @pytest.mark.parametrize("model", MODELS)
    def test_how_the_other_user_stops_does_not_matter(self, model):
        for number in range(50):
            one, two = (
                model(Preset("informational", rule)).for_grades(3).click(grades([0, 1, 2, 1]), stream(0, "u", number))
                for rule in (True, False)
            )
            assert one == two


class TestRecipes:
    @pytest.mark.parametrize("name", ["pbm", "dcm", "dbn", "ubm"])
    def test_short_names_take_a_behaviour(self, name):
        assert parse(f"{name}(behaviour='perfect')") == type(parse(name))(Preset("perfect"))
        assert parse(f"{name}(like=perfect)") == type(parse(name))(Preset("perfect"))

    @pytest.mark.parametrize("wrong", [{"continuation": ()}, {"continuation": (1.5,)}, {"continuation": 0.5}])
    def test_wrong_continuations(self, wrong):
        with pytest.raises(InvalidRecipe, match="continu"):
            DCM(**wrong)

    @pytest.mark.parametrize(
        "make",
        [lambda: PBM(decay=-1), lambda: UBM(decay_clicked=-1), lambda: DBN(perseverance=1.1), lambda: PBM(PBM())],
    )
    def test_wrong_parameters(self, make):
        with pytest.raises(InvalidRecipe, match="must be"):
            make()
