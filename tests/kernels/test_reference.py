"""Every kernel has the results of its slow, obvious reference, and takes the same draws from its stream."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.swap import kernels, reference, swapped
from tests.tiny import Tiny

from duelrank import parse
from duelrank.core.types import frozen
from duelrank.kernels.lanes import lane_dot
from duelrank.kernels.projection import dot, qr_basis, svd_basis
from duelrank.kernels.random import derive, normals, permutation, uniform
from duelrank.kernels.ranking import scores
from duelrank.simulation import RunSpec, simulate

ELSEWHERE = {"datasets", "documents", "thompson_pairs"}  # tested in modules of their own
NUMBERS = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5]), st.floats(-10, 10, width=32))


def streams() -> st.SearchStrategy[Any]:
    return st.integers(0, 2**62).map(lambda key: derive(key, 0))


def numbers(*shape: int) -> st.SearchStrategy[Any]:
    size = int(np.prod(shape))
    return st.lists(NUMBERS, min_size=size, max_size=size).map(lambda values: np.array(values, float).reshape(shape))


def reals(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers of all sizes between two limits, whole and tiny ones often."""
    return st.one_of(
        st.floats(low, high), st.integers(math.ceil(low), math.floor(high)).map(float), st.floats(-0.4, 0.4)
    )


def flags(size: int) -> st.SearchStrategy[Any]:
    return st.lists(st.booleans(), min_size=size, max_size=size).map(lambda values: np.array(values, bool))


def gains(size: int) -> st.SearchStrategy[Any]:
    """What the positions of a list have gained: nothing, a click, or more."""
    weights = st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, 0.3, 7.25])
    return st.lists(weights, min_size=size, max_size=size).map(lambda values: np.array(values, float))


def grades(size: int) -> st.SearchStrategy[Any]:
    return st.lists(st.integers(0, 4), min_size=size, max_size=size).map(lambda values: np.array(values, np.int8))


def orders(draw: Any, rows: int, n: int) -> Any:
    return np.array([draw(st.permutations(range(n))) for _ in range(rows)], np.int64)


def boosts(draw: Any, n: int) -> Any:
    """Boosts of documents, or none; whole numbers, so that ties are ties in both; read-only, as those of queries are."""
    found = np.array(draw(st.sampled_from([[], draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))])), float)
    return frozen(found)


def ranker_case(draw: Any) -> tuple[Any, ...]:
    n_documents, n_features, n = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.integers(0, 6))
    # Whole numbers: sums in any order are exact, so ties are ties in both.
    whole = st.integers(-3, 3).map(float)

    def table(*shape: int) -> Any:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(whole, min_size=size, max_size=size))).reshape(shape)

    tables = table(n_features), table(n, n_features), 1.0, table(n_documents, n_features)
    return *tables, boosts(draw, n_documents), draw(streams())


def compared_case(draw: Any) -> tuple[Any, ...]:
    *parts, stream = ranker_case(draw)
    return *parts, draw(st.booleans()), stream


def scores_case(draw: Any) -> tuple[Any, ...]:
    n_features = draw(st.integers(1, 40))
    return draw(numbers(draw(st.integers(1, 9)), n_features)), draw(numbers(draw(st.integers(1, 5)), n_features))


def sorted_rows_case(draw: Any) -> tuple[Any, ...]:
    """Scores with ties, both zeros, infinities, and neighbours that differ in their last bits only, of either sign."""
    rows, n = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    near = st.integers(-20, 20).map(lambda steps: 1.0 + steps * 2.0**-52)
    value = st.one_of(st.integers(-3, 3).map(float), near, st.sampled_from([-0.0, 5e-324, 1e308, np.inf]))
    signed = st.tuples(value, st.sampled_from([1.0, -1.0])).map(lambda pair: pair[0] * pair[1])
    table = np.array(draw(st.lists(signed, min_size=rows * n, max_size=rows * n))).reshape(rows, n)
    return table, np.array(draw(st.permutations(range(n))), np.int64)


def split_case(draw: Any) -> tuple[Any, ...]:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n = int(offsets[-1])
    features = np.array(draw(st.lists(st.integers(-3, 3), min_size=2 * n, max_size=2 * n)), float).reshape(n, 2)
    return np.array([1.0, -1.0]), features, draw(grades(n)), offsets, draw(streams())


def rows_case(draw: Any) -> tuple[Any, ...]:
    """Rows with a clear rank: whole numbers, among them duplicates and sums of others."""
    d, m = draw(st.integers(1, 8)), draw(st.integers(0, 6))
    rows = np.array(draw(st.lists(st.integers(-4, 4), min_size=m * d, max_size=m * d)), float).reshape(m, d)
    if m > 1 and draw(st.booleans()):
        rows = np.vstack([rows, rows[0], rows[0] + rows[1], np.zeros(d)])
    return rows, -1.0


def singular_vectors(rows: Any) -> Any:
    """Orthonormal rows that span the given rows, by their singular values."""
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    return vectors[values > max(rows.shape) * np.finfo(float).eps * values.max(initial=0.0)]


def basis_case(draw: Any) -> tuple[Any, ...]:
    rows, _ = rows_case(draw)
    return draw(numbers(rows.shape[1])), singular_vectors(rows)


def ridge_case(draw: Any) -> tuple[Any, ...]:
    rows, _ = rows_case(draw)
    return draw(numbers(rows.shape[1])), rows, draw(st.sampled_from([1e-3, 0.5, 100.0]))


def examined_case(draw: Any) -> tuple[Any, ...]:
    n = draw(st.integers(1, 6))
    length = draw(st.integers(1, n))
    ranking = np.array(draw(st.permutations(range(n)))[:length], np.int64)
    return draw(numbers(n, 3)), ranking, draw(flags(length)), draw(numbers(draw(st.integers(0, 4)), 3))


def losers_case(draw: Any) -> tuple[Any, ...]:
    """At least two dimensions are left: in one, all draws reach equally far and rounding would choose among them."""
    n_features = draw(st.integers(2, 8))
    key = draw(st.integers(0, 2**62))  # streams of different numbers: a draw that equals a loser leaves only rounding
    losers = normals(derive(key, 1), draw(st.integers(0, n_features - 2)), n_features)
    losers = np.vstack([losers, losers[:1]])  # a direction that lost twice
    return singular_vectors(losers), normals(derive(key, 2), 3, n_features), 12, 5, derive(key, 3)


def span_case(draw: Any) -> tuple[Any, ...]:
    return rows_case(draw)[0], draw(st.integers(1, 5)), draw(st.booleans()), draw(streams())


def spanning_case(draw: Any) -> tuple[Any, ...]:
    weights, _, _, features, *_ = ranker_case(draw)
    return features, weights, draw(st.integers(1, 12)), draw(st.booleans())


def remember_case(draw: Any) -> tuple[Any, ...]:
    k, n = draw(st.integers(0, 5)), draw(st.integers(1, 5))
    credit = np.array(draw(st.lists(st.integers(0, 3), min_size=n + 1, max_size=n + 1)), float)
    margins = np.array(draw(st.lists(st.integers(-3, -1), min_size=k, max_size=k)), float)
    return draw(numbers(k, 2)), margins, draw(numbers(n, 2)), credit, draw(st.integers(1, 8)), draw(st.integers(1, 6))


def worst_case(draw: Any) -> tuple[Any, ...]:
    losers, margins, *_ = remember_case(draw)
    return losers, margins, draw(st.integers(0, 6))


def leave_case(draw: Any) -> tuple[Any, ...]:
    n_documents = draw(st.integers(1, 8))
    rankings = partly(draw, orders(draw, draw(st.integers(1, 4)), n_documents))
    return rankings, draw(st.integers(1, n_documents)), 3.0, draw(streams())


def partly(draw: Any, rankings: Any) -> Any:
    """Some rankers but one, in any row, return some documents only."""
    complete = draw(st.integers(0, len(rankings) - 1))
    for i, row in enumerate(rankings):
        row[draw(st.integers(0, row.size)) if i != complete else row.size :] = -1
    return rankings


def ranks_case(draw: Any) -> tuple[Any, ...]:
    rankings, length, tau, stream = leave_case(draw)
    _, ranks, sizes = reference("multileaving", "probabilistic_leave")(rankings, length, tau, stream)
    return ranks, draw(gains(length)), sizes, tau


def replay_ranks_case(draw: Any) -> tuple[Any, ...]:
    n_documents = draw(st.integers(1, 8))
    rankings = orders(draw, draw(st.integers(1, 4)), n_documents)
    ranking = orders(draw, 1, n_documents)[0][: draw(st.integers(1, n_documents))]
    return reference("multileaving", "shown_ranks")(rankings, ranking), n_documents, 3.0


def replayed_case(draw: Any) -> tuple[Any, ...]:
    """Whole numbers: ties are ties in both."""
    weights, directions, _, features, _, stream = ranker_case(draw)
    ranking = np.array(draw(st.permutations(range(len(features)))), np.int64)[: draw(st.integers(1, len(features)))]
    rankers, place = np.vstack([weights, directions]), permutation(stream, len(features) + 2)
    return rankers, features, ranking, place, 3.0, np.ones((len(rankers), len(ranking) + 1))


def outcome_case(draw: Any) -> tuple[Any, ...]:
    length = draw(st.integers(1, 6))
    chances = np.array(draw(st.lists(st.floats(1e-6, 1.0), min_size=2 * length, max_size=2 * length)))
    return *chances.reshape(2, length), draw(gains(length)), draw(st.floats(-30.0, 0.0))


def tournament_case(draw: Any) -> tuple[Any, ...]:
    """Chances in general position, but for a ranker that equals another: there a coin decides."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 4)))
    chances = uniforms(derive(draw(st.integers(0, 2**62)), 0), shape)
    chances[:, -1] = chances[:, 0]
    gained = np.array([draw(gains(shape[2])) for _ in range(shape[0])])
    sources = np.array(draw(st.lists(st.floats(-2000.0, 0.0), min_size=shape[0], max_size=shape[0])))
    return chances, gained, sources, draw(st.integers(1, 6)), draw(streams())


def uniforms(stream: Any, shape: tuple[int, ...]) -> Any:
    return np.array([0.01 + 0.99 * uniform(stream) for _ in range(int(np.prod(shape)))]).reshape(shape)


def preference_case(draw: Any) -> tuple[Any, ...]:
    wins = np.array(draw(st.lists(st.floats(0, 0.5), max_size=5)))
    losses = np.array([draw(st.floats(0, 0.5)) for _ in wins])
    return wins, losses, np.array([draw(st.sampled_from([1, 1, 2, 30])) for _ in wins], np.int64)


def whole_gains_case(draw: Any) -> tuple[Any, ...]:
    """Gains with a common measure, and gains of any ratio."""
    measured = st.integers(1, 40).map(lambda n: n * draw(st.sampled_from([1.0, 0.1, 1 / 3, 1e-30, 1e300])))
    gain = st.one_of(st.just(0.0), measured, st.sampled_from([3.14159, 0.0271828, 1e9, 1e-300]))
    return (np.array(draw(st.lists(gain, min_size=1, max_size=8))),)


SIZES = st.sampled_from([0, 1, 7, 60, 500])
SHARES = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(1e-6, 1.0))


def shares(draw: Any, n: int) -> Any:
    """Probabilities that sum to 1, some of them 0."""
    masses = np.array([draw(st.sampled_from([0.0, 0.01, 0.3, 1.0])) for _ in range(n)]) + np.eye(n)[0]
    return masses / masses.sum()


def assignments_case(draw: Any) -> tuple[Any, ...]:
    n = draw(st.integers(1, 4))
    table = np.array([shares(draw, n) for _ in range(draw(st.integers(0, 4)))]).reshape(-1, n)
    return table, draw(st.sampled_from([1, 5, 60, 500])), draw(streams())


def sampled_case(draw: Any) -> tuple[Any, ...]:
    table, samples, stream = assignments_case(draw)
    owners, times = reference("multileaving", "assignments")(table, samples, stream)
    steps = np.array([draw(st.sampled_from([1, 1, 2, 5])) for _ in table], np.int64)
    return owners, times, steps, table.shape[1], draw(st.integers(0, table.shape[1] - 1))


def draft_case(draw: Any) -> tuple[Any, ...]:
    rankings, length, _, stream = leave_case(draw)
    if draw(st.booleans()):  # a top that all agree on
        rankings[:] = rankings[(rankings >= 0).all(axis=1)][0]
        rankings[1:, -1], rankings[1:, 0] = rankings[1:, 0].copy(), rankings[1:, -1].copy()
    return rankings, length, stream


def pair_draft_case(draw: Any) -> tuple[Any, ...]:
    rankings, length, stream = draft_case(draw)
    if len(rankings) == 1:
        rankings = np.repeat(rankings, 2, axis=0)
    return rankings, length, stream


def teams_case(draw: Any) -> tuple[Any, ...]:
    n, length = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    teams = np.array(draw(st.lists(st.integers(-1, n - 1), min_size=length, max_size=length)), np.int64)
    return teams, draw(gains(length)), n


def chances(*shape: int) -> st.SearchStrategy[Any]:
    size = int(np.prod(shape))
    return st.lists(st.floats(0, 1), min_size=size, max_size=size).map(lambda values: np.array(values).reshape(shape))


def duel_case(draw: Any) -> tuple[Any, ...]:
    n_documents = draw(st.integers(1, 8))
    return partly(draw, orders(draw, 2, n_documents)), draw(st.integers(1, n_documents)), draw(streams())


def shown_ranks_case(draw: Any) -> tuple[Any, ...]:
    rankings, length, _, _ = leave_case(draw)
    return rankings, np.array(draw(st.permutations(range(rankings.shape[1])))[:length], np.int64)


def lists_case(draw: Any) -> tuple[Any, ...]:
    rankings, length, _, stream = leave_case(draw)
    return rankings, length, draw(st.integers(1, 4)), stream


def rank_rows_case(draw: Any) -> tuple[Any, ...]:
    """Ranks, in two rankings, of some documents, and what they have gained."""
    ranks = reference("multileaving", "shown_ranks")(
        partly(draw, orders(draw, 2, 8)), np.arange(draw(st.integers(1, 8)))
    )
    return ranks, draw(gains(ranks.shape[1]))


def pairs_case(draw: Any) -> tuple[Any, ...]:
    rankings, length, _, stream = leave_case(draw)
    ranking, earliest, choices = reference("multileaving", "pairwise_preference_leave")(rankings, length, stream)
    return reference("multileaving", "shown_ranks")(rankings, ranking), earliest, choices, draw(gains(length))


def cascade_case(draw: Any) -> tuple[Any, ...]:
    labels, rows = draw(grades(draw(st.integers(0, 10)))), draw(st.integers(1, 4))
    n_grades = draw(st.sampled_from([5, 5, 5, 3]))  # of three, a label may be without probabilities
    stops = draw(chances(rows, n_grades)), draw(chances(rows, n_grades))
    return labels, draw(chances(n_grades)), *stops, draw(streams())


def browse_case(draw: Any) -> tuple[Any, ...]:
    labels, click = draw(grades(draw(st.integers(0, 10)))), draw(chances(draw(st.sampled_from([5, 5, 5, 3]))))
    return labels, click, draw(st.floats(0, 3)), draw(st.floats(0, 3)), draw(st.booleans()), draw(streams())


def chosen_case(draw: Any) -> tuple[Any, ...]:
    chosen = np.flatnonzero(draw(flags(4)))
    return draw(numbers(4, 3)), chosen, draw(st.booleans())


def shown_case(draw: Any) -> tuple[Any, Any]:
    labels = draw(grades(draw(st.integers(1, 15))))
    shown = labels[np.array(draw(st.permutations(range(labels.size)))[: draw(st.integers(1, labels.size))])]
    return shown, labels


def weighted_case(draw: Any) -> tuple[Any, ...]:
    n = draw(st.integers(1, 6))
    # Credits from a coarse grid: a margin is zero or far from it, so both sides agree on which are rounding.
    credit = np.array(draw(st.lists(st.integers(-4, 4), min_size=n + 1, max_size=n + 1)), float) / 4
    return normals(draw(streams()), n, 3), credit, draw(st.booleans()), draw(st.booleans())


def replay_case(draw: Any) -> tuple[Any, ...]:
    n = draw(st.integers(1, 8))
    return orders(draw, 3, n), draw(gains(n))


def lambdas_case(draw: Any) -> tuple[Any, ...]:
    """Whole numbers for scores: ties are ties in both."""
    n = draw(st.integers(1, 9))
    scored = np.array(draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), float)
    return scored, draw(grades(n)), draw(st.sampled_from([0.5, 1.0, 2.0])), draw(st.integers(1, 12))


def labelled_case(draw: Any) -> tuple[Any, ...]:
    """Features in general position: were scores equal but for rounding, it would choose the order."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    key, n = draw(st.integers(0, 2**62)), int(offsets[-1])
    labels = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), np.int8)  # some queries have one grade
    return normals(derive(key, 1), 1, 3)[0], normals(derive(key, 2), n, 3), labels, offsets


def adam_case(draw: Any) -> tuple[Any, ...]:
    return draw(numbers(3)), np.abs(draw(numbers(2, 3))), draw(st.integers(1, 9)), draw(numbers(3)), 0.1


def descend_case(draw: Any) -> tuple[Any, ...]:
    weights, features, labels, offsets = labelled_case(draw)
    cutoff, order, batch = draw(st.integers(1, 6)), orders(draw, 1, len(offsets) - 1)[0], draw(st.integers(1, 4))
    step = draw(st.integers(0, 3))
    return weights, np.zeros((2, 3)), step, features, labels, offsets, 1.0, cutoff, order, batch, 0.1


def model_case(n_columns: int) -> Callable[[Any], tuple[Any, ...]]:
    def case(draw: Any) -> tuple[Any, ...]:
        n, d = draw(st.integers(1, 7)), draw(st.integers(1, 4))
        length = draw(st.integers(1, n))
        ranking = np.array(draw(st.permutations(range(n)))[:length], np.int64)
        documents = np.vstack([draw(numbers(d + 1)), np.abs(draw(numbers(d + 1)))])
        trials = np.array(draw(st.lists(st.floats(0.5, 50), min_size=n_columns, max_size=n_columns)))
        chances = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.01, 0.99))
        users = np.array([trials * [draw(chances) for _ in trials], trials])
        forgetting = draw(st.sampled_from([-1.0, 0.0, 0.9, 1.0]))
        return draw(numbers(n, d)), ranking, draw(flags(length)), documents, users, forgetting

    return case


def gaps_case(draw: Any) -> Any:
    chances = np.array(draw(st.lists(st.floats(0.5, 50), min_size=5, max_size=5)))
    rates = [draw(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.01, 0.99))) for _ in chances]
    return np.array([chances * rates, chances])


def counts_case(draw: Any) -> tuple[Any, ...]:
    """A model of what was seen and clicked, and in how many rounds."""
    seen = np.array(draw(st.lists(st.integers(0, 40), min_size=1, max_size=9)), np.int64)
    clicked = np.array([draw(st.integers(0, int(n))) for n in seen], np.int64)
    return np.array([seen, clicked]), draw(st.integers(0, 1000))


def count_case(draw: Any) -> tuple[Any, ...]:
    model, _ = counts_case(draw)
    ranking = orders(draw, 1, model.shape[1])[0][: draw(st.integers(1, model.shape[1]))]
    return model, ranking, draw(flags(len(ranking))), draw(st.integers(0, len(ranking)))


def bucket_case(draw: Any) -> tuple[Any, ...]:
    """Records of a few keys, and a key that may be one of them."""
    keys = draw(st.lists(st.integers(-5, 5), unique=True, max_size=5))
    models = [draw(st.lists(st.integers(0, 9), max_size=4)) for _ in keys]
    records = [[key, 10 + i, i, len(model), *model] for i, (key, model) in enumerate(zip(keys, models, strict=True))]
    return np.array([number for record in records for number in record], np.int64), draw(st.integers(-5, 5))


def remembered_case(draw: Any) -> tuple[Any, ...]:
    """Some known documents, with clicks and views."""
    known = np.array(draw(st.lists(st.integers(-4, 9), unique=True, max_size=6)), np.int64)
    views = [draw(st.sampled_from([0.25, 1.0, 7.5])) for _ in known]
    return known, np.array([[draw(st.integers(0, 3)) for _ in known], views], float)


def remembered_boosts_case(draw: Any) -> tuple[Any, ...]:
    known, counts = remembered_case(draw)
    documents = np.array(draw(st.lists(st.integers(-4, 9), unique=True, min_size=1, max_size=6)), np.int64)
    doubt = draw(st.sampled_from([1e-6, 1.0, 4.0]))
    model = np.concatenate(([len(known)], known, counts.ravel().view(np.int64)))
    return model, draw(st.floats(0, 1)), documents, draw(st.sampled_from([0.0, 3.0])), doubt


def raised_case(draw: Any) -> tuple[Any, ...]:
    model, _, documents, *_ = remembered_boosts_case(draw)
    return draw(numbers(len(documents))), model, documents, draw(streams())


def drawn_case(draw: Any) -> tuple[Any, ...]:
    return *remembered_boosts_case(draw), draw(st.sampled_from([0.0, 0.5, 1.0])), draw(streams())


def remembered_count_case(draw: Any) -> tuple[Any, ...]:
    """A list with known and new documents, of which some were clicked, some seen, and some neither."""
    known, counts = remembered_case(draw)
    shown = np.array(draw(st.lists(st.integers(-4, 9), unique=True, min_size=1, max_size=6)), np.int64)
    seen = np.array([draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])) for _ in shown])
    clicks = draw(flags(len(shown))).astype(float)
    return known, counts, shown, clicks, seen, draw(st.sampled_from([1.0, 0.9])), draw(st.integers(1, 9))


def texts_case(draw: Any) -> tuple[Any, ...]:
    texts = [text.encode() for text in draw(st.lists(st.text(max_size=9), max_size=5))]
    return np.frombuffer(b"".join(texts), np.uint8), np.array([len(text) for text in texts], np.int64)


def batches_case(draw: Any) -> Any:
    """A model of BatchRank with two batches at most, other documents eliminated; counts in a batch differ by one at most."""
    n = draw(st.integers(1, 8))
    positions = draw(st.integers(1, n))
    cut = draw(st.integers(0, positions - 1))  # 0: one batch
    sizes = [(0, cut), (cut, positions - cut)] if cut else [(0, positions)]
    model, documents = np.zeros((7, n), np.int64), list(draw(st.permutations(range(n))))
    model[0] = -1
    for i, (first, size) in enumerate(sizes):
        spare = len(documents) - sum(other for _, other in sizes[i:])
        least = draw(st.sampled_from([0, 1, 11, 12, 17, 18]))
        model[5, first], model[6, first] = size, draw(st.integers(0, 2))
        for _ in range(size + draw(st.integers(0, spare))):
            document = documents.pop()
            seen = least + draw(st.integers(0, 1))
            model[:3, document] = first, seen, draw(st.integers(0, seen))
            model[3:5, document] = model[1:3, document] + draw(st.integers(0, 5))
    return model


def display_case(draw: Any) -> tuple[Any, ...]:
    model = batches_case(draw)
    return model, draw(st.integers(1, model.shape[1])), draw(streams())


def collect_case(draw: Any) -> tuple[Any, ...]:
    """A list of this model, or of another one whose batches it may not have."""
    model = batches_case(draw)
    length = draw(st.integers(1, model.shape[1]))
    ranking, batches = reference("bandits", "display")(model, length, draw(streams()))
    if draw(st.booleans()):
        ranking = orders(draw, 1, model.shape[1])[0][:length]
        batches = np.array([[draw(st.integers(0, 3)) for _ in range(length)] for _ in range(2)], np.int64)
    return model, ranking, draw(flags(length)), batches


def plackett_luce_case(draw: Any) -> tuple[Any, ...]:
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    length = draw(st.integers(1, n))
    ranking = np.array(draw(st.permutations(range(n)))[:length], np.int64)
    return draw(numbers(d)), draw(numbers(n, d)), boosts(draw, n), draw(numbers(n)), ranking, draw(gains(length))


def skips_case(draw: Any) -> tuple[Any, ...]:
    weights, features, added, _, ranking, gained = plackett_luce_case(draw)
    seen = draw(st.lists(st.floats(0, 1), min_size=len(ranking), max_size=len(ranking)))
    return weights, features, added, ranking, gained, np.array(seen, float)


def knots_case(draw: Any, least: int = 2, most: int = 6) -> tuple[Any, ...]:
    """Values on knots, between and beyond them; knots of which some are equal."""
    n, d, n_knots = draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(least, most))
    knots = np.sort(np.array(draw(st.lists(st.integers(-4, 4), min_size=d * n_knots, max_size=d * n_knots)), float))
    return draw(numbers(n, d)), np.sort(knots.reshape(d, n_knots), axis=1)


def bends_case(draw: Any) -> tuple[Any, ...]:
    return *knots_case(draw), draw(st.sampled_from([0.25, 1.0]))


def carry_case(draw: Any) -> tuple[Any, ...]:
    """Weights of a line and of ramps, old knots, and new knots on them, between and beyond them."""
    n_old, n_new, d = draw(st.integers(2, 5)), draw(st.integers(2, 5)), draw(st.integers(1, 4))
    values = np.array(
        draw(st.lists(st.integers(-4, 4), min_size=d * (n_old + n_new), max_size=d * (n_old + n_new))), float
    )
    old, new = np.split(values, [d * n_old])
    weights = draw(numbers(1 if n_old == 2 else n_old, d)).ravel()
    return weights, np.sort(old.reshape(d, -1), 1), np.sort(new.reshape(d, -1), 1), draw(st.sampled_from([0.25, 1.0]))


def steps_case(draw: Any) -> tuple[Any, ...]:
    return knots_case(draw, least=3)


def filled_case(draw: Any) -> tuple[Any, ...]:
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    features, missing = draw(numbers(n, d)), draw(flags(n * d)).reshape(n, d)
    values = np.where(draw(flags(d)), np.nan, draw(numbers(d)))
    return np.where(missing, np.nan, features), values


def slots_case(draw: Any) -> tuple[Any, ...]:
    seen, n = draw(st.integers(0, 60)), draw(st.integers(1, 30))
    return seen, n, draw(st.integers(1, 20)), draw(st.integers(20, 60)), draw(streams())


def plackett_luce_draw_case(draw: Any) -> tuple[Any, ...]:
    n, d = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    return draw(numbers(d)), draw(numbers(n, d)), boosts(draw, n), draw(st.integers(1, n)), draw(streams())


def blocks_case(draw: Any) -> tuple[Any, ...]:
    """Whole numbers for features and weights: ties are ties in both."""
    n, d, key = draw(st.integers(1, 9)), draw(st.integers(1, 4)), draw(st.integers(0, 2**62))
    features = np.array(draw(st.lists(st.integers(-3, 3), min_size=n * d, max_size=n * d)), float).reshape(n, d)
    weights = np.array(draw(st.lists(st.integers(-2, 2), min_size=d, max_size=d)), float)
    known = weights, inverse_of(key, d), features, boosts(draw, n)
    width = draw(st.sampled_from([0.0, 0.03, 0.1, 0.3]))
    return *known, width, draw(st.booleans()), draw(st.integers(1, n)), derive(key, 1)


def inverse_of(key: int, d: int) -> Any:
    rows = normals(derive(key, 0), d + 2, d)
    return np.linalg.inv(np.eye(d) + rows.T @ rows)


def inverse_case(draw: Any) -> tuple[Any, ...]:
    d = draw(st.integers(1, 6))
    return inverse_of(draw(st.integers(0, 2**62)), d), draw(numbers(draw(st.integers(0, 4)), d))


def pairs_known_case(draw: Any) -> tuple[Any, ...]:
    """Weights of zero among them, where parabolas are the steepest; and new pairs, whose bound is zero."""
    curvature, differences = inverse_case(draw)
    d, n = curvature.shape[0], len(differences)
    bounds = draw(st.sampled_from([np.zeros(n), 0.25 * draw(chances(n))]))
    known = curvature + (differences.T * bounds) @ differences
    return (
        draw(st.sampled_from([np.zeros(d), draw(numbers(d))])),
        known,
        draw(numbers(d)),
        differences,
        1.0 + draw(gains(n)),
        bounds,
    )


def fit_case(draw: Any) -> tuple[Any, ...]:
    return *pairs_known_case(draw), draw(st.floats(0.1, 10.0)), 1e-13


def solution_case(draw: Any) -> tuple[Any, ...]:
    inverse, _ = inverse_case(draw)
    d = inverse.shape[0]
    return inverse, draw(st.floats(0.1, 10.0)), draw(numbers(d)), draw(numbers(d)), 1e-13


def seen_case(draw: Any) -> tuple[Any, ...]:
    n = draw(st.integers(1, 10))
    return draw(flags(n)), draw(flags(n)), draw(streams())


Case = Callable[[Any], tuple[Any, ...]]
CASES: dict[tuple[str, str], Case] = {
    ("random", "split_mix"): lambda draw: (np.uint64(draw(st.integers(0, 2**64 - 1))),),
    ("random", "derive"): lambda draw: (draw(st.integers(0, 2**62)), draw(st.integers(0, 2**62))),
    ("random", "bits"): lambda draw: (draw(streams()),),
    ("random", "uniform"): lambda draw: (draw(streams()),),
    ("random", "normal"): lambda draw: (draw(streams()),),
    ("random", "below"): lambda draw: (draw(streams()), draw(st.integers(1, 2**32))),
    ("random", "integers"): lambda draw: (draw(streams()), draw(st.integers(1, 100)), draw(st.integers(0, 50))),
    ("random", "normals"): lambda draw: (draw(streams()), draw(st.integers(0, 9)), draw(st.integers(1, 60))),
    ("random", "permutation"): lambda draw: (draw(streams()), draw(st.integers(0, 30))),
    ("random", "categories"): lambda draw: (draw(streams()), shares(draw, draw(st.integers(1, 9))), draw(SIZES)),
    ("random", "binomial"): lambda draw: (draw(streams()), draw(SIZES), draw(SHARES)),
    ("random", "multinomial"): lambda draw: (draw(streams()), draw(SIZES), shares(draw, draw(st.integers(1, 9)))),
    ("ranking", "scores"): scores_case,
    ("ranking", "linear_scores"): lambda draw: tuple(
        each if n else each[0] for n, each in enumerate(scores_case(draw))
    ),
    ("ranking", "best_first"): lambda draw: (sorted_rows_case(draw)[0][0],),
    ("ranking", "sorted_rows"): sorted_rows_case,
    ("ranking", "add_boosts"): lambda draw: (draw(numbers(draw(st.integers(1, 3)), 4)), boosts(draw, 4)),
    ("ranking", "rankings"): ranker_case,
    ("ranking", "separate_rankings"): ranker_case,
    ("ranking", "compared_rankings"): compared_case,
    ("ranking", "ranked_labels"): split_case,
    ("projection", "dot"): lambda draw: (draw(numbers(7)), draw(numbers(7))),
    ("projection", "norm"): lambda draw: (draw(numbers(7)),),
    ("projection", "svd_basis"): rows_case,
    ("projection", "subtract"): lambda draw: (draw(numbers(7)), draw(NUMBERS), draw(numbers(7))),
    ("projection", "relative_tolerance"): lambda draw: (
        draw(st.sampled_from([-1.0, 0.0, 0.3])),
        draw(st.integers(1, 50)),
        7,
    ),
    ("projection", "qr_basis"): rows_case,
    ("projection", "project"): basis_case,
    ("projection", "ridge_project"): ridge_case,
    ("projection", "examined_rows"): examined_case,
    ("projection", "rescaled_mix"): lambda draw: (
        draw(numbers(3)),
        draw(numbers(3)),
        draw(st.floats(0, 1)),
        draw(st.integers(0, 2)),
    ),
    ("elementary", "power_of_two"): lambda draw: (draw(st.integers(-1022, 1023)),),
    ("elementary", "exp"): lambda draw: (draw(reals(-800, 800)),),
    ("elementary", "expm1"): lambda draw: (draw(reals(-40, 40)),),
    ("elementary", "log"): lambda draw: (draw(st.floats(0.0, allow_infinity=False)),),
    ("elementary", "log_unchecked"): lambda draw: (draw(st.floats(1e-300, 1e300)),),
    ("elementary", "log2"): lambda draw: (draw(st.floats(1e-300, 1e300)),),
    ("elementary", "log1p"): lambda draw: (draw(reals(-0.99, 1e6)),),
    ("elementary", "tanh"): lambda draw: (draw(reals(-30, 30)),),
    ("elementary", "power"): lambda draw: (draw(st.floats(1e-3, 1e3)), draw(reals(-70, 70))),
    ("elementary", "log_gamma"): lambda draw: (draw(st.floats(1.0, 1e6)),),
    ("elementary", "exps"): lambda draw: (draw(numbers(2, 3)),),
    ("elementary", "logs"): lambda draw: (1.0 + np.abs(draw(numbers(4))),),
    ("elementary", "log1ps"): lambda draw: (np.abs(draw(numbers(4))),),
    ("projection", "position_based"): model_case(3),
    ("projection", "dependent_click"): model_case(4),
    ("projection", "dynamic_bayesian"): model_case(2),
    ("projection", "count_gaps"): lambda draw: (
        draw(flags(draw(st.integers(0, 10)))),
        gaps_case(draw),
        draw(st.floats(0, 1)),
    ),
    ("projection", "reach"): lambda draw: (
        gaps_case(draw),
        draw(st.integers(0, 9)),
        draw(st.sampled_from([0.0, 0.2, 0.9])),
    ),
    ("exploration", "normalise_rows"): lambda draw: (draw(numbers(3, 4)),),
    ("exploration", "unit_directions"): lambda draw: (
        draw(st.integers(1, 9)),
        draw(st.integers(1, 50)),
        draw(streams()),
    ),
    ("exploration", "spanning_rows"): spanning_case,
    ("exploration", "span_directions"): span_case,
    ("exploration", "null_space_directions"): losers_case,
    ("exploration", "worst_rows"): worst_case,
    ("exploration", "remember_losers"): remember_case,
    ("multileaving", "probabilistic_leave"): leave_case,
    ("multileaving", "placements"): ranks_case,
    ("multileaving", "whole_gains"): whole_gains_case,
    ("multileaving", "preference"): preference_case,
    ("multileaving", "probabilistic_credit"): ranks_case,
    ("multileaving", "assignments"): assignments_case,
    ("multileaving", "sampled_preference"): sampled_case,
    ("exploration", "draw_chances"): replay_ranks_case,
    ("exploration", "log_probability"): replay_ranks_case,
    ("exploration", "replay"): replayed_case,
    ("exploration", "replayed_outcome"): outcome_case,
    ("exploration", "tournament"): tournament_case,
    ("multileaving", "team_draft_leave"): draft_case,
    ("multileaving", "pair_draft_leave"): pair_draft_case,
    ("multileaving", "team_draft_credit"): teams_case,
    ("multileaving", "shown_ranks"): shown_ranks_case,
    ("multileaving", "returned"): lambda draw: (leave_case(draw)[0],),
    ("multileaving", "next_new"): lambda draw: (leave_case(draw)[0][0], draw(st.integers(0, 3)), draw(flags(8))),
    ("multileaving", "draw_lists"): lists_case,
    ("multileaving", "balanced_leave"): duel_case,
    ("multileaving", "balanced_credit"): rank_rows_case,
    ("multileaving", "contested_pairs_credit"): rank_rows_case,
    ("multileaving", "sample_only_scored_credit"): lambda draw: (
        *rank_rows_case(draw),
        draw(st.sampled_from([0.0, 1.0, 3.0])),
    ),
    ("multileaving", "pairwise_preference_leave"): draft_case,
    ("multileaving", "pair_weights"): lambda draw: pairs_case(draw)[1:],
    ("multileaving", "pairwise_preference_credit"): pairs_case,
    ("users", "cascade"): cascade_case,
    ("users", "browse"): browse_case,
    ("lambdarank", "lambdas"): lambdas_case,
    ("lambdarank", "gradient"): lambda draw: (*labelled_case(draw), 1.0, draw(st.integers(1, 6))),
    ("lambdarank", "adam_step"): adam_case,
    ("lambdarank", "descend"): descend_case,
    ("representation", "ramps"): knots_case,
    ("representation", "line_and_ramps"): bends_case,
    ("representation", "line_and_ramp_heights"): lambda draw: [
        each for n, each in enumerate(carry_case(draw)) if n != 2
    ],
    ("representation", "carry_line_and_ramps"): carry_case,
    ("representation", "steps"): steps_case,
    ("representation", "shares"): knots_case,
    ("representation", "query_ranks"): lambda draw: (draw(numbers(draw(st.integers(1, 7)), 3)),),
    ("representation", "filled"): filled_case,
    ("representation", "sample_slots"): slots_case,
    ("representation", "is_within"): lambda draw: knots_case(draw, least=2, most=2),
    ("pdgd", "draw"): plackett_luce_draw_case,
    ("pdgd", "pair_gradient"): plackett_luce_case,
    ("pdgd", "skip_gradient"): skips_case,
    ("pairrank", "shuffled_blocks"): blocks_case,
    ("pairrank", "independent_pairs"): seen_case,
    ("pairrank", "shrunk_inverse"): inverse_case,
    ("pairrank", "expanded"): pairs_known_case,
    ("pairrank", "fitted"): fit_case,
    ("pairrank", "ridge_solution"): solution_case,
    ("inference", "winners"): lambda draw: (draw(numbers(draw(st.integers(2, 8)))),),
    ("inference", "mean_direction"): chosen_case,
    ("inference", "weighted_direction"): weighted_case,
    ("inference", "last_click"): lambda draw: (draw(flags(draw(st.integers(0, 10)))),),
    ("inference", "reciprocal_sum"): lambda draw: (draw(flags(draw(st.integers(0, 10)))),),
    ("inference", "replayed_sums"): replay_case,
    ("updates", "is_zero"): lambda draw: (draw(numbers(3)),),
    ("updates", "moved"): lambda draw: (draw(numbers(3)), draw(numbers(3)), draw(st.floats(0, 1))),
    ("updates", "distance"): lambda draw: (draw(numbers(3)), draw(numbers(3))),
    ("updates", "discounted_sum"): lambda draw: (draw(numbers(draw(st.integers(0, 9)))), draw(st.floats(0, 1))),
    ("remembered", "recall"): bucket_case,
    ("remembered", "newer_records"): lambda draw: (bucket_case(draw)[0], draw(st.integers(9, 16))),
    ("remembered", "text_keys"): texts_case,
    ("remembered", "boosts"): remembered_boosts_case,
    ("remembered", "raised"): raised_case,
    ("remembered", "drawn"): drawn_case,
    ("remembered", "count"): remembered_count_case,
    ("bandits", "kl_upper"): lambda draw: (draw(st.floats(0, 1)), draw(st.floats(1e-4, 20))),
    ("bandits", "kl_budget"): lambda draw: (draw(st.floats(1, 1e9)),),
    ("bandits", "ucb1"): counts_case,
    ("bandits", "kl_ucb"): counts_case,
    ("bandits", "count"): count_case,
    ("bandits", "stage_length"): lambda draw: (draw(st.integers(0, 8)), draw(st.integers(1, 10**9))),
    ("bandits", "least_counts"): lambda draw: (batches_case(draw),),
    ("bandits", "complete"): lambda draw: (batches_case(draw), draw(st.integers(1, 3))),
    ("bandits", "display"): display_case,
    ("bandits", "collect"): collect_case,
    ("metrics", "dcg"): lambda draw: (shown_case(draw)[0], draw(st.integers(1, 12)), draw(st.booleans())),
    ("metrics", "ideal_dcg"): lambda draw: (shown_case(draw)[1], draw(st.integers(1, 12)), draw(st.booleans())),
    ("metrics", "ndcg"): lambda draw: (*shown_case(draw), draw(st.integers(1, 12)), draw(st.booleans())),
    ("metrics", "reciprocal_rank"): lambda draw: (shown_case(draw)[0], draw(st.integers(1, 12))),
    ("metrics", "average_precision"): lambda draw: (*shown_case(draw), draw(st.integers(1, 12))),
    ("metrics", "expected_reciprocal_rank"): lambda draw: (shown_case(draw)[0], draw(st.integers(1, 12)), 4),
    ("metrics", "precision"): lambda draw: (shown_case(draw)[0], draw(st.integers(1, 12))),
}


def test_every_kernel_has_a_case() -> None:
    assert {key for key in kernels() if key[0] not in ELSEWHERE} == set(CASES)


@pytest.mark.parametrize("key", CASES, ids=".".join)
@examples(15)
@given(data=st.data())
def test_kernel_equals_its_reference(key: tuple[str, str], data: st.DataObject) -> None:
    case = CASES[key](data.draw)
    fast, slow = copies(case), copies(case)
    results = kernels()[key](*fast), reference(*key)(*slow)
    if key[1].endswith("_basis"):  # any orthonormal basis of the same span will do
        results = tuple(basis.T @ basis for basis in results)  # type: ignore[assignment]
    same(fast, slow)
    same(*results)


def copies(case: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return copies of the arrays that a kernel might change; those that are read-only stay so."""
    return tuple(value.copy() if isinstance(value, np.ndarray) and value.flags.writeable else value for value in case)


def same(one: Any, other: Any) -> None:
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif one is not None:
        exact = np.asarray(one).dtype.kind != "f"
        np.testing.assert_allclose(one, other, rtol=0 if exact else 1e-9, atol=0 if exact else 1e-11)


@pytest.mark.parametrize(
    "name",
    [
        "dbgd-dsp",
        "mgd-dsp",
        "nsgd-dsp",
        "cps",
        "c-mgd",
        "pdgd",
        "pairrank",
        "remember(half_life=5, curious=0.1) >> mgd-dsp",
        "remember(queries=3, documents=4) >> pdgd",
        "remember >> pairrank",
        'pairrank(loss="sum", transitive=False)',
        "cascade-ucb1",
        "dcm-kl-ucb(queries=5)",
        "batchrank(horizon=1)",
        "mgd(multileaver=TeamDraft(), inference=BestWinner())",
        "mgd(exploration=InDocumentSpace())",
        "mgd(credit='sampled', ties='separate')",
        "wmgd-dsp",
        "mgd-dsp(examination=DynamicBayesian(forgetting=0.99), ridge=0.1)",
        "mgd-dsp(examination=AdaptiveLastClick())",
        "dbgd(multileaver=Balanced())",
        "mgd(multileaver=PairwisePreference())",
        "mgd(multileaver=SampleOnlyScored())",
    ],
)
def test_a_whole_run_on_references_is_the_run_on_kernels(name: str) -> None:
    spec = RunSpec(parse(name), Tiny(n_features=40), parse("perfect"), impressions=60, length=5)
    fast = simulate(spec)
    with swapped(lambda module, name, kernel: kernel if module in {"random", *ELSEWHERE} else reference(module, name)):
        slow = simulate(spec)
    np.testing.assert_allclose(slow.weights, fast.weights, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(slow.online, fast.online, rtol=1e-12)


@pytest.mark.parametrize("length", [*range(20), 46, 136, 700])
def test_sums_in_lanes_have_one_order(length: int) -> None:
    """The instructions that are written for LLVM do what their definition in Python does, to the bit."""
    rows, others = (normals(derive(length, n), 3, length) for n in range(2))
    wanted = [[lane_dot(row, other) for other in others] for row in rows]
    np.testing.assert_array_equal(scores(rows, others), wanted)
    assert [dot(row, others[0]) for row in rows] == [row[0] for row in wanted]


@given(data=st.data())
def test_the_basis_of_singular_vectors_is_orthonormal_and_spans_the_rows(data: st.DataObject) -> None:
    rows, tolerance = rows_case(data.draw)
    found, wanted = svd_basis(rows, tolerance), singular_vectors(rows)
    np.testing.assert_allclose(found @ found.T, np.eye(len(found)), atol=1e-12)
    np.testing.assert_allclose(found.T @ found, wanted.T @ wanted, atol=1e-9)


@pytest.mark.parametrize("tolerance", [-1.0, 0.0, 0.2])
def test_both_bases_span_the_same_where_a_row_nearly_repeats_another(tolerance: float) -> None:
    """Rows 1e-16 to 1e-13 away from another: on both sides of the cut, and in between."""
    for number in range(400):
        stream = derive(number, 1)
        rows = normals(stream, 2 + number % 12, 5 + number % 40)
        rows[-1] = rows[0] + 10.0 ** -(13 + number % 7 / 2) * normals(stream, 1, rows.shape[1])[0]
        one, other = qr_basis(rows, tolerance), svd_basis(rows, tolerance)
        np.testing.assert_allclose(one.T @ one, other.T @ other, atol=1e-12)


def test_a_direction_that_only_a_nearly_dependent_row_has_is_found() -> None:
    """Ten rows of rank three, one of them moved a little: rank four, whichever basis is asked."""
    for number in range(200):
        stream = derive(number, 0)
        rows = normals(stream, 10, 3) @ normals(stream, 3, 20)
        rows[number % 10] += 10.0 ** -(8 + number % 4) * normals(stream, 1, 20)[0]
        assert [len(basis(rows, -1.0)) for basis in (qr_basis, svd_basis)] == [4, 4]
