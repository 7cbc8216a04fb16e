"""Which parameters a search varies and in which ranges; one number for reward and validation quality."""

import re

import numpy as np
import pytest

from duelrank import parse
from duelrank.core.errors import DuelrankError, InvalidRecipe, InvalidValue, UnknownName
from duelrank.core.registry import Between
from duelrank.experiments.tuning import Objective, search_space, with_values

RIVALS = ("pdgd", "mgd-dsp", "nsgd-dsp", "wmgd", "wmgd-dsp", "wmgd-dsp-curves", "pairrank", "log-pairs", "dbgd")

PERFECT, NOISY = ("mq2007", "perfect"), ("mq2007", "informational")
REFERENCE = {PERFECT: np.array([[800.0, 0.5], [1200.0, 0.5]]), NOISY: np.array([[100.0, 0.2], [300.0, 0.6]])}


def space(recipe, *vary, fix=()):
    return {each.name: each for each in search_space(parse(recipe), vary, fix)}


class TestDeclaredRanges:
    @pytest.mark.parametrize(
        ("recipe", "names"),
        [
            ("pdgd", {"learning_rate", "slow_down"}),
            ("pairrank", {"width", "regularisation", "beyond"}),
            ("dbgd", {"learning_rate", "slow_down", "delta", "tau"}),
            ("wmgd", {"learning_rate", "slow_down", "delta", "tau", "n_candidates"}),
            ("log-pairs", {"learning_rate", "slow_down", "attraction", "after_click"}),
        ],
    )
    def test_what_is_searched(self, recipe, names):
        assert set(space(recipe)) == names

    def test_a_projection_and_curves_add_theirs(self):
        added = set(space("wmgd-dsp")) - set(space("wmgd"))
        assert added == {"remembered", "strength", "ridge", "beyond"}
        assert set(space("wmgd-dsp-curves")) - set(space("wmgd-dsp")) == {"pieces", "bend"}

    def test_fields_without_effect_are_left_out(self):
        assert "n_low" not in space("nsgd-dsp")
        assert "n_low" in space("nsgd-dsp", "n_low")

    @pytest.mark.parametrize("recipe", RIVALS)
    def test_both_ends_of_every_range_can_be_made(self, recipe):
        known = parse(recipe)
        for each in search_space(known):
            for value in each.choices or (each.low, each.high):
                plain = int(value) if each.whole else value
                made = with_values(known, [each], {each.name: plain})
                assert search_space(made, [each.name])[0].start == value

    @pytest.mark.parametrize("recipe", RIVALS)
    def test_rates_span_at_least_two_decades(self, recipe):
        narrow = [each.name for each in search_space(parse(recipe)) if each.log and each.high / each.low < 30]
        assert narrow == []

    def test_the_recipes_own_value_is_always_within(self):
        assert space("pdgd(learning_rate=50)")["learning_rate"].high == 50
        assert space("mgd(n_candidates=7)")["n_candidates"].choices == (4, 7, 9, 19, 49)

    def test_none_stands_at_the_end_that_means_the_same(self):
        assert space("pdgd")["slow_down"].start == space("pdgd")["slow_down"].high
        assert space("mgd-dsp")["ridge"].start == space("mgd-dsp")["ridge"].low

    @pytest.mark.parametrize("wrong", [{"tuned": (0.5, 2.0)}, {"tuned": (0.5, 0.1)}, {"choices": (0.5, 3)}])
    def test_a_declared_range_outside_of_what_is_allowed_is_an_error(self, wrong):
        with pytest.raises(InvalidRecipe, match="cannot be searched"):
            Between(0.0, 1.0, **wrong)


class TestNamedRanges:
    def test_only_the_named_ones_are_searched(self):
        found = space("mgd-dsp", "learning_rate=0.01:1:log", "beyond=0:5", "delta")
        assert {name: str(each) for name, each in found.items()} == {
            "learning_rate": "from 0.01 to 1, by factors",
            "beyond": "from 0 to 5",
            "delta": "from 0.1 to 10, by factors",
        }
        assert found["beyond"].whole
        assert not found["delta"].whole

    def test_choices(self):
        found = space("mgd-dsp", "n_candidates=9,49", "rescale=unit,preserve", "slow_down=None,100", "unit")
        assert [each.choices for each in found.values()] == [
            (9, 49),
            ("unit", "preserve"),
            (None, 100.0),
            (False, True),
        ]
        assert [each.start for each in found.values()] == [9, "unit", None, False]

    def test_fixed_ones_stay(self):
        assert set(space("wmgd", fix=["n_candidates", "tau"])) == {"learning_rate", "slow_down", "delta"}

    def test_a_name_that_occurs_twice_needs_its_path(self):
        recipe = "Projected(base=pairrank, projection=DocumentSpace())"
        with pytest.raises(InvalidValue, match=re.escape("base.examination.beyond, projection.examination.beyond")):
            space(recipe, "beyond")
        found = space(recipe, "base.examination.beyond")
        assert list(found) == ["base.examination.beyond"]
        changed = with_values(parse(recipe), tuple(found.values()), {"base.examination.beyond": 7})
        assert (changed.base.examination.beyond, changed.projection.examination.beyond) == (7, 3)
        assert {"base.examination.beyond", "projection.examination.beyond", "width"} <= set(space(recipe))

    @pytest.mark.parametrize(
        ("vary", "message"),
        [
            ("learning_rat", "did you mean learning_rate"),
            ("decay", "decay has no declared range: give one, --vary decay=LOW:HIGH"),
            ("decay=0.5:2", "Step.decay must be a number from 0 to 1"),
            ("learning_rate=1:0.1", "must ascend"),
            ("learning_rate=0:1:log", "must ascend from above 0"),
            ("learning_rate=0.1:fast", "must be LOW:HIGH or LOW:HIGH:log with numbers"),
            ("beyond=0.5:3", "with whole numbers"),
            ("rescale=half", "must be 'none' or 'unit' or 'preserve'"),
        ],
    )
    def test_errors_say_what_to_do(self, vary, message):
        with pytest.raises(DuelrankError, match=re.escape(message)):
            space("mgd-dsp", vary)

    def test_unknown_names_of_fixed_ones(self):
        with pytest.raises(UnknownName, match="did you mean delta"):
            space("mgd", fix=["delt"])

    def test_nothing_to_search(self):
        with pytest.raises(InvalidValue, match=r"nothing to search: cascade-ucb1 has no parameter .* --vary"):
            space("cascade-ucb1")


class TestValues:
    def test_the_text_of_a_recipe_stays_short(self):
        known = parse("mgd-dsp")
        found = search_space(known, ["learning_rate", "strength"])
        changed = with_values(known, found, {"learning_rate": 0.0123456789, "strength": 0.123456789})
        assert changed == parse("mgd-dsp(learning_rate=0.01235, strength=0.1235)")

    def test_the_start_is_the_recipe_to_the_bit(self):
        known = parse("dbgd(learning_rate=0.0123456789, slow_down=77.7777777)")
        found = search_space(known)
        assert with_values(known, found, {each.name: each.start for each in found}) == known

    def test_rounding_never_leaves_a_range(self):
        (each,) = search_space(parse("dbgd"), ["decay=0.99995:0.9999977"])
        assert each.rounded(0.99999769999) <= 0.9999977

    def test_two_values_of_one_part_change_together(self):
        known = parse("wmgd-dsp-curves")
        found = search_space(known, ["remembered", "strength", "pieces"])
        changed = with_values(known, found, {"remembered": 3, "strength": 0.5, "pieces": 8})
        assert changed == parse("wmgd-dsp-curves(remembered=3, strength=0.5, pieces=8)")


class TestObjective:
    def test_the_reference_has_one(self):
        found = Objective().scores(REFERENCE, REFERENCE)
        assert (found.value, found.reward, found.validation) == (1.0, 1.0, 1.0)
        assert (found.worst_reward, found.worst_validation) == pytest.approx(((0.8 + 0.5) / 2, (1.0 + 0.5) / 2))

    def test_cells_count_alike_whatever_their_scale(self):
        better = {PERFECT: REFERENCE[PERFECT] * 1.1, NOISY: REFERENCE[NOISY]}
        other = {PERFECT: REFERENCE[PERFECT], NOISY: REFERENCE[NOISY] * 1.1}
        assert Objective().scores(better, REFERENCE).value == pytest.approx(1.05)
        assert Objective().scores(other, REFERENCE).value == pytest.approx(1.05)

    @pytest.mark.parametrize(
        ("text", "value"),
        [("reward", 1.2), ("validation", 0.9), ("reward=1,validation=1", 1.05), ("reward=3, validation=1", 1.125)],
    )
    def test_weights(self, text, value):
        changed = {cell: runs * [1.2, 0.9] for cell, runs in REFERENCE.items()}
        assert Objective.parse(text).scores(changed, REFERENCE).value == pytest.approx(value)

    def test_the_worst_run_counts_beside_the_mean(self):
        steady = {PERFECT: np.array([[1000.0, 0.5]] * 2), NOISY: np.array([[200.0, 0.4]] * 2)}
        plain, careful = Objective.parse("reward"), Objective.parse("reward,worst=0.5")
        assert plain.scores(steady, REFERENCE).value == plain.scores(REFERENCE, REFERENCE).value
        assert careful.scores(steady, REFERENCE).value == pytest.approx(1.0)
        assert careful.scores(REFERENCE, REFERENCE).value == pytest.approx((1.0 + 0.5 * 0.65) / 1.5)

    @pytest.mark.parametrize(
        ("text", "value", "floor"),
        [
            # a: users 1.1 and 0.9, mean 1.0; b: users 0.7 and 0.9, mean 0.8; c: 1.2 and 1.2
            ("reward", (1.0 + 0.8 + 1.2) / 3, 0.8),
            ("reward, floor", ((1.0 + 0.8 + 1.2) / 3 + 0.8) / 2, 0.8),
            ("reward, floor=3", ((1.0 + 0.8 + 1.2) / 3 + 3 * 0.8) / 4, 0.8),
            # validation: a 1.0, b 1.4 and c 0.6, so that c is the worst of both measures together: 0.9
            ("reward, validation, floor", ((1.0 + 1.1 + 0.9) / 3 + 0.9) / 2, 0.9),
            # the worst runs have 0.1 less reward
            ("reward, worst, floor", ((0.95 + 0.75 + 1.15) / 3 + 0.75) / 2, 0.75),
        ],
    )
    def test_the_worst_data_set_counts_beside_the_mean(self, text, value, floor):
        relative = {"a": ((1.1, 0.9), 1.0), "b": ((0.7, 0.9), 1.4), "c": ((1.2, 1.2), 0.6)}
        cells = {(name, user): i for name in relative for i, user in enumerate(("perfect", "noisy"))}
        before = {cell: np.array([[50.0, 0.5], [50.0, 0.5]]) for cell in cells}
        after = {
            (name, user): np.array(
                [[50.0 * (relative[name][0][i] + change), 0.5 * relative[name][1]] for change in (-0.1, 0.1)]
            )
            for (name, user), i in cells.items()
        }
        found = Objective.parse(text).scores(after, before)
        assert (found.value, found.floor) == pytest.approx((value, floor))

    @pytest.mark.parametrize("text", ["worst=1", "floor=1", "reward=-1", "reward=nan", "reward=inf", ""])
    def test_weights_that_say_nothing_are_refused(self, text):
        with pytest.raises(InvalidValue, match=f"reward or validation counts; got {text or 'none'}$"):
            Objective.parse(text)

    def test_errors_of_the_text(self):
        with pytest.raises(UnknownName, match="did you mean reward"):
            Objective.parse("rewards=1")
        with pytest.raises(InvalidValue, match="the weight of reward must be a number"):
            Objective.parse("reward=much")

    def test_a_reference_that_earns_nothing_is_refused(self):
        nothing = {PERFECT: np.zeros((2, 2))}
        with pytest.raises(InvalidValue, match="earns nothing on mq2007 with the user perfect"):
            Objective().scores(REFERENCE, nothing)
