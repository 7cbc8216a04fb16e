"""Each twin gives what its CPU kernel gives, for the same inputs and the same random numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from duelrank import parse
from duelrank.core.randomness import stream
from duelrank.core.types import Feedback, Impression
from duelrank.core.types import Query as CPUQuery
from duelrank.kernels import exploration as exploration_kernels
from duelrank.kernels import multileaving as multileaving_kernels
from duelrank.kernels import pairrank as pairrank_kernels
from duelrank.kernels import pdgd as pdgd_kernels
from duelrank.kernels import projection as projection_kernels
from duelrank.kernels.random import normals, permutation, uniform
from duelrank.lockstep import algorithms, exploration, metrics, multileaving, projection, users
from duelrank.lockstep.draws import Draws, Purpose, threefry
from duelrank.lockstep.multileaving import draft
from duelrank.lockstep.ranking import n_agreed, ranks_of, soonest_in_turn
from duelrank.lockstep.twin import RUNS, Clicked, Query, Shown, twin_of
from duelrank.metrics import Metric
from duelrank.projection import Examination
from duelrank.users import User

SEEDS = range(8)


class Given:
    """Draws that are given, by their purpose."""

    def __init__(self, **numbers):
        self.numbers = numbers

    def uniform(self, purpose, shape=()):
        return jnp.asarray(self.numbers[purpose.name])


def clicked(flags, examined=10):
    flags = np.asarray(flags, bool)
    last = int(np.max(np.flatnonzero(flags), initial=-1)) + 1
    return Clicked(jnp.asarray(flags), jnp.int32(last), jnp.int32(examined))


def ranked(scores, order):
    """Rankings by each row of scores, ties by the order."""
    return np.array([sorted(range(len(row)), key=lambda d, row=row: (-row[d], order[d])) for row in scores])


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_words(counter, key, words):
    found = threefry(tuple(map(jnp.uint32, key)), tuple(map(jnp.uint32, counter)))
    assert tuple(map(int, found)) == words


@pytest.mark.parametrize("real", [jnp.float32, jnp.float64])
def test_draws_have_their_distributions(real):
    draws = Draws(jnp.array([1, 2], jnp.uint32), jnp.int32(7), real)
    drawn, bell = draws.uniform(Purpose.CLICKS, (40_000,)), draws.normal(Purpose.DIRECTIONS, (40_000,))
    assert drawn.dtype == bell.dtype == real
    assert float(drawn.min()) > 0.0
    assert float(drawn.max()) < 1.0
    counts, _ = np.histogram(drawn, 20, (0.0, 1.0))
    assert ((counts - 2000) ** 2 / 2000).sum() < 50  # χ² with 19 degrees of freedom: 1 in 10,000
    assert [abs(float(jnp.mean(bell**k)) - m) < 0.1 for k, m in ((1, 0), (2, 1), (3, 0), (4, 3))] == [True] * 4
    order = np.asarray(draws.order(Purpose.TIES, (500, 6)))
    assert all(len(set(row)) == 6 for row in order.tolist())
    firsts = np.bincount(order.argmin(axis=1), minlength=6)
    assert firsts.min() > 45


@pytest.mark.parametrize("seed", SEEDS)
def test_team_draft_makes_the_same_lists_with_the_same_turns(seed):
    rng = np.random.default_rng(seed)
    n_rankers, n_documents, length = 4, 9, 7
    scores = rng.integers(0, 3, (n_rankers, n_documents)).astype(float)
    scores[:, : seed % 3] += 10.0 * np.arange(seed % 3, 0, -1)  # a top that all agree on
    order = rng.permutation(n_documents)
    draws = stream(seed, "turns")
    again = draws.copy()
    turns = np.concatenate([permutation(again, n_rankers) for _ in range(3)])
    expected = multileaving_kernels.team_draft_leave(ranked(scores, order), length, draws)
    found = draft(jnp.asarray(scores), jnp.asarray(order), jnp.asarray(turns[:length]), length)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("tau", [0.0, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("size", [4, 15])
def test_exact_credit_is_that_of_the_kernel(tau, size):
    rng, length = np.random.default_rng(size), 10
    shown = min(length, size)
    rankings = np.array([rng.permutation(size) for _ in range(6)])
    rankings[3] = rankings[0]
    ranking = rng.permutation(size)[:shown]
    ranks = np.argsort(rankings, axis=1)[:, ranking]
    clicks = rng.random(shown) < 0.5
    expected = multileaving_kernels.probabilistic_credit(ranks, clicks, np.full(6, size), tau)
    padded = np.pad(ranks, ((0, 0), (0, length - shown)))
    places = jnp.arange(length) < size
    placed = multileaving.placements(jnp.asarray(padded), places, jnp.int32(size), 20, jnp.float64(tau))
    placed = jnp.where(jnp.asarray(np.pad(clicks, (0, length - shown))), placed, 0.0)
    found = multileaving.expected_preference(placed, placed[0])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)
    assert found[3] == found[0] == 0.0


def test_a_list_is_drawn_from_the_softmaxes():
    """The first position is a mixture of the rankers' softmaxes; the second one renormalises over what is left."""
    tau, n = 2.0, 3
    masses = np.arange(1, n + 1) ** -tau
    ranks = jnp.array([[0, 1, 2], [2, 0, 1]])  # the ranks by the rankers that place the two positions
    seeds = jnp.stack((jnp.full(4000, 5, jnp.uint32), jnp.arange(4000, dtype=jnp.uint32)), axis=1)
    race = jax.jit(jax.vmap(lambda key: Draws(key, jnp.int32(0), jnp.float64).log_exponential(Purpose.RACE, (2, n))))
    lists = race(seeds)
    keys = np.array(lists) + tau * np.log1p(np.asarray(ranks))
    first = keys[:, 0].argmin(axis=1)
    keys[np.arange(len(keys)), 1, first] = np.inf
    second = keys[:, 1].argmin(axis=1)
    for number in (0, 1999, 3999):
        found = soonest_in_turn(jnp.asarray(lists[number] + tau * jnp.log1p(ranks)))
        assert found.tolist() == [first[number], second[number]]
    np.testing.assert_allclose(np.bincount(first, minlength=n) / 4000, masses / masses.sum(), atol=0.03)
    left = masses[np.asarray(ranks)[1]]
    after = second[first == 0]
    np.testing.assert_allclose(np.bincount(after, minlength=n)[1:] / len(after), left[1:] / left[1:].sum(), atol=0.03)


@pytest.mark.parametrize("name", ["perfect", "navigational", "informational", "dbn", "dcm", "pbm"])
def test_users_click_as_theirs_do_with_the_same_coins(name):
    user, rng = parse(name, User).for_grades(3), np.random.default_rng(3)
    for number in range(40):
        length = int(rng.integers(1, 11))
        labels = np.zeros(10, np.int8)
        labels[:length] = rng.integers(0, 3, length)
        draws = stream(number, "user")
        coins = draws.copy()
        if name == "pbm":
            click, stop = np.array([uniform(coins) for _ in range(10)]), np.ones(10)
        else:
            click, stop = np.array([uniform(coins) for _ in range(20)]).reshape(10, 2).T
        expected = user.click(labels[:length], draws)
        numbers = {key: jnp.asarray(value) for key, value in users.numbers_of(user, 3, 10, 5).items()}
        found = users.click(
            numbers, jnp.asarray(labels, jnp.int32), jnp.arange(10) < length, Given(CLICKS=click, STOPS=stop)
        )
        assert found.clicks[:length].tolist() == expected.clicks.tolist()
        assert not found.clicks[length:].any()
        assert int(found.last) == int(np.max(np.flatnonzero(expected.clicks), initial=-1)) + 1
        if expected.examined is not None:
            assert int(found.examined) == expected.examined


@pytest.mark.parametrize("name", ["nDCG@10", "nDCG@3", "nDCG(gain='linear')@5", "nDCG", "MRR@10", "MRR"])
def test_metrics_are_those_of_the_kernels(name):
    metric, rng = parse(name, Metric), np.random.default_rng(4)
    sizes = rng.integers(1, 15, 20)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = rng.integers(0, 3, offsets[-1]).astype(np.int8)
    best = metrics.ideals(metric, labels, offsets)
    numbers = {key: jnp.asarray(value) for key, value in metrics.numbers_of(metric, 15, 4).items()}
    for number, size in enumerate(sizes):
        mine = labels[offsets[number] : offsets[number + 1]]
        shown = np.pad(mine[rng.permutation(size)], (0, 15 - size))
        gains = numbers["gain"][jnp.asarray(shown, jnp.int32)]
        found = metrics.value(numbers, gains, jnp.arange(15), jnp.arange(15) < size, best[number])
        assert float(found) == pytest.approx(metric.of(shown[:size], mine), abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_projections_are_those_of_the_kernels(seed):
    rng = np.random.default_rng(seed)
    rows = rng.random((9, 6 + seed % 4))
    rows[3], rows[5], rows[7] = rows[1], 0.0, rows[0] + rows[2]
    vector = rng.standard_normal(rows.shape[1])
    hard = projection.project(jnp.asarray(vector), jnp.asarray(rows), jnp.float64(0.0))
    expected = projection_kernels.project(vector, projection_kernels.qr_basis(rows, -1.0))
    np.testing.assert_allclose(hard, expected, rtol=1e-7, atol=1e-9)
    soft = projection.project(jnp.asarray(vector), jnp.asarray(rows), jnp.float64(0.3))
    np.testing.assert_allclose(soft, projection_kernels.ridge_project(vector, rows, 0.3), rtol=1e-9, atol=1e-12)
    for rescale in range(3):
        mixed = projection.rescaled_mix(jnp.asarray(vector), hard, jnp.float64(0.6), jnp.float64(rescale))
        np.testing.assert_allclose(
            mixed, projection_kernels.rescaled_mix(vector, expected, 0.6, rescale), rtol=1e-7, atol=1e-9
        )


def test_nothing_is_left_of_a_gradient_beside_the_documents():
    rows, vector = jnp.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), jnp.array([0.0, 0.0, 1.0])
    projected = projection.project(vector, rows, jnp.float64(0.0))
    assert projection.rescaled_mix(vector, projected, jnp.float64(1.0), jnp.float64(1.0)).tolist() == [0.0] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_weigh_as_in_the_kernel(seed):
    rng = np.random.default_rng(seed)
    size = 12 if seed % 2 else 6
    features, weights = rng.random((size, 4)), rng.standard_normal(4) * 4.0
    boosts = rng.standard_normal(size) if seed % 3 else np.empty(0)
    scored, shown = features @ weights + (boosts if boosts.size else 0.0), min(10, size)
    ranking = rng.permutation(size)[:shown]
    clicks = rng.random(shown) < 0.4
    expected = pdgd_kernels.pair_gradient(weights, features, boosts, scored, ranking, clicks)
    scores = jnp.asarray(np.pad(scored, (0, 15 - size), constant_values=-np.inf))
    place, present = jnp.arange(10) < size, jnp.arange(15) < size
    padded = jnp.asarray(np.pad(ranking, (0, 10 - shown)))
    found = algorithms.pair_gradient(scores, padded, place, present, clicked(np.pad(clicks, (0, 10 - shown))))
    np.testing.assert_allclose(found[:shown] @ features[ranking], expected, rtol=1e-9, atol=1e-12)
    assert not found[shown:].any()


@pytest.mark.parametrize("n_avoided", [0, 3, 5])
def test_null_space_directions_are_those_of_the_kernel(n_avoided):
    rng, draws = np.random.default_rng(2), stream(1, "directions")
    features, losers = rng.random((8, 9)), rng.standard_normal((n_avoided, 9))
    again = draws.copy()
    avoided = projection_kernels.qr_basis(losers, -1.0) if n_avoided else np.empty((0, 9))
    expected = exploration_kernels.null_space_directions(avoided, features, 12, 5, draws)
    padded = jnp.asarray(np.pad(losers, ((0, 6 - n_avoided), (0, 0))))
    found = exploration.complement_directions(
        padded, jnp.asarray(normals(again, 12, 9)), jnp.asarray(features.sum(axis=0)), 5
    )
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_losers_are_remembered_as_by_the_kernel():
    rng, capacity = np.random.default_rng(6), 7
    mine = exploration.Losers(jnp.zeros((capacity, 3)), jnp.full(capacity, jnp.inf))
    losers, margins = np.empty((0, 3)), np.empty(0)
    for _ in range(12):
        directions, credit = rng.standard_normal((4, 3)), rng.integers(0, 3, 5).astype(float)
        losers, margins = exploration_kernels.remember_losers(losers, margins, directions, credit, 2, capacity)
        mine = exploration.remember(mine, jnp.asarray(directions), jnp.asarray(credit), jnp.float64(2))
        known = np.isfinite(mine.margins)
        np.testing.assert_allclose(np.asarray(mine.directions)[known], losers)
        np.testing.assert_allclose(np.asarray(mine.margins)[known], margins)
        worst = exploration.worst(mine, jnp.float64(4), 4)
        expected = exploration_kernels.worst_rows(losers, margins, 4)
        np.testing.assert_allclose(worst[: len(expected)], expected)
        assert not worst[len(expected) :].any()


def test_ranks_count_what_stands_before():
    rng = np.random.default_rng(1)
    scores, order = rng.integers(0, 4, (5, 12)).astype(float), rng.permutation(12)
    expected = np.argsort(ranked(scores, order), axis=1)
    np.testing.assert_array_equal(ranks_of(jnp.asarray(scores), jnp.asarray(order)), expected)


def test_rankers_agree_on_a_top_as_far_as_their_rankings_are_equal():
    rng, lengths = np.random.default_rng(2), set()
    for _ in range(60):
        noise = rng.integers(-1, 2, (3, 8)) * (rng.random((3, 8)) < 0.1)
        scores, order = rng.integers(0, 5, 8) + noise.astype(float), np.tile(rng.permutation(8), (3, 1))
        rankings = ranked(scores, order[0])
        expected = int(np.cumprod((rankings == rankings[0])[:, :4].all(axis=0)).sum())
        found = n_agreed(jnp.asarray(scores), jnp.asarray(order), jnp.asarray(rankings[0, :4]))
        assert int(found) == expected
        lengths.add(expected)
    assert lengths == {0, 1, 2, 3, 4}


def test_unrolled_loops_give_the_same(monkeypatch):
    rng = np.random.default_rng(7)
    rows, vector = jnp.asarray(rng.random((3, 4))), jnp.asarray(rng.standard_normal(4))
    expected = projection.project(vector, rows, jnp.float64(0.1))
    monkeypatch.setattr(projection, "unrolls", lambda rounds: True)
    found = jax.jit(projection.project)(vector, rows, jnp.float64(0.1))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


EXAMINATIONS = [
    "LastClick(beyond=2)",
    "DependentClick()",
    "DependentClick(after_click=0.9, after_skip=0.7, forgetting=1.0)",
    "DynamicBayesian(perseverance=1.0, satisfaction=0.0, forgetting=0.98)",
    "DynamicBayesian(forgetting=0.9)",
    "PositionBased(forgetting=1.0)",
    "PositionBased(bias=0.5, forgetting=0.99)",
]


@pytest.mark.parametrize("name", EXAMINATIONS)
def test_examinations_see_and_learn_as_theirs_do(name):
    """Lists of 1 to 23 documents, so that the lowest positions share their parameters, and equal ones, which teach no slopes."""
    part, rng, length = parse(name, Examination), np.random.default_rng(9), 23
    twin = twin_of(part)
    numbers = jax.tree.map(jnp.float64, twin.numbers())
    mine, theirs, weighty = twin.start(numbers, 4), {}, False

    @jax.jit
    def examine(memory, features, size, flags, last):
        places = jnp.arange(length) < size
        query = Query(features, jnp.int32(0), size, features, places, places, jnp.ones(4, bool))
        heard = Clicked(flags, last, jnp.minimum(last + 1, size))
        return twin.examine(numbers, memory, query, Shown(jnp.arange(length), None), heard)

    for number in range(40):
        features, size = rng.random((length, 4)), (1, 23, 4, 10)[number % 4]
        features[:size] = features[0] if number == 6 else features[:size]
        flags = (rng.random(length) < 0.3) & (np.arange(length) < size) & (number % 5 > 0)
        feedback = Feedback(flags[:size], examined=size)
        impression = Impression(CPUQuery("q", features[:size]), np.arange(size))
        found, mine = examine(mine, jnp.asarray(features), jnp.int32(size), flags, clicked(flags).last)
        expected = part.weights(theirs, impression, feedback)
        theirs = part.observe(theirs, impression, feedback)
        np.testing.assert_allclose(found[:size], expected, rtol=1e-9, atol=1e-14)
        assert not found[size:].any()
        weighty |= bool(((expected > 0.0) & (expected < 1.0)).any())
    assert twin.graded or not weighty
    if "forgetting" in name:
        documents, learned = mine.documents, np.stack(mine.users)
        np.testing.assert_allclose(learned, theirs["examination_users"], rtol=1e-9)
        rows = [[*documents.slopes, documents.intercept], [*documents.mean, documents.lists]]
        np.testing.assert_allclose(rows, theirs["examination_documents"], rtol=1e-9, atol=1e-12)


def test_pairs_of_a_log_weigh_as_in_the_kernel():
    rng = np.random.default_rng(11)
    for clicks in (rng.random(8) < 0.4, np.zeros(8, bool), np.ones(8, bool)):
        rows, weights, seen = rng.random((8, 5)), rng.standard_normal(5) * 4.0, rng.random(8)
        pairs, boosts = clicks.sum() * seen[~clicks].sum(), rng.standard_normal(8)
        expected = pdgd_kernels.skip_gradient(weights, rows, boosts, np.arange(8), clicks.astype(float), seen)
        found = algorithms.skip_gradient(
            jnp.asarray(rows @ weights + boosts), jnp.asarray(rows), jnp.asarray(clicks), jnp.asarray(seen)
        )
        np.testing.assert_allclose(found, expected * 4.0 / max(pairs, 1e-9), rtol=1e-9, atol=1e-12)


def known_pairs(rng, n_features, remembered=40):
    """Return what both engines know after some lists of up to five pairs, of which the newest are remembered."""
    learned, start = jax.jit(algorithms.learned), np.zeros((0, n_features))
    known = [np.eye(n_features) / 0.1, np.zeros((n_features, n_features)), np.zeros(n_features)]
    newest = jnp.zeros((remembered, n_features)), jnp.zeros(remembered)
    pairs, rows, bounds = algorithms.Pairs(*map(jnp.asarray, known), jnp.zeros(()), *newest), start, np.zeros(0)
    for _ in range(60):
        n, weights = int(rng.integers(0, 6)), rng.standard_normal(n_features)
        added = rng.standard_normal((n, n_features)) * 0.4
        padded = jnp.asarray(np.pad(added, ((0, 5 - n), (0, 0))))
        pairs = learned(pairs, jnp.asarray(weights), padded, jnp.arange(5) < n)
        rows, bounds = np.concatenate((rows, added)), np.concatenate((bounds, np.zeros(n)))
        old = max(0, len(rows) - remembered)
        known[1:] = pairrank_kernels.expanded(weights, *known[1:], rows[:old], np.ones(old), bounds[:old])
        known[0], rows, bounds = pairrank_kernels.shrunk_inverse(known[0], added), rows[old:], bounds[old:]
    return pairs, [*known, rows, np.ones(remembered), bounds]


def test_pairs_are_remembered_as_by_the_kernels():
    pairs, known = known_pairs(np.random.default_rng(3), 6)
    for mine, theirs in zip(pairs[:3], known, strict=False):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)
    assert int(pairs.count) > 100
    slots = np.arange(int(pairs.count) - 40, int(pairs.count)) % 40
    np.testing.assert_array_equal(np.asarray(pairs.differences)[slots], known[3])


@pytest.mark.parametrize("conditioned", [True, False])
def test_weights_are_fitted_to_pairs_as_by_the_kernel(conditioned):
    """Of two runs, the second has no new pairs, so nothing changes there."""
    pairs, known = known_pairs(np.random.default_rng(6), 8)
    ridge, start = 0.1 if conditioned else 0.02 * float(pairs.count), np.random.default_rng(1).standard_normal(8)
    batch = jax.tree.map(lambda leaf: jnp.stack((leaf, leaf)), pairs)

    @jax.jit
    def fitted(batch, new):
        each = jax.vmap(lambda p, n: algorithms.fitted(p, ridge, start, n, 1e-12, conditioned), axis_name=RUNS)
        return each(batch, new)

    found, after = fitted(batch, jnp.array([True, False]))
    weights, curvature, bounds = pairrank_kernels.fitted(start, *known[1:], ridge, 1e-12)
    slots = np.arange(int(pairs.count) - 40, int(pairs.count)) % 40
    np.testing.assert_allclose(found[0], weights, rtol=1e-8)
    np.testing.assert_allclose(after.curvature[0], curvature, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(after.bounds[0][slots], bounds, rtol=1e-8)
    np.testing.assert_array_equal(found[1], start)
    jax.tree.map(lambda mine, before: np.testing.assert_array_equal(mine[1], before), after, pairs)


@pytest.mark.parametrize("conditioned", [True, False])
def test_the_regression_is_solved(conditioned):
    pairs, known = known_pairs(np.random.default_rng(4), 20, remembered=5)
    ridge, start = 0.1 if conditioned else 0.2 * float(pairs.count), np.random.default_rng(1).standard_normal(20)
    batch = jax.tree.map(lambda leaf: jnp.stack((leaf, jnp.zeros_like(leaf))), pairs)

    @jax.jit
    def solved(pairs, ridge):
        each = jax.vmap(lambda p: algorithms.ridge_solution(p, ridge, start, 1e-10, conditioned), axis_name=RUNS)
        return each(pairs)

    found = solved(batch, ridge)
    expected = np.linalg.solve(known[1] + ridge * np.eye(20), known[2])
    np.testing.assert_allclose(found[0], expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        found[0], pairrank_kernels.ridge_solution(known[1], ridge, known[2], start, 1e-10), rtol=1e-6
    )
    nothing = jax.tree.map(jnp.zeros_like, batch)  # no run has a pair yet, and no ridge either
    np.testing.assert_array_equal(solved(nothing, 0.0)[0], start)


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_are_certain_as_in_the_kernel(seed):
    rng = np.random.default_rng(seed)
    learned = rng.standard_normal((20, 5))
    inverse = np.linalg.inv(0.1 * np.eye(5) + learned.T @ learned)
    features, weights = rng.random((12, 5)), rng.standard_normal(5) * 3.0
    features[7] = features[2]
    scores = features @ weights
    order = np.argsort(-scores, kind="stable")
    expected = pairrank_kernels._certainly_above(scores[order], features[order], inverse, 0.7, False)
    found = jax.jit(algorithms.certain_pairs)(scores, features, inverse, 0.7)
    np.testing.assert_array_equal(np.asarray(found)[np.ix_(order, order)].T, expected)
    assert 10 < expected.sum() < 65  # of 66 pairs, one of them of equal documents


@pytest.mark.parametrize("transitive", [True, False])
def test_blocks_are_cut_where_the_kernel_cuts(transitive):
    """Certain pairs at random, most of them not those that others imply; some of the documents are not there."""
    rng, find, counts = np.random.default_rng(8), jax.jit(algorithms.blocks), []
    for share in np.repeat((0.3, 0.6, 0.8, 0.9, 0.97), 30):
        size = int(rng.integers(1, 13))
        above = np.tril(rng.random((size, size)) < share, -1)  # by score, the best first: (i, j), j is better
        closed = above.copy()
        if transitive:
            for k in range(size):
                closed |= closed[:, [k]] & closed[[k], :]
        expected = np.cumsum(pairrank_kernels._block_starts(closed))
        where = rng.permutation(size)  # the document at each rank
        scores, certain, both = np.full(13, -np.inf), np.zeros((13, 13), bool), np.zeros((13, 13), bool)
        scores[where], both[:size, :size] = -np.arange(size), True
        certain[np.ix_(where, where)] = above.T
        found = find(*map(jnp.asarray, (scores, certain, ~certain & both)), transitive)
        np.testing.assert_array_equal(found[where], expected)
        counts.append(expected[-1] / size)
    assert min(counts) < 0.2 < 0.8 < max(counts)


def test_pairs_are_matched_at_random_each_position_once():
    clicks, seen = np.arange(10) % 4 == 0, np.arange(10) < 9  # 3 clicks, 6 seen without a click
    keys = jnp.stack((jnp.full(3000, 5, jnp.uint32), jnp.arange(3000, dtype=jnp.uint32)), axis=1)
    match = jax.vmap(lambda key: algorithms.matched(clicks, seen, Draws(key, jnp.int32(2), jnp.float64)))
    rows = np.asarray(jax.jit(match)(keys))
    assert (rows.max(axis=2)[:, :3] == 1.0).all()
    assert not rows[:, 3:].any()
    assert (np.abs(rows).sum(axis=1) <= 1.0).all()
    together = np.einsum("npi,npj->ij", np.maximum(rows, 0.0), np.maximum(-rows, 0.0))
    np.testing.assert_allclose(together[np.ix_(clicks, seen & ~clicks)], 500.0, atol=90.0)
    assert together.sum() == 9000.0
    none = algorithms.matched(np.zeros(10, bool), seen, Draws(keys[0], jnp.int32(2), jnp.float64))
    assert not none.any()


def test_only_short_loops_are_written_out(monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    assert projection.unrolls(20)
    assert not projection.unrolls(210)
