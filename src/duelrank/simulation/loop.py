"""Runs the simulation loop: rank, click, learn, evaluate."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from time import perf_counter
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from duelrank.algorithms import Algorithm
from duelrank.datasets import Dataset, Fold, Split
from duelrank.errors import InvalidValue
from duelrank.kernels.random import derive
from duelrank.kernels.updates import distance
from duelrank.learner import Learner
from duelrank.metrics import Metric, evaluate
from duelrank.randomness import stream, stream_key
from duelrank.registry import spell
from duelrank.simulation.guarded import Guarded, GuardedLearner
from duelrank.simulation.logged import Logged
from duelrank.simulation.queries import drawn_queries
from duelrank.simulation.record import Record
from duelrank.simulation.spec import RunSpec
from duelrank.types import State
from duelrank.users import User
from duelrank.validation import explained

__all__ = ["simulate"]

Progress: TypeAlias = Callable[[int], None]


@overload
def simulate(spec: RunSpec, /, *, progress: Progress | None = None) -> Record: ...
@overload
def simulate(
    algorithm: Algorithm | str,
    dataset: Dataset | str,
    user: User | str,
    *,
    fold: int = 1,
    seed: int = 1,
    impressions: int = 10_000,
    length: int = 10,
    metric: Metric | str = ...,
    split: Literal["test", "validation"] = "test",
    guard: Guarded | str | None = None,
    log: Logged | str | None = None,
    progress: Progress | None = None,
) -> Record: ...
@explained
def simulate(
    algorithm: RunSpec | Algorithm | str,
    dataset: Any = None,
    user: Any = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> Record:
    """Run an algorithm with a simulated user on a data set and return the results; equal calls give equal records, to the bit.

    Parameters
    ----------
    algorithm, dataset, user
        Objects or their texts; or a single `RunSpec`, which contains all of them.
    fold, seed, impressions, length, metric, split, guard, log
        As in `RunSpec`.
    progress
        Called with the number of impressions done, at every checkpoint and every few hundred impressions.

    Examples
    --------
    >>> from duelrank import simulate
    >>> record = simulate("mgd-dsp", "synthetic(n_queries=20)", "navigational", seed=7, impressions=100)
    >>> len(record.online)
    100
    """
    if not isinstance(algorithm, RunSpec):
        return _run(RunSpec(algorithm, dataset, user, **settings), progress)
    if dataset is not None or user is not None or settings:
        raise InvalidValue("a RunSpec contains all parameters of a run; change it with dataclasses.replace")
    return _run(algorithm, progress)


def _run(spec: RunSpec, progress: Progress | None) -> Record:
    fold = spec.dataset.fold(spec.fold)
    train, held_out = fold.train, getattr(fold, spec.split)
    if not len(train) or not len(held_out):
        raise InvalidValue(f"fold {spec.fold} of {spec.dataset!r} has no training or no {spec.split} queries")
    user = spec.user.for_grades(fold.n_grades)
    learner, guarded = _learners(spec, fold)
    if spec.log is not None:
        learner.backfill(spec.log.shown(learner, fold, spec.log.production.weights(spec.dataset, spec.fold), user))
    host = guarded or learner
    queries = drawn_queries(fold, spec.impressions, stream(spec.stream_seed, "queries")).tolist()
    user_key = stream_key(spec.stream_seed, "user")
    checkpoints = spec.checkpoints
    pauses = set(checkpoints.tolist())
    online, norms = np.zeros(spec.impressions), np.zeros(spec.impressions)
    offline: list[float] = []
    states: list[State] = []
    evaluating, started = 0.0, perf_counter()
    for t, index in enumerate(queries):
        impression = host.rank(train.query(index))
        labels = train.judgements(index)
        shown = labels[impression.ranking]
        before = learner.weights
        host.learn(impression, user.at(t).click(shown, derive(user_key, t)))
        if learner.weights is not before:
            # Where a representation has grown there are other weights than before, and no distance.
            norms[t] = moved = distance(before, learner.weights) if before.shape == learner.weights.shape else 0.0
            if not isfinite(moved) and not np.isfinite(learner.weights).all():
                raise _not_finite(spec, t + 1)
        online[t] = spec.metric.of(shown, labels)
        if t + 1 in pauses:
            paused = perf_counter()
            seen = _as_seen(held_out, learner)
            offline.append(evaluate(learner.weights, seen, spec.metric, stream(spec.stream_seed, "evaluation", t + 1)))
            states.append(_weighed(learner.state))
            evaluating += perf_counter() - paused
        if progress is not None and (t % 256 == 255 or t + 1 in pauses):
            progress(t + 1)
    seconds = perf_counter() - started - evaluating
    trajectory = np.array([spec.algorithm.carry(state, learner.state) for state in states])
    history = guarded.history if guarded else None
    return Record(
        spec, online, checkpoints, np.array(offline), norms, trajectory, seconds, evaluating, learner, history
    )


def _learners(spec: RunSpec, fold: Fold) -> tuple[Learner, GuardedLearner | None]:
    """Return what learns, and what guards it."""
    settings = spec.guard
    if settings is None:
        return Learner(spec.algorithm, fold.n_features, spec.stream_seed, spec.length), None
    had = settings.baseline.weights(spec.dataset, spec.fold)
    start = had if settings.start == "baseline" else None
    learner = Learner(spec.algorithm, fold.n_features, spec.stream_seed, spec.length, weights=start)
    return learner, GuardedLearner(settings, learner, had)


def _weighed(state: State) -> State:
    """Return a state with its weights and what they are for; an algorithm's own memory may be large."""
    seen = {name: memory for name, memory in state.memory.items() if name == "representation"}
    return State(state.weights, memory=seen)


def _as_seen(split: Split, learner: Learner) -> Split:
    """Return a split as the weights of a learner see it."""
    columns = learner.algorithm.columns(learner.state, split.features, split.offsets)
    return split if columns is split.features else Split.trusted(columns, split.labels, split.offsets, split.ids)


def _not_finite(spec: RunSpec, impression: int) -> InvalidValue:
    return InvalidValue(
        f"{spell(spec.algorithm)} returned weights with NaN or infinite values after impression {impression:,} "
        f"({spec.id}): check its update for divisions by zero and for steps that grow without bound"
    )
