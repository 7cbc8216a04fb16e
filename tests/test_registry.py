"""Names, recipes and the grammar: parsing, printing, and that no text is ever executed."""

from __future__ import annotations

import builtins
import os
import pickle
import string
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Annotated, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.algorithms import DBGD, MGD, NSGD, Algorithm, Projected
from duelrank.core import registry
from duelrank.core.errors import DuelrankError, InvalidRecipe, UnknownName
from duelrank.core.grammar import MAX_LENGTH, listed, parse
from duelrank.core.registry import (
    Between,
    Collection,
    Part,
    alias,
    aliases,
    canonical,
    classes,
    forget,
    names,
    register,
    replaced_at,
    source,
    spell,
    spelling_once,
    walk,
)
from duelrank.datasets import Dataset
from duelrank.exploration import UniformSphere
from duelrank.inference import MeanWinner
from duelrank.metrics import ERR, Metric, P, nDCG
from duelrank.multileaving import Probabilistic, TeamDraft
from duelrank.projection import DocumentSpace, LastClick, Observed, WholeList
from duelrank.updates import Step
from duelrank.users import Cascade, Preset, User

RECIPES = [
    MGD(),
    MGD(exploration=UniformSphere(n_candidates=49)),
    MGD(multileaver=TeamDraft(), step=Step(learning_rate=0.1, decay=0.5, slow_down=200)),
    DBGD(delta=0.5, initial="random"),
    NSGD(),
    Projected(MGD(), DocumentSpace(remembered=0, examination=LastClick(beyond=2))),
    Projected(NSGD(), DocumentSpace(examination=Observed(), tolerance=1e-9, basis="svd")),
    Projected(projection=DocumentSpace(strength=0.25, rescale="none", examination=WholeList())),
    Cascade((0.0, 1.0), (0.25, 0.5), stop_without_click=False),
    Cascade((0.5,), (0.5,)),
    Preset("almost-random"),
    nDCG(),
    nDCG(cutoff=10),
    nDCG(gain="linear"),
    nDCG(cutoff=3, gain="linear"),
    ERR(cutoff=5, max_grade=2),
    P(cutoff=1),
    MeanWinner(unit=True),
    Probabilistic(tau=1e-05),
]


# Braces are left out: an unhashable key or set item has its own test.
TOKENS = [
    *("mgd", "dsp", "nDCG", "Step", "delta", "1", "0.5", "'a'", "f'", "None", "True", "lambda", "for", "in", "if"),
    *("else", "-", "@", "(", ")", "[", "]", ",", "=", "*", "**", ".", " ", ":", "\\", "~"),
]


@dataclass(frozen=True, repr=False)
class Knob(Part):
    size: int = 1


@dataclass(frozen=True, repr=False)
class Machine(Part):
    left: Knob = Knob()
    right: Knob = Knob()


class TestReprIsTheIdentity:
    @pytest.mark.parametrize("part", RECIPES, ids=repr)
    def test_parsing_the_repr_gives_the_part_back(self, part):
        assert parse(repr(part)) == part
        assert hash(parse(repr(part))) == hash(part)

    @pytest.mark.parametrize("part", RECIPES, ids=repr)
    def test_parsing_the_shortest_spelling_gives_the_part_back(self, part):
        assert parse(spell(part)) == part
        assert len(spell(part)) <= len(repr(part))

    @given(
        st.floats(0.0, 1e6),
        st.floats(0.0, 1.0),
        st.none() | st.floats(1e-6, 1e300),
        st.integers(1, 1000),
        st.integers(0, 10_000),
        st.sampled_from(["none", "unit", "preserve"]),
    )
    def test_every_number_survives_the_text(self, rate, decay, slow_down, n, remembered, rescale):
        base = MGD(exploration=UniformSphere(n), step=Step(rate, decay, slow_down))
        recipe = Projected(base, DocumentSpace(remembered=remembered, rescale=rescale))
        for text in (repr(recipe), spell(recipe)):
            assert parse(text, Algorithm) == recipe
            assert eval_free(text)

    @pytest.mark.parametrize("number", [float("inf"), float("nan")])
    def test_a_number_without_a_spelling_is_refused(self, number):
        with pytest.raises(InvalidRecipe, match="must be a number at least"):
            Step(slow_down=number)

    def test_a_part_that_was_swapped_is_spelled_as_an_override(self):
        text = "mgd-dsp(n_candidates=49, examination=Observed())"
        assert spell(parse(text)) == text

    def test_only_what_differs_from_the_defaults_is_printed(self):
        assert repr(MGD()) == "MGD()"
        assert repr(MGD(delta=1.0)) == "MGD()"
        assert repr(MGD(delta=2)) == "MGD(delta=2.0)"
        assert repr(nDCG(cutoff=10)) == "nDCG@10"
        assert repr(nDCG(cutoff=10, gain="linear")) == "nDCG(gain='linear')@10"

    @pytest.mark.parametrize("part", RECIPES, ids=repr)
    def test_a_part_pickles_and_cannot_be_changed(self, part):
        assert pickle.loads(pickle.dumps(part)) == part
        with pytest.raises(FrozenInstanceError):
            part.anything = 1

    def test_spelling_uses_aliases_with_overrides(self):
        assert spell(MGD()) == "mgd"
        assert spell(Projected(MGD(exploration=UniformSphere(49)))) == "mgd-dsp(n_candidates=49)"
        assert spell(Preset("perfect")) == "perfect"
        assert spell(TeamDraft()) == "TeamDraft()"

    def test_a_part_of_another_class_is_spelled_out(self):
        recipe = MGD(multileaver=TeamDraft(), inference=MeanWinner(unit=True))
        assert parse(spell(recipe)) == recipe


def eval_free(text: str) -> bool:
    """Whether a text is one flat line of printable characters, fit for a command line and a table."""
    return text.isprintable() and "\n" not in text


class TestGrammar:
    @pytest.mark.parametrize(
        ("text", "part"),
        [
            ("mgd", MGD()),
            ("  mgd\n", MGD()),
            ("mgd()", MGD()),
            ("MGD", MGD()),
            ("mgd-dsp", Projected(MGD())),
            ("mgd-dsp(n_candidates=49, beyond=2)", None),
            ("Projected(MGD)", Projected(MGD())),
            ("Projected(mgd, DocumentSpace(Observed))", Projected(MGD(), DocumentSpace(Observed()))),
            ("mgd(exploration=UniformSphere(7))", MGD(exploration=UniformSphere(7))),
            ("almost-random", Preset("almost-random")),
            ("almost-random(stop_without_click=False)", Preset("almost-random", False)),
            ("Cascade([0, 1], (0.5, .5))", Cascade((0.0, 1.0), (0.5, 0.5))),
            ("nDCG@10", nDCG(cutoff=10)),
            ("nDCG @ 10", nDCG(cutoff=10)),
            ("nDCG(gain='linear')@3", nDCG(cutoff=3, gain="linear")),
            ("mgd(tau=1e-1)", MGD(multileaver=Probabilistic(0.1))),
        ],
    )
    def test_what_it_reads(self, text, part):
        if part is None:
            part = Projected(MGD(exploration=UniformSphere(49)), DocumentSpace(LastClick(2)))
        assert parse(text) == part

    def test_a_metric_is_cut_by_at_in_python_as_in_text(self):
        assert nDCG @ 10 == parse("nDCG@10") == nDCG() @ 10

    def test_an_integer_becomes_a_float_where_one_is_wanted(self):
        assert type(parse("mgd(delta=2)").delta) is float

    ATTACKS: ClassVar = [
        "__import__('os').system('echo pwned')",
        "__import__('os')",
        "lambda: mgd",
        "(lambda: mgd)()",
        "mgd.__class__",
        "mgd().__class__.__mro__",
        "mgd.step(learning_rate=1)",
        "[mgd for mgd in (1, 2)]",
        "{n: n for n in (1,)}",
        "(n for n in ())",
        "f'{mgd}'",
        "f'{__import__(\"os\")}'",
        "mgd(delta=f'{1}')",
        "mgd if True else mgd",
        "mgd and mgd",
        "not mgd",
        "mgd < mgd",
        "mgd + mgd",
        "mgd * 3",
        "-mgd",
        "mgd[0]",
        "mgd(delta=2**3)",
        "mgd(delta=1 if 1 else 2)",
        "(x := mgd)",
        "await mgd",
        "yield",
        "mgd; mgd",
        "mgd\nmgd",
        "import os",
        "mgd(*[1])",
        "mgd(*args)",
        "mgd(**{'delta': 1})",
        "mgd(**kwargs)",
        "MGD(*(), **{})",
        "mgd(delta=1, delta=2)",
        "UniformSphere(3, n_candidates=4)",
        "mgd(1)",
        "mgd\0",
        "\0",
        "mgd\0()",
        "mgd(initial='zero\0')",
        "\ud800",
        "mgd(initial='\ud800')",
        "мgd",  # a Cyrillic letter
        "ｍｇd(delta＝1)",  # full-width letters and equals sign
        "mgd–dsp",  # an en dash
        "mgd−dsp",  # a minus sign
        "mgd‐dsp",  # a Unicode hyphen
        "mgd\u200b",  # a zero-width space
        "\u202emgd",  # right-to-left override
        "'mgd'",
        "b'mgd'",
        "1",
        "1.5e3",
        "1_0",
        "None",
        "True",
        "...",
        "()",
        "(mgd,)",
        "[mgd]",
        "{'a': 1}",
        "{1, 2}",
        "",
        "   ",
        "\t\n",
        "(",
        ")",
        "mgd(",
        "mgd)",
        "mgd(delta=)",
        "mgd(=1)",
        "nDCG@",
        "@10",
        "10@nDCG",
        "10@10",
        "nDCG@nDCG",
        "nDCG@-1",
        "nDCG@0",
        "nDCG@1.5",
        "nDCG@True",
        "mgd@10",
        "TeamDraft(1)",
        "RunSpec()",
        "mgd(step=mgd)",
        "mgd(step=Step)(1)",
        "print(1)",
        "exit",
        "open('/etc/passwd')",
        "Part",
        "Part()",
        "Algorithm()",
        "DuelingBandit",
        "object",
        "type",
        "_MISFIT",
        "-" * (MAX_LENGTH - 1) + "1",
        "~" * (MAX_LENGTH - 1) + "1",
        "not " * (MAX_LENGTH // 4 - 1) + "1",
        "(" * 1500 + "mgd" + ")" * 1500,
        "(" * 150 + "1" + ")" * 150,
        "[" * 1900 + "]" * 1900,
        "[" * 90 + "]" * 90,
        "mgd(step=" * 300 + ")" * 300,
        "mgd(step=" * 50 + "1" + ")" * 50,
        "a-" * 1900 + "b",
        "a@" * 1900 + "b",
        "a." * 1900 + "b",
        "1+" * 1900 + "1",
        "x" * MAX_LENGTH,
        "x" * (MAX_LENGTH + 1),
        "mgd(n_candidates=" + "9" * 3900 + ")",
    ]

    @pytest.mark.parametrize("text", ATTACKS, ids=lambda text: ascii(text)[:40])
    def test_everything_else_is_refused_with_an_error_of_ours(self, text):
        with pytest.raises((InvalidRecipe, UnknownName)):
            parse(text)

    @pytest.mark.parametrize("text", ["{[]: 1}", "{[1]}", "mgd(delta={[]: 1})", "mgd(delta={{}})"])
    def test_unhashable_literals_are_refused_with_an_error_of_ours(self, text):
        with pytest.raises(InvalidRecipe):
            parse(text)

    @pytest.mark.parametrize("text", [f"Step(learning_rate={10**400})", f"Step(decay=-{10**400})"], ids=["up", "down"])
    def test_whole_numbers_beyond_floats_are_refused_with_an_error_of_ours(self, text):
        with pytest.raises(InvalidRecipe):
            parse(text)

    def test_full_width_letters_are_no_name(self):
        with pytest.raises(DuelrankError):
            parse("ｍｇｄ")

    def test_ten_megabytes_are_refused_before_they_are_read(self):
        with pytest.raises(InvalidRecipe, match=f"at most {MAX_LENGTH} characters, got {10**7}") as caught:
            parse("(" * 10**7)
        assert len(str(caught.value)) < MAX_LENGTH

    @pytest.mark.parametrize("given", [None, 3, b"mgd", MGD(), ["mgd"]])
    def test_what_is_no_text_is_refused(self, given):
        with pytest.raises(InvalidRecipe, match="a recipe must be a string"):
            parse(given)

    def test_nothing_is_ever_executed(self, monkeypatch, tmp_path):
        def executed(*args, **kwargs):
            raise AssertionError("executed")

        for place, name in ((builtins, "eval"), (builtins, "exec"), (os, "system"), (os, "mkdir")):
            monkeypatch.setattr(place, name, executed)
        target = tmp_path / "made"
        for text in (f"__import__('os').mkdir({str(target)!r})", f"open({str(target)!r}, 'w')", "os.system('true')"):
            with pytest.raises(DuelrankError):
                parse(text)
        assert not target.exists()

    @given(st.text(max_size=60))
    def test_any_text_parses_or_fails_with_an_error_of_ours(self, text):
        self.parses_or_fails(text)

    @given(st.lists(st.sampled_from(TOKENS), max_size=14))
    def test_any_soup_of_tokens_parses_or_fails_with_an_error_of_ours(self, tokens):
        self.parses_or_fails("".join(tokens))

    @staticmethod
    def parses_or_fails(text):
        try:
            part = parse(text)
        except (InvalidRecipe, UnknownName):
            return
        assert parse(repr(part)) == part

    @given(st.sampled_from(RECIPES), st.integers(0, 200), st.sampled_from(string.printable))
    def test_a_recipe_with_one_wrong_character_parses_or_fails_with_an_error_of_ours(self, part, where, character):
        text = repr(part)
        where %= len(text)
        self.parses_or_fails(text[:where] + character + text[where + 1 :])


class TestMessages:
    @pytest.mark.parametrize(
        ("near", "meant"), [("mdg", "mgd"), ("mgd-dps", "mgd-dsp"), ("navigation", "navigational")]
    )
    def test_a_near_miss_among_many_names_is_only_suggested(self, near, meant):
        with pytest.raises(UnknownName, match=f"did you mean .*{meant}") as caught:
            parse(near)
        assert str(caught.value).endswith("?")

    def test_a_near_miss_among_few_names_is_suggested_and_all_are_listed(self):
        with pytest.raises(UnknownName, match=r"did you mean MRR\? known: ERR, MAP, MRR, P, nDCG$"):
            parse("MRB", Metric)

    def test_a_far_miss_gets_the_list_without_a_suggestion(self):
        with pytest.raises(UnknownName, match="known: ") as caught:
            parse("qqqqqqqq")
        assert "did you mean" not in str(caught.value)

    def test_a_class_name_in_the_wrong_case_is_suggested(self):
        with pytest.raises(UnknownName, match=r"did you mean .*TeamDraft"):
            parse("teamdraft")

    def test_the_wrong_kind_lists_the_right_ones(self):
        with pytest.raises(InvalidRecipe, match=r"is an? user, but an algorithm is required") as caught:
            parse("perfect", Algorithm)
        assert all(name in str(caught.value) for name in names(Algorithm))

    def test_an_unknown_override_lists_the_possible_ones_at_every_depth(self):
        with pytest.raises(
            InvalidRecipe, match="no parameter is called 'candidates'; did you mean n_candidates"
        ) as caught:
            parse("mgd-dsp(candidates=3)")
        everything = {item.name for _, part in walk(Projected(MGD())) for item in fields(part)}
        assert all(name in str(caught.value) for name in everything)

    def test_an_unknown_parameter_of_a_class_suggests_and_lists(self):
        with pytest.raises(InvalidRecipe, match=r"did you mean learning_rate.*decay, learning_rate, slow_down"):
            parse("Step(learnin_rate=1)")

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("mgd(n_candidates=0)", "UniformSphere.n_candidates must be a whole number from 1 to 1,000, got 0"),
            ("mgd(n_candidates=2.0)", "a whole number"),
            ("mgd(n_candidates=True)", "a whole number"),
            ("mgd(n_candidates='3')", "a whole number"),
            ("mgd(initial='one')", "MGD.initial must be 'zero' or 'random', got 'one'"),
            ("mgd(initial=1)", "'zero' or 'random'"),
            ("mgd(delta=-1)", "a number from 0 to 1,000,000"),
            ("mgd(delta=1e999)", "a number from 0 to 1,000,000"),
            ("mgd(delta=True)", "a number"),
            ("mgd(delta=None)", "a number"),
            ("mgd(slow_down=0)", "a number at least 1e-06 or None, got 0"),
            ("mgd(multileaver=mgd)", "a multileaver [(]Balanced, .*TeamDraft[)], got MGD"),
            ("mgd(exploration=3)", "an exploration [(]"),
            ("MeanWinner(unit=1)", "True or False, got 1"),
            ("Cascade(0.5, 0.5)", "a tuple, each item a number from 0 to 1, got 0.5"),
            ("Cascade((2.0,), (0.5,))", "a tuple, each item a number from 0 to 1"),
            ("Cascade(('a',), (0.5,))", "a tuple"),
            ("nDCG@0", "a whole number from 1 to 1,000,000 or None"),
        ],
    )
    def test_an_ill_typed_parameter_says_what_is_possible(self, text, wanted):
        with pytest.raises(InvalidRecipe, match=wanted):
            parse(text)

    def test_python_gets_the_same_checks_as_text(self):
        with pytest.raises(InvalidRecipe, match="whole number from 1 to 1,000"):
            UniformSphere(n_candidates=0)
        with pytest.raises(InvalidRecipe, match="must be a number"):
            Step(learning_rate=float("nan"))

    def test_too_many_positional_parameters_are_counted(self):
        with pytest.raises(InvalidRecipe, match=r"Step has 3 parameters \(learning_rate, decay, slow_down\), got 4"):
            parse("Step(1, 1, 1, 1)")

    def test_what_is_missing_is_named_and_only_that(self):
        with pytest.raises(InvalidRecipe, match=r"RunSpec needs a value for dataset and user$"):
            parse("RunSpec(mgd)")

    def test_projecting_twice_is_refused(self):
        with pytest.raises(InvalidRecipe, match="already projected"):
            parse("Projected(base=mgd-dsp)")


@pytest.mark.usefixtures("clean_registry")
class TestRegistering:
    def test_an_ambiguous_parameter_names_every_place(self):
        register(Knob)
        register(Machine)
        alias("machine", Machine())
        with pytest.raises(InvalidRecipe, match=r"'size' is ambiguous, it could be any of left.size, right.size"):
            parse("machine(size=3)")
        assert parse("machine(left=Knob(size=3))") == Machine(left=Knob(3))
        assert parse(spell(Machine(left=Knob(3)))) == Machine(left=Knob(3))

    def test_a_name_is_taken_once(self):
        with pytest.raises(InvalidRecipe, match="'mgd' is already registered"):
            alias("mgd", MGD())
        with pytest.raises(InvalidRecipe, match="'MGD' is already registered"):
            register(type("MGD", (MGD,), {}))
        with pytest.raises(InvalidRecipe, match="already registered"):
            alias("MGD", MGD())

    def test_a_cell_that_runs_again_replaces_its_class_and_its_alias(self):
        for size in (1, 2):  # one and the same definition, as when the cell of a notebook runs again

            @register
            @dataclass(frozen=True, repr=False)
            class Gadget(Knob):
                cell: ClassVar[int] = size

            alias("gadget", Gadget(size=size))
        assert parse("Gadget()").cell == parse("gadget").cell == 2
        assert parse("gadget").size == 2

    def test_another_module_may_not_take_a_name(self):
        register(Knob)
        alias("knob", Knob())
        elsewhere = {"__name__": "elsewhere", "alias": alias, "Knob": Knob}
        with pytest.raises(InvalidRecipe, match="'knob' is already registered"):
            exec("alias('knob', Knob(2))", elsewhere)
        with pytest.raises(InvalidRecipe, match="'Knob' is already registered"):
            register(type("Knob", (Knob,), {"__module__": "elsewhere"}))
        assert parse("knob") == Knob()

    def test_a_module_can_be_forgotten(self):
        register(Knob)
        alias("knob", Knob())
        forget(Knob.__module__)
        for name in ("knob", "Knob()"):
            with pytest.raises(UnknownName):
                parse(name)
        assert parse("mgd") == MGD()

    def test_a_source_is_asked_at_the_time_of_the_question(self):
        found: dict[str, Part] = {}
        source(lambda: found)
        with pytest.raises(UnknownName):
            parse("late-comer")
        found["late-comer"] = Preset("perfect")
        assert parse("late-comer") == Preset("perfect")
        assert aliases(User)["late-comer"] == Preset("perfect")

    def test_spelling_once_remembers_within_its_block_only(self):
        register(Knob)
        with spelling_once():
            assert spell(Knob()) == "Knob()"
            alias("k", Knob())
            with spelling_once():  # one within another shares what is known
                assert spell(Knob()) == "Knob()"
            assert spell(Knob()) == "Knob()"
        assert spell(Knob()) == "k"

    def test_fields_at_paths_are_replaced_together(self):
        recipe = parse("mgd-dsp")
        changes = {("base", "delta"): 2.0, ("base", "step", "decay"): 0.5, ("projection", "remembered"): 1}
        assert replaced_at(recipe, changes) == parse("mgd-dsp(delta=2.0, decay=0.5, remembered=1)")
        assert replaced_at(recipe, {}) == recipe

    def test_a_registered_name_wins_over_a_source(self):
        source(lambda: {"mgd": DBGD()})
        assert parse("mgd") == MGD()

    def test_a_new_part_of_every_field_type_goes_through_the_text(self):
        @register
        @dataclass(frozen=True, repr=False)
        class Everything(Part):
            kind: ClassVar[str] = "everything"
            whole: Annotated[int, Between(-3, 3)] = 0
            number: float = 0.0
            text: str = ""
            flag: bool = False
            choice: Literal["a", "b"] = "a"
            many: tuple[int, ...] = ()
            maybe: int | None = None
            inner: Step = field(default_factory=Step)

        part = Everything(-3, -1e-300, 'it\'s "ok"\n\\', True, "b", (1, -2), -5, Step(0.5))
        assert parse(repr(part)) == part
        for name, bad in {"text": 3, "flag": 0, "many": (1.5,), "maybe": "x", "inner": None, "whole": 4}.items():
            with pytest.raises(InvalidRecipe, match=f"Everything.{name} must be"):
                replace(part, **{name: bad})

    def test_what_a_test_registers_is_forgotten(self):
        assert "Knob" not in registry._CLASSES
        assert "machine" not in aliases()


def test_names_are_short_names_then_classes_of_that_kind():
    assert names(User) == [*aliases(User), *classes(User)]
    assert set(names(User)) >= {"perfect", "navigational", "informational", "almost-random", "Cascade", "Preset"}
    assert all(issubclass(cls, User) for cls in classes(User).values())


def test_a_text_for_a_part_is_read_before_anything_else_is_imported():
    code = "from duelrank.users import Opposed; print(Opposed('perfect'))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "Opposed(base=Preset(behaviour='perfect'))", found.stderr


def test_walk_finds_every_part_with_its_path():
    found = dict(walk(Projected(MGD())))
    assert found[()] == Projected(MGD())
    assert found[("base", "exploration")] == UniformSphere(9)
    assert found[("projection", "examination")] == LastClick()


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(allow_nan=True))
def test_between_is_a_closed_range(low, high, value):
    assert (value in Between(low, high)) == (low <= value <= high)


def test_parameters_that_were_added_later_leave_the_digests_of_earlier_runs_alone():
    assert canonical(parse("mgd")) == canonical(parse("mgd(ties='shared', credit='exact', samples=10_000)"))
    assert "ties" not in canonical(parse("mgd"))
    assert canonical(parse("mgd(ties='separate')")) != canonical(parse("mgd"))
    assert canonical(parse("mgd(credit='sampled')")) != canonical(parse("mgd"))


class TestCollections:
    def test_members_stand_for_their_collection(self):
        pair = Collection(("navigational", "informational"))
        source(lambda: {"two-users": pair})
        assert listed("perfect, two-users") == listed(["perfect", pair]) == ["perfect", *pair.members]

    def test_a_collection_is_not_one_of_its_kind(self):
        with pytest.raises(InvalidRecipe, match="'families' is a collection, but a dataset is required"):
            parse("families", Dataset)

    def test_other_texts_stay(self):
        assert listed("mgd(n_candidates=3), Nothing()") == ["mgd(n_candidates=3)", "Nothing()"]
