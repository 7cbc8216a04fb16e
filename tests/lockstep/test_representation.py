"""Twins of representations: the columns, knots and weights of the CPU, and whole runs."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from duelrank import parse
from duelrank.algorithms import Algorithm
from duelrank.core.randomness import stream
from duelrank.datasets import Dataset, Split
from duelrank.kernels import representation as kernels
from duelrank.lockstep import Lockstep, metrics, why_not
from duelrank.lockstep.algorithms import prepared
from duelrank.lockstep.draws import Draws
from duelrank.lockstep.library import load
from duelrank.lockstep.program import evaluate
from duelrank.lockstep.representation import Kept, Seen, carried, climbed, curve_scores, is_due, moved, sampled, slots
from duelrank.lockstep.twin import twin_of
from duelrank.metrics import nDCG
from duelrank.metrics import offline_performance as evaluate_on_cpu
from duelrank.representation import BentLines, QueryScaled, Ramps, Representation
from duelrank.representation import curves as knots
from duelrank.simulation import RunSpec, simulate

FEATURES = 4


def padded(array, n_knots):
    """Knots, (features, n), as a twin has them where there is room for more: the last one repeated."""
    return jnp.asarray(np.pad(array, ((0, 0), (0, n_knots - array.shape[1])), mode="edge").T)


def some_knots(rng, n_pieces):
    inner = np.sort(rng.random((FEATURES, n_pieces - 1)), axis=1)
    return np.hstack([np.zeros((FEATURES, 1)), inner, np.ones((FEATURES, 1))])


def some_sample(rng, n):
    """Values of four kinds: even, skewed, few different ones, and one that is always 0."""
    values = np.stack([rng.random(n), rng.random(n) ** 4, rng.integers(0, 4, n) / 3.0, np.zeros(n)], axis=1)
    return values.astype(np.float32)


@pytest.mark.parametrize("n_pieces", [2, 4])
def test_columns_are_those_of_the_kernels(n_pieces):
    rng = np.random.default_rng(n_pieces)
    features, found = rng.random((9, FEATURES)), some_knots(rng, n_pieces)
    seen = Seen(padded(found, n_pieces + 3), None, None)
    bent, ramps = twin_of(BentLines()), twin_of(Ramps())
    columns = bent.apply({"bend": jnp.float64(0.3)}, jnp.asarray(features), seen).reshape(9, -1)
    expected = kernels.line_and_ramps(features, found, 0.3)
    np.testing.assert_allclose(columns[:, : expected.shape[1]], expected, rtol=1e-14)
    assert not columns[:, expected.shape[1] :].any()
    columns = ramps.apply({}, jnp.asarray(features), seen).reshape(9, -1)
    expected = kernels.ramps(features, found)
    np.testing.assert_allclose(columns[:, : expected.shape[1]], expected, rtol=1e-14)
    assert not columns[:, expected.shape[1] :].any()


def test_a_piece_without_width_has_no_slope_in_either_precision():
    for real in (jnp.float32, jnp.float64):
        ends = jnp.array([[0.5], [0.5], [jnp.nextafter(real(0.5), real(1.0))]], real)
        assert climbed(jnp.array([[0.5], [0.4], [1.0]], real), ends)[:, 0, 0].tolist() == [0.0] * 3
    tiny = jnp.array([[0.0], [1e-45]], jnp.float32)
    assert jnp.isfinite(climbed(jnp.array([[0.0], [1.0]], jnp.float32), tiny)).all()


@pytest.mark.parametrize(("n_before", "n_after"), [(1, 2), (2, 2), (2, 4), (2, 3), (4, 4), (1, 1)])
@pytest.mark.parametrize("full", [True, False])
def test_knots_move_as_on_the_cpu(n_before, n_after, full):
    move, changes = jax.jit(moved), 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        now, sample = some_knots(rng, n_before), some_sample(rng, 25)
        if seed % 2:  # knots that are there already: some features fit, so theirs stay
            now = knots.moved(now, some_sample(rng, 60), n_before, None)
        expected = knots.moved(now, sample, n_after, None, full)
        changes += expected is not now
        values = np.vstack([sample, np.zeros((5, FEATURES))])  # as of slots that nothing is in
        found = move(padded(now, 5), values, jnp.int32(n_before), jnp.int32(n_after), full)
        np.testing.assert_allclose(found, padded(expected, 5), rtol=1e-14, atol=1e-16)
    assert (changes > 0) == (n_before != n_after or (full and n_before > 1))


@pytest.mark.parametrize("part", [BentLines(bend=0.3), Ramps()])
@pytest.mark.parametrize(("n_before", "n_after"), [(1, 2), (2, 2), (2, 4), (4, 4)])
def test_weights_are_carried_as_on_the_cpu(part, n_before, n_after):
    rng = np.random.default_rng(n_before)
    old, new = ({"knots": some_knots(rng, n)} for n in (n_before, n_after))
    n_columns = twin_of(part).each(1 << 30) * FEATURES  # room for all
    weights = rng.standard_normal(part.n_columns(FEATURES, old))
    expected = part.carry(weights, old, new)
    found = carried(jnp.pad(weights, (0, n_columns - len(weights))), padded(old["knots"], 5), padded(new["knots"], 5))
    np.testing.assert_allclose(found[: len(expected)], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[len(expected) :], 0.0, atol=1e-15)


@pytest.mark.parametrize(
    "text", ["curves", "curves(pieces=3)", "curves(pieces=1)", "ramps(pieces=64)", "ramps(pieces=3)"]
)
def test_columns_come_when_they_do_on_the_cpu(text):
    part = parse(text, Representation)
    memory, twin = part.start(1, unit=True), twin_of(part)
    for lists in range(1, 20_000):
        due = knots._is_due(lists)
        assert bool(is_due(np.int64(lists))) == due
        if due:
            n_pieces = part._n_pieces(memory["knots"].shape[1] - 1, lists)
            memory = {"knots": np.linspace(0.0, 1.0, n_pieces + 1)[np.newaxis]}
            assert twin.each(lists) == part.n_columns(1, memory)
            assert twin.each(lists - 1) <= twin.each(lists)


def test_a_sample_has_every_document_as_often():
    size, widest, n_lists = 10, 7, 12
    key = jnp.stack((jnp.full(3000, 5, jnp.uint32), jnp.arange(3000, dtype=jnp.uint32)), axis=1)

    def one(key):
        rows = jnp.full(size, -1)
        for t in range(n_lists):  # lists of five, in a table of all of them
            taken = slots(jnp.int32(5 * t), jnp.int32(5), size, widest, Draws(key, jnp.int32(t), jnp.float64))
            rows = sampled(rows, 5 * t, taken)
        return rows

    rows = np.asarray(jax.jit(jax.vmap(one))(key))
    assert all(len(set(row)) == size for row in rows.tolist())
    counts = np.bincount(rows.ravel(), minlength=5 * n_lists)
    assert len(counts) == 5 * n_lists
    expected = 3000 * size / (5 * n_lists)
    assert ((counts - expected) ** 2 / expected).sum() < 110  # χ² with 59 degrees of freedom: 1 in 10,000


def test_of_two_documents_for_one_slot_the_later_stays():
    taken = np.array([3, 1, 3, -1, 0])
    before = np.arange(10.0, dtype=np.float32)[:, np.newaxis]
    expected = knots._with_documents(before, 100.0 + np.arange(5.0)[:, np.newaxis], taken, 10)
    found = sampled(jnp.arange(10), 100, jnp.asarray(np.where(taken < 0, 10, taken)))
    assert found.tolist() == expected[:, 0].tolist()


@pytest.mark.parametrize("part", [BentLines(bend=0.3), Ramps()])
def test_curves_are_evaluated_as_on_the_cpu(part, linear_data):
    data, rng, metric = linear_data(), np.random.default_rng(3), nDCG(cutoff=10)
    library = load([(data, 1)], metric, "test", np.float64, QueryScaled())
    shelf, test = library.held_out[data, 1], data.fold(1).test
    n_features, twin = test.n_features, twin_of(part)
    found = np.hstack([np.zeros((n_features, 1)), rng.random((n_features, 1)), np.ones((n_features, 1))])
    n_columns = part.n_columns(n_features, {"knots": found})
    weights = rng.standard_normal((1, 3, n_columns))  # of one checkpoint and three runs
    kept = Kept(jnp.asarray(weights), jnp.broadcast_to(found.T, (1, 3, 3, n_features)))
    rows = jax.tree.map(lambda leaf: leaf[0], twin.scored({"bend": jnp.full(3, 0.3)}, kept))
    keys, when = np.ones((3, 2), np.uint32), np.arange(3, dtype=np.int32)
    numbers = metrics.numbers_of(metric, 20, library.grades)
    mine = evaluate(curve_scores, shelf, numbers, rows, keys, when, int(shelf.sizes.max()))
    columns = (QueryScaled() >> part).apply_all(test.features, test.offsets, {"knots": found})
    seen = Split.trusted(columns, test.labels, test.offsets, test.ids)
    expected = [evaluate_on_cpu(row, seen, metric, stream(1, "evaluation")) for row in weights[0]]
    np.testing.assert_allclose(mine, expected, rtol=1e-12)


@pytest.fixture
def spec(linear_data) -> RunSpec:
    """A run that comes to ramps, and to a second check of their knots."""
    return RunSpec("query-scaled >> curves(sample=20) >> pdgd", linear_data(), "perfect", impressions=40)


def test_a_run_with_curves_is_the_same_again_and_among_others(spec, linear_data):
    others = [
        replace(spec, algorithm="query-scaled >> curves(sample=20, bend=2.0) >> pdgd(learning_rate=0.3)"),
        replace(spec, dataset=linear_data(n_features=7)),
    ]
    alone, again = (next(Lockstep("double").run([spec])) for _ in range(2))
    for name in ("online", "offline", "update_norms", "trajectory"):
        assert np.array_equal(getattr(alone, name), getattr(again, name))
    records = {record.spec: record for record in Lockstep("double").run([*others, spec])}
    assert np.allclose(records[spec].trajectory, alone.trajectory, rtol=1e-9, atol=1e-12)
    for each, record in records.items():
        assert record.trajectory.shape == simulate(each).trajectory.shape
        assert record.update_norms[15] == 0.0  # there are other columns than before, so no distance
        assert record.update_norms[16:].any()
    # Until there are ramps the weights are those of the lines, and are carried as such.
    fold, place = spec.dataset.fold(1), int(np.flatnonzero(alone.checkpoints <= 15)[-1])
    scaled = QueryScaled().apply_all(fold.test.features, fold.test.offsets, {})
    lines = alone.trajectory[place]
    assert not lines[5:].any()
    seen = Split.trusted(scaled, fold.test.labels, fold.test.offsets, fold.test.ids)
    expected = evaluate_on_cpu(lines[:5], seen, spec.metric, stream(1, "evaluation"))
    assert alone.offline[place] == pytest.approx(expected, abs=1e-12)
    assert alone.trajectory[-1, 5:].any()


def test_the_table_of_a_query_scaled_recipe_is_that_of_scaled_data():
    scaled, raw = (parse(f"bumpy(n_queries=20, scale='{scale}')", Dataset) for scale in ("query", "none"))
    one = load([(scaled, 1)], nDCG(), "test", np.float64)
    other = load([(raw, 1)], nDCG(), "test", np.float64, prepared(parse("wmgd-dsp-curves", Algorithm)))
    assert np.array_equal(one.train.features, other.train.features)
    assert np.array_equal(one.held_out[scaled, 1].features, other.held_out[raw, 1].features)


def test_what_cannot_run_says_why(spec):
    assert why_not(spec) == []
    assert why_not(replace(spec, algorithm="query-scaled >> steps >> pdgd")) == ["Steps has no lockstep twin"]
    assert why_not(replace(spec, algorithm="curves >> pdgd")) == [
        "knots for values that are not known to be from 0 to 1 have no lockstep twin; put query-scaled before"
    ]
    assert why_not(replace(spec, algorithm="Projected(query-scaled >> pdgd)")) == [
        "a representation within Projected has no lockstep twin"
    ]
