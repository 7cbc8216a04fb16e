"""Groups runs into batches, and compiles the program of a batch: all impressions of all its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from duelrank.algorithms import Represented
from duelrank.datasets import Dataset, Fold
from duelrank.lockstep import metrics, users
from duelrank.lockstep.algorithms import AlgorithmTwin, prepared
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.library import Library, Place, Popularity, Shelf, Training, opened, widest_query
from duelrank.lockstep.ranking import Scores, ranks_of
from duelrank.lockstep.twin import RUNS, Array, DType, Numbers, Query, Shape, Sizes, State, usable
from duelrank.simulation import RunSpec

_MOST_RUNS = 16_384


def alike(specs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    """Return specs in groups that can share a table of documents: equal settings, and queries of similar size.

    All queries of a table take as much room as the largest, so the largest queries of a group are at most twice the size of its
    smallest. A representation that does not learn is applied to the table. If one learns, the index of a column, and with it its
    random numbers, depends on the number of features, which must then be equal.
    """
    groups: dict[Shape, list[RunSpec]] = {}
    counted: dict[Place, int] = {}
    for spec in specs:
        seen, n_features = prepared(spec.algorithm), 0
        if isinstance(spec.algorithm, Represented) and spec.algorithm.representation.learns:
            place = spec.dataset, spec.fold
            if place not in counted:
                counted[place] = opened(place, spec.split).n_features
            n_features = counted[place]
        groups.setdefault((spec.impressions, spec.length, spec.metric, spec.split, seen, n_features), []).append(spec)
    return [part for group in groups.values() for part in _by_size(group)]


def _by_size(specs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    folds: dict[Dataset, list[Fold]] = {}
    for place in dict.fromkeys((spec.dataset, spec.fold) for spec in specs):
        folds.setdefault(place[0], []).append(opened(place, specs[0].split))
    area = {
        dataset: (max(widest_query(fold.train) for fold in theirs), max(fold.n_features for fold in theirs))
        for dataset, theirs in folds.items()
    }
    found: list[tuple[tuple[int, int], set[Dataset]]] = []
    for dataset, (widest, columns) in sorted(area.items(), key=lambda item: item[1][0] * item[1][1]):
        if found:
            (least_widest, least_columns), members = found[-1]
            both = max(widest, least_widest) * max(columns, least_columns)
            if both <= 2 * least_widest * least_columns:
                members.add(dataset)
                continue
        found.append(((widest, columns), {dataset}))
    return [[spec for spec in specs if spec.dataset in members] for _, members in found]


def batches(specs: Sequence[RunSpec], library: Library, sizes: Sizes, room: int = 0) -> list[Sequence[RunSpec]]:
    """Return runs of one program in as few batches as memory allows, of about equal size.

    Parameters
    ----------
    room
        Bytes of a run in addition to those that every run needs, in single precision.
    """
    free = usable() - library.n_bytes
    item = int(library.train.features.dtype.itemsize)
    each = _bytes_per_run(specs[0], sizes, item) + room * item // 4
    number = -(-len(specs) // int(max(1, min(_MOST_RUNS, free // each))))
    size = -(-len(specs) // number)
    return [specs[start : start + size] for start in range(0, len(specs), size)]


def padded_count(n: int) -> int:
    """Return the number of runs that a program is compiled for: the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …."""
    power = 1 << max(0, (n - 1).bit_length())
    return power * 3 // 4 if power >= 4 and n <= power * 3 // 4 else power


def _bytes_per_run(spec: RunSpec, sizes: Sizes, item: int) -> int:
    """Return a generous estimate: results, checkpoints, the documents of a query twice, and scores and ranks."""
    kept = spec.impressions * 16 + len(spec.checkpoints) * sizes.columns * item
    documents = 2 * sizes.widest * sizes.columns * item
    tables = sizes.widest * (8 * sizes.rankers + 16 * sizes.length) * item
    small = 16 * sizes.rankers * sizes.columns * item + 60_000
    return kept + documents + tables + small


class Runs(NamedTuple):
    """The data that differs between runs, stacked.

    Parameters
    ----------
    algorithm, user
        The numeric parameters of the recipe and of the user.
    key
        The key of the random numbers.
    first, count
        The first training query, and the number of training queries.
    columns
        Flags of the columns.
    """

    algorithm: Numbers
    user: Numbers
    key: Array
    first: Array
    count: Array
    columns: Array


class Dimensions(NamedTuple):
    """The sizes that a program is compiled for."""

    widest: int
    length: int
    rows: int
    impressions: int
    n_checkpoints: int
    real: DType


_programs: dict[Shape, Any] = {}
_compiled: dict[Shape, Any] = {}


def learning(twin: AlgorithmTwin, dimensions: Dimensions) -> Any:
    """Return the program that makes all impressions of all runs.

    It takes the runs, the training queries and their popularity, the numbers of the metric, and for each impression the number of
    the next checkpoint. It returns the metric of every list, the length of every move and the training query of every list,
    (impressions, runs), and the data of every checkpoint: the weights, (checkpoints, runs, features), and with a representation
    also its knots.
    """
    key = (twin.shape, dimensions)
    if key not in _programs:
        _programs[key] = jax.jit(_learning(twin, dimensions))
    return _programs[key]


def compiled(twin: AlgorithmTwin, dimensions: Dimensions, *given: Any) -> Any:
    """Return the program compiled for arguments of these shapes; it is compiled once per process."""
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(given))
    key = (twin.shape, dimensions, shapes)
    if key not in _compiled:
        _compiled[key] = learning(twin, dimensions).lower(*given).compile()
    return _compiled[key]


def compiled_programs() -> list[Any]:
    """Return all programs that this process has compiled or loaded."""
    return list(_compiled.values())


def _learning(twin: AlgorithmTwin, dimensions: Dimensions) -> Callable[..., tuple[Array, Array, Array, Array]]:
    def learn_all(runs: Runs, train: Training, metric: Numbers, slots: Array) -> tuple[Array, Array, Array, Array]:
        def begin(run: Runs) -> State:
            draws = Draws(run.key, jnp.int32(0), dimensions.real)
            begun = twin.start(run.algorithm, run.columns, dimensions.length, draws)
            return begun._replace(documents=twin.documents(dimensions.rows, dimensions.real))

        def step(carry: tuple[State, Array], now: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array, Array]]:
            states, kept = carry
            t, slot = now
            advance = jax.vmap(
                lambda run, state: _impression(twin, dimensions, run, state, t, train, metric), axis_name=RUNS
            )
            states, online, moved, queries = advance(runs, states)
            # Written at every impression, so that the last write is that of the checkpoint.
            kept = jax.tree.map(partial(_put, slot), kept, jax.vmap(twin.kept)(states))
            return (states, kept), (online.astype(jnp.float32), moved.astype(jnp.float32), queries)

        states = jax.vmap(begin, axis_name=RUNS)(runs)
        kept = jax.tree.map(
            lambda leaf: jnp.zeros((dimensions.n_checkpoints, *leaf.shape), leaf.dtype), jax.vmap(twin.kept)(states)
        )
        times = jnp.arange(dimensions.impressions, dtype=jnp.int32)
        (_, kept), (online, moved, queries) = lax.scan(step, (states, kept), (times, slots))
        return online, moved, queries, kept

    return learn_all


def _put(slot: Array, kept: Array, now: Array) -> Array:
    return lax.dynamic_update_index_in_dim(kept, now, slot, 0)


def _impression(
    twin: AlgorithmTwin, dimensions: Dimensions, run: Runs, state: State, t: Array, train: Training, metric: Numbers
) -> tuple[State, Array, Array, Array]:
    """Show one list, let the user click, and learn; return the state, the metric of the list, the move's length and the query."""
    draws = Draws(run.key, t, dimensions.real)
    index, shelf = _drawn(run, train.popularity, draws), train.shelf
    query = _open(shelf, index, dimensions, run)
    shown = twin.explore(run.algorithm, state, query, draws)
    labels = shelf.labels[query.start + shown.ranking].astype(jnp.int32)
    clicked = users.click(run.user, labels, query.places, draws)
    after = twin.learn(run.algorithm, state, query, shown, clicked, draws)
    positions = jnp.arange(dimensions.length)
    online = metrics.value(metric, metric["gain"][labels], positions, query.places, shelf.ideals[index])
    return after, online, twin.distance(state, after, draws), index - run.first


def _drawn(run: Runs, popularity: Popularity, draws: Draws) -> Array:
    """Draw a training query: uniformly, and then this one stays or is replaced by a more popular one."""
    index = run.first + draws.below(Purpose.QUERY, run.count)
    stays = draws.uniform(Purpose.POPULARITY) < popularity.stays[index]
    return jnp.where(stays, index, run.first + popularity.others[index])


def _open(train: Shelf, index: Array, dimensions: Dimensions, run: Runs) -> Query:
    start, size = train.starts[index], train.sizes[index]
    shape = (dimensions.widest, train.features.shape[1])
    features = lax.dynamic_slice(train.features, (start, jnp.int32(0)), shape)
    present = jnp.arange(dimensions.widest, dtype=jnp.int32) < size
    places = jnp.arange(dimensions.length, dtype=jnp.int32) < size
    own = start - train.starts[run.first]
    return Query(train.features, start, size, features, present, places, run.columns, own=own)


def evaluate(scores: Scores, shelf: Shelf, metric: Numbers, rows: Any, keys: Array, when: Array, widest: int) -> Array:
    """Return the mean metric of each row of weights over all queries, ties at random.

    Parameters
    ----------
    scores
        Returns the score of each document by each row, from the rows and the features, such as `linear_scores`.
    shelf
        The queries.
    metric
        The numbers of the metric.
    rows
        Weights, or the other input of ``scores``.
    keys, when
        For each row, the key of its run and the number of its impression.
    widest
        Number of documents of the largest query.
    """
    value: Array = _evaluation(scores, widest)(shelf, metric, rows, keys, when)
    return value


@cache
def _evaluation(scores_of: Scores, widest: int) -> Any:
    def of_one(shelf: Shelf, metric: Numbers, scored: Array, key: Array, when: Array) -> Array:
        rows = shelf.starts[:, None] + jnp.arange(widest, dtype=jnp.int32)
        present = jnp.arange(widest) < shelf.sizes[:, None]
        scores = jnp.where(present, scored[rows], -jnp.inf)
        order = Draws(key, when, scored.dtype).order(Purpose.EVALUATION, rows.shape)
        gains = metric["gain"][shelf.labels[rows].astype(jnp.int32)]
        found = metrics.value(metric, gains, ranks_of(scores, order), present, shelf.ideals)
        return jnp.sum(found) / jnp.sum(shelf.sizes > 0)

    def of_all(shelf: Shelf, metric: Numbers, rows: Any, keys: Array, when: Array) -> Array:
        scored = scores_of(rows, shelf.features)
        return jax.vmap(of_one, in_axes=(None, None, 0, 0, 0))(shelf, metric, scored, keys, when)

    return jax.jit(of_all)
