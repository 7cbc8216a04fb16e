"""Each part remembers in a namespace of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from duelrank.algorithms import DBGD, MGD, Projected
from duelrank.core.errors import InvalidRecipe
from duelrank.core.grammar import parse
from duelrank.core.memory import flatten, nest, replaced
from duelrank.core.registry import alias, register, spell
from duelrank.core.types import Gradient, Memory, State, Weights
from duelrank.exploration import UniformSphere
from duelrank.testing import check_algorithm
from duelrank.testing.tiny import play
from duelrank.updates import Momentum, Step


class TestNamespaces:
    def test_a_part_sees_its_own_memory_only(self):
        state = State(np.zeros(2), 3, 1, {"step": {"velocity": np.ones(2)}, "inference": {"x": np.ones(1)}})
        assert set(state.of("step").memory) == {"velocity"}
        assert state.of("exploration").memory == {}
        assert (state.of("step").step, state.of("step").updates) == (3, 1)

    def test_replacing_nothing_keeps_the_very_same_memory(self):
        memory = {"step": {"velocity": np.ones(2)}}
        assert replaced(memory, "step", memory["step"]) is memory
        assert replaced(memory, "inference", {}) is memory
        assert replaced(memory, "inference", {"x": np.ones(1)}).keys() == {"step", "inference"}
        assert memory.keys() == {"step"}

    def test_two_parts_may_use_the_same_name(self):
        """An exploration and an update rule that both count under the name "n" never meet."""
        learner = play(MGD(exploration=CountingSphere(n_candidates=3), step=CountingStep()), 60)
        memory = learner.state.memory
        assert memory["step"]["n"] == learner.state.updates
        assert memory["exploration"]["n"] > memory["step"]["n"] > 0

    @pytest.mark.parametrize(
        "recipe",
        ["nsgd-dsp", "cps-dsp", "c-mgd-dsp", "mgd(step=Momentum())", "mgd-dsp(step=Momentum())", "cascade-ucb1"],
    )
    def test_flat_names_lead_back(self, recipe):
        learner = play(parse(recipe), 40)
        flat = flatten(learner.state.memory)
        assert flat
        assert State(np.zeros(1), memory=nest(flat, learner.algorithm)) == State(
            np.zeros(1), memory=learner.state.memory
        )

    def test_names_that_collide_are_stored_with_their_paths(self):
        memory = {"exploration": {"fast": {"references": np.ones(1)}, "references": np.zeros(2)}}
        flat = flatten(memory)
        assert set(flat) == {"references", "exploration/references"}
        assert State(np.zeros(1), memory=nest(flat, parse("c-mgd"))) == State(np.zeros(1), memory=memory)


@dataclass(frozen=True, repr=False)
class CountingSphere(UniformSphere):
    def observe(self, state, impression, feedback, credit, stream) -> Memory:
        return {"n": np.array(int(state.memory.get("n", 0)) + 1)}


@dataclass(frozen=True, repr=False)
class CountingStep(Step):
    def move(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        return super().move(state, gradient)[0], {"n": np.array(int(state.memory.get("n", 0)) + 1)}


class TestUpdatesThatRemember:
    def test_momentum_is_the_formula(self):
        rule, state = Momentum(momentum=0.75, step=Step(learning_rate=0.5)), State(np.zeros(2))
        gradients, velocity, weights = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]]), np.zeros(2), np.zeros(2)
        for gradient in gradients:
            velocity = 0.75 * velocity + 0.25 * gradient
            weights = weights + 0.5 * velocity
            moved, memory = rule.move(state, gradient)
            state = State(moved, memory=memory)
        np.testing.assert_allclose(state.weights, weights)
        np.testing.assert_allclose(state.memory["velocity"], velocity)

    @pytest.mark.parametrize("recipe", ["mgd(step=Momentum())", "nsgd-dsp(step=Momentum())", "pdgd(step=Momentum())"])
    def test_momentum_works_in_every_algorithm(self, recipe):
        check_algorithm(parse(recipe))

    def test_no_momentum_is_the_plain_step(self):
        assert np.array_equal(play(parse("mgd(step=Momentum(momentum=0.0))"), 100).weights, play(MGD(), 100).weights)

    def test_what_update_returns_is_kept(self, clean_registry):
        """A momentum MGD written as a new user would: it must not equal plain MGD."""

        @register
        @dataclass(frozen=True, repr=False)
        class HeavyBall(MGD):
            def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
                velocity = 0.9 * state.memory.get("velocity", 0.0) + gradient
                return state.weights + 0.01 * velocity, {**state.memory, "velocity": velocity}

        heavy, plain = play(HeavyBall(), 100), play(MGD(), 100)
        assert not np.allclose(heavy.weights, plain.weights)
        assert "velocity" in heavy.state.memory
        assert "velocity" in play(Projected(HeavyBall()), 50).state.memory["base"]

    def test_a_state_in_place_of_weights_and_memory_is_called_out(self):
        class Old(DBGD):
            def update(self, state, gradient):
                return state

        with pytest.raises(InvalidRecipe, match="must return weights and memory, got State"):
            play(Old(), 100)


class TestProjectedByName:
    def test_a_loaded_dueling_bandit_has_its_dsp(self, clean_registry):
        @register
        @dataclass(frozen=True, repr=False)
        class Loaded(MGD):
            """An algorithm from outside."""

        assert spell(Projected(Loaded())) == "Projected(base=Loaded())"
        alias("loaded", Loaded())
        assert parse("loaded-dsp") == Projected(Loaded())
        assert spell(Projected(Loaded())) == "loaded-dsp"
        assert spell(parse("loaded-dsp(n_candidates=4)")) == "loaded-dsp(n_candidates=4)"

    def test_own_settings_beat_the_general_ones(self):
        assert parse("wmgd-dsp") != Projected(parse("wmgd"))
