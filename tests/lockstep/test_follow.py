"""An impression that a twin has made is learned from by its algorithm too: both come to the same weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from duelrank import parse
from duelrank.algorithms import Algorithm
from duelrank.lockstep import twins  # noqa: F401  # registers them
from duelrank.lockstep.draws import Draws
from duelrank.lockstep.twin import twin_of
from duelrank.lockstep.twins.difficult_queries import RUNS
from duelrank.lockstep.values import Clicked, Query
from duelrank.randomness import stream
from duelrank.types import Feedback, Impression
from duelrank.types import Query as CPUQuery

WIDEST, LENGTH, FEATURES = 14, 10, 7

RECIPES = [
    "mgd",
    "mgd-dsp",
    "mgd-dsp(remembered=4, rescale='none', strength=0.7, beyond=1)",
    "mgd-dsp(ridge=0.5, rescale='preserve')",
    "mgd-dsp(examination=WholeList(), remembered=0)",
    "dbgd-dsp(initial='random', ties='separate')",
    "dp-dbgd",
    "wmgd",
    "wmgd-dsp",
    "wmgd-dsp(multileaver=ContestedPairs(), against='mean')",
    "nsgd",
    "nsgd-dsp(when='tie', avoided=3, n_low=2)",
    "pdgd",
    "Projected(PDGD())",
]


def table(rng, equal):
    """Documents of a few queries of different size, some of them equal to others of their query."""
    sizes = [14, 3, 10, 11, 7, 12]
    rows = rng.random((sum(sizes) + WIDEST, FEATURES))
    if equal:
        rows[4], rows[15] = rows[2], rows[16]
    return rows, sizes


def trace_of(name, shown):
    """Return the trace of the algorithm from that of its twin."""
    if "pdgd" in name.lower():
        return {"scores": np.asarray(shown.trace)[np.isfinite(shown.trace)]}
    directions, evidence = shown.trace
    found = {"directions": np.asarray(directions)}
    if hasattr(evidence, "teams"):
        return found | {"teams": np.asarray(evidence.teams, np.int64), "n_rankers": np.array(len(directions) + 1)}
    return found | {"ranks": np.asarray(evidence, np.int64)}


@pytest.mark.parametrize("name", RECIPES)
def test_a_twin_and_its_algorithm_learn_the_same_from_the_same_impressions(name):
    algorithm, rng = parse(name, Algorithm), np.random.default_rng(5)
    rows, sizes = table(rng, equal="tie" not in name)  # equal documents are ranked at random when ties are replayed
    starts = np.cumsum([0, *sizes])
    twin, shared = twin_of(algorithm), jnp.asarray(rows)
    numbers = jax.tree.map(jnp.float64, twin.numbers())
    columns = jnp.ones(FEATURES, bool)
    key = jnp.array([3, 9], jnp.uint32)

    def open_query(start, size):
        features = jax.lax.dynamic_slice(shared, (start, jnp.int32(0)), (WIDEST, FEATURES))
        present, places = jnp.arange(WIDEST) < size, jnp.arange(LENGTH) < size
        return Query(shared, start, size, features, present, places, columns)

    explore = jax.jit(
        lambda state, start, size, t: twin.explore(numbers, state, open_query(start, size), Draws(key, t, jnp.float64))
    )

    @jax.jit
    def learn(state, start, size, shown, clicked, t):
        def one(state):
            draws = Draws(key, t, jnp.float64)
            gradient, memory = twin.gradient(numbers, state, open_query(start, size), shown, clicked, draws)
            weights, after = twin.update(numbers, state._replace(memory=memory), gradient)
            return gradient, memory, weights, after

        batched = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)
        return jax.tree.map(lambda leaf: leaf[0], jax.vmap(one, axis_name=RUNS)(batched))

    state = twin.start(numbers, columns, LENGTH, Draws(key, jnp.int32(0), jnp.float64))
    own = algorithm.start(FEATURES, stream(1, "start"))
    own = type(own)(np.array(state.weights), 0, 0, own.memory)
    moves = 0
    for t in range(40):
        number = int(rng.integers(len(sizes)))
        start, size = np.int32(starts[number]), np.int32(sizes[number])
        length = min(LENGTH, int(size))
        shown = explore(state, start, size, jnp.int32(t))
        ranking = np.asarray(shown.ranking, np.int64)[:length]
        assert sorted(set(ranking.tolist())) == sorted(ranking.tolist())
        assert ranking.max() < size
        clicks = rng.random(LENGTH) < 0.25
        clicks[length:] = False
        last = int(np.max(np.flatnonzero(clicks), initial=-1)) + 1
        clicked = Clicked(jnp.asarray(clicks), jnp.int32(last), jnp.int32(length))
        gradient, memory, weights, after = learn(state, start, size, shown, clicked, jnp.int32(t))

        query = CPUQuery(f"q{number}", rows[start : start + size])
        trace = {key: _cut(array, length) for key, array in trace_of(name, shown).items()}
        trace["sizes"] = np.full(len(trace.get("directions", ())) + 1, int(size))
        impression = Impression(query, ranking, trace)
        feedback = Feedback(clicks[:length], examined=length)
        own = algorithm.learn(own, impression, feedback, stream(1, "learn", t))

        won = bool(jnp.any(gradient != 0.0))
        moves += won
        state = state._replace(
            weights=weights if won else state.weights,
            step=state.step + 1,
            updates=state.updates + won,
            memory=after if won else memory,
        )
        np.testing.assert_allclose(state.weights, own.weights, rtol=1e-7, atol=1e-9, err_msg=f"impression {t}")
        assert (int(state.step), int(state.updates)) == (own.step, own.updates)
    assert moves > 5


def _cut(array, length):
    return array[..., :length] if array.ndim and array.shape[-1] == LENGTH else array
