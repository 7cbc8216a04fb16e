"""One simulated run: its specification, the loop over impressions, and its record."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from html import escape
from math import isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Algorithm
from duelrank.algorithms.remembered import base_of
from duelrank.core.errors import InvalidValue, MissingExtra
from duelrank.core.randomness import stream, stream_key
from duelrank.core.registry import Between, Part, canonical, register, spell, walk
from duelrank.core.types import State, Stream, Weights, frozen
from duelrank.core.validation import explained
from duelrank.datasets import Dataset, Drifting, Fold, Split
from duelrank.kernels.elementary import exps, log
from duelrank.kernels.projection import norm
from duelrank.kernels.random import derive
from duelrank.kernels.ranking import linear_scores
from duelrank.kernels.updates import distance
from duelrank.learner import Learner
from duelrank.metrics import DISCOUNT, Metric, nDCG, offline_performance, online_performance
from duelrank.simulation.guarded import NO_GUARD, Guarded, GuardedLearner, GuardHistory
from duelrank.simulation.production import Logged, drawn_queries
from duelrank.users import User

if TYPE_CHECKING:
    import pandas


@register
@dataclass(frozen=True, repr=False)
class RunSpec(Part):
    """All parameters of one run; equal specs give equal records, to the bit.

    Data set, fold, user and seed are the key of all random streams of a run. So runs that differ in one of them share no random
    numbers, and runs that differ only in their algorithm use the same queries and the same random numbers for the user.

    Parameters
    ----------
    algorithm, dataset, user
        The algorithm, the data set and the simulated user; objects or their texts, such as ``"mgd-dsp"``.
    fold
        Fold of the data set, counted from 1.
    seed
        Random seed; equal seeds in two folds, or on two data sets or with two users, give independent runs.
    impressions
        Number of lists shown.
    length
        Number of documents per list.
    metric
        Evaluates each shown list, and the current weights at every checkpoint.
    split
        Queries to evaluate the weights on: "test", or "validation" for choosing parameters.
    guard
        Compares the learned ranker with a baseline while it learns, and serves the baseline if the ranker is worse; None: no guard.
        The queries and the random numbers for the user are the same with and without a guard.
    log
        A log of production that the ranker learns from before its first list; None: it starts with the initial weights.

    Examples
    --------
    A run depends only on its spec, so the last number is always the same:

    >>> from duelrank import RunSpec, simulate
    >>> spec = RunSpec("mgd-dsp", "synthetic(n_queries=20)", "navigational", seed=7, impressions=100)
    >>> spec.id
    'mgd-dsp/navigational/synthetic(n_queries=20)/fold1/seed7'
    >>> float(simulate(spec).online.mean().round(2))
    0.41
    """

    kind: ClassVar[str] = "run"
    added_fields: ClassVar[Mapping[str, Any]] = {"guard": None, "log": None}
    #: The version of the random streams, increased when equal specs give other records. In version 1 all folds shared them.
    streams: ClassVar[int] = 2

    algorithm: Algorithm
    dataset: Dataset
    user: User
    fold: Annotated[int, Between(1, 1_000_000)] = 1
    seed: Annotated[int, Between(0)] = 1
    impressions: Annotated[int, Between(1, 1_000_000_000)] = 10_000
    length: Annotated[int, Between(1, 1_000_000)] = 10
    metric: Metric = nDCG(cutoff=10)
    split: Literal["test", "validation"] = "test"
    guard: Guarded | None = None
    log: Logged | None = None

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            algorithm: Algorithm | str,
            dataset: Dataset | str,
            user: User | str,
            fold: int = 1,
            seed: int = 1,
            impressions: int = 10_000,
            length: int = 10,
            metric: Metric | str = ...,
            split: Literal["test", "validation"] = "test",
            guard: Guarded | str | None = None,
            log: Logged | str | None = None,
        ) -> None: ...

    @property
    def id(self) -> str:
        """The readable name of the run: algorithm/user/data set/fold/seed, with guard and log, if any, before the fold."""
        further = (spell(part) for part in (self.guard, self.log) if part is not None)
        parts = (spell(self.algorithm), spell(self.user), spell(self.dataset), *further)
        return "/".join((*parts, f"fold{self.fold}", f"seed{self.seed}"))

    @cached_property
    def digest(self) -> str:
        """Ten hexadecimal digits that depend on everything that could change the result, including defaults and `streams`."""
        return hashlib.blake2b(f"{self.streams}/{canonical(self)}".encode(), digest_size=5).hexdigest()

    @cached_property
    def stream_seed(self) -> int:
        """The seed of every random stream of the run; it does not depend on algorithm, guard and log, so these can be compared."""
        return stream_key(self.seed, f"{canonical(self.dataset)}/fold{self.fold}/{canonical(self.user)}")

    @property
    def checkpoints(self) -> NDArray[np.int64]:
        """The numbers of impressions after which the weights are evaluated: about eight per power of ten, and the last."""
        n = len(str(self.impressions**8))
        step = log(float(self.impressions)) / max(n - 1, 1)
        return np.unique([*exps(step * np.arange(n - 1, dtype=np.float64)).round().astype(np.int64), self.impressions])


#: Number of lists of ``online_first``, the mean metric of the first lists.
FIRST = 1_000

#: Number of lists of each value of ``online_blocks``, the mean metric of lists that follow each other.
BLOCK = 50


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """The result of one run.

    Parameters
    ----------
    spec
        The run.
    online
        (impressions,) the metric of every shown list.
    checkpoints, offline
        The numbers of impressions after which the weights were evaluated, and the metric at each.
    update_norms
        (impressions,) the norm of the change of the weights after each impression; 0 if they did not change.
    trajectory
        (checkpoints, n_features) the weights at each checkpoint.
    seconds
        Time of the learning loop, including the simulated user.
    evaluation_seconds
        Time of evaluating the weights at the checkpoints, not part of ``seconds``.
    learner
        The learner after the last impression; None in records of experiments, which keep numbers only.
    guard
        The decisions and measurements of the guard; None without a guard.
    device
        The device of the run: "cpu", or the accelerator on which it ran with others in lockstep.
    queries
        (impressions,) the number of the training query of each list.

    Examples
    --------
    >>> from duelrank import simulate
    >>> record = simulate("mgd-dsp", "synthetic(n_queries=20)", "navigational", impressions=100)
    >>> record.checkpoints.tolist()[-3:], record.offline[-3:].round(2).tolist()
    ([56, 75, 100], [0.78, 0.75, 0.75])
    >>> round(record.online_performance, 1)
    42.8
    """

    spec: RunSpec
    online: NDArray[np.float64]
    checkpoints: NDArray[np.int64]
    offline: NDArray[np.float64]
    update_norms: NDArray[np.float64]
    trajectory: NDArray[np.float64]
    seconds: float
    evaluation_seconds: float
    learner: Learner | None = None
    guard: GuardHistory | None = None
    device: str = "cpu"
    queries: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def weights(self) -> Weights:
        """The final weights."""
        final: Weights = self.trajectory[-1]
        return final

    @property
    def online_performance(self) -> float:
        """Discounted sum of the metric over all shown lists, as in the paper's first table."""
        return online_performance(self.online)

    @property
    def offline_performance(self) -> float:
        """Mean metric of the final weights over the held-out queries, as in the paper's second table."""
        return float(self.offline[-1])

    def cosines(self, reference: Weights) -> NDArray[np.float64]:
        """Return the cosine between the weights at each checkpoint and a reference; 0 if the weights are zero."""
        lengths = np.linalg.norm(self.trajectory, axis=1) * norm(reference)
        along: NDArray[np.float64] = linear_scores(reference, self.trajectory)
        return np.asarray(np.divide(along, lengths, out=np.zeros(len(along)), where=lengths > 0.0))

    def _compares_with(self, reference: Weights | None) -> TypeGuard[Weights]:
        """Whether there is a reference with as many weights as the ranker."""
        return reference is not None and len(reference) == self.trajectory.shape[1]

    def row(self, reference: Weights | None = None, data: str = "") -> dict[str, Any]:
        """Return the run as one flat row of plain values, for JSON, stores and frames; curves have a value per checkpoint.

        Parameters
        ----------
        reference
            Weights to compare the learned ones with; without them, or if their number differs, ``cosine_curve`` is empty.
        data
            A fingerprint of the data of the fold.
        """
        spec, algorithm, base = self.spec, self.spec.algorithm, base_of(self.spec.algorithm)
        return {
            "id": spec.id,
            "digest": spec.digest,
            "algorithm": spell(algorithm),
            "base": "" if base is None else spell(base),
            "recipe": repr(algorithm),
            "dataset": spell(spec.dataset),
            "user": spell(spec.user),
            "fold": spec.fold,
            "seed": spec.seed,
            "streams": spec.streams,
            "impressions": spec.impressions,
            "length": spec.length,
            "metric": repr(spec.metric),
            "split": spec.split,
            "data": data,
            "online_performance": self.online_performance,
            "offline_performance": self.offline_performance,
            "updates": int(np.count_nonzero(self.update_norms)),
            "seconds": self.seconds,
            "evaluation_seconds": self.evaluation_seconds,
            "checkpoints": self.checkpoints.tolist(),
            "offline_curve": self.offline.tolist(),
            "online_curve": self._online_curve().tolist(),
            "cosine_curve": self.cosines(reference).tolist() if self._compares_with(reference) else [],
            "online_mean": float(self.online.mean()),
            "online_first": float(self.online[:FIRST].mean()),
            "online_blocks": self._online_blocks().tolist(),
            "reward_curve": self._reward_curve().tolist(),
            **self._by_views(),
            "log": "" if spec.log is None else spell(spec.log),
            "device": self.device,
            **self._guard_columns(),
        }

    def _guard_columns(self) -> dict[str, Any]:
        if self.guard is None or self.spec.guard is None:
            return dict(NO_GUARD)
        return {"guard": spell(self.spec.guard), **self.guard.columns(self.spec.guard.harm_after, self.online)}

    def _online_curve(self) -> NDArray[np.float64]:
        """Return the online performance up to each checkpoint."""
        sums = np.cumsum(self.online * _discounts(self.online.size))
        return np.asarray(sums[self.checkpoints - 1])

    def _reward_curve(self) -> NDArray[np.float64]:
        """Return the mean metric of the lists from each checkpoint to the next."""
        starts = np.concatenate(([0], self.checkpoints[:-1]))
        return np.asarray(np.add.reduceat(self.online, starts) / (self.checkpoints - starts))

    def _by_views(self) -> dict[str, list[float]]:
        """Return mean metric and number of lists by the number of earlier lists of their query: 0, 1, 2 to 3, 4 to 7, …."""
        bins = np.frexp(earlier_views(self.queries))[1]
        lists = np.bincount(bins)
        sums = np.bincount(bins, self.online[: bins.size])
        return {"reward_by_views": (sums / lists).tolist(), "lists_by_views": lists.tolist()}

    def _online_blocks(self) -> NDArray[np.float64]:
        """Return the mean metric of each block of lists; empty if the truth does not change, because it takes much room."""
        drifts = any(isinstance(part, Drifting) for _, part in walk(self.spec.dataset))
        whole = self.online[: self.online.size // BLOCK * BLOCK if drifts else 0]
        return np.asarray(whole.reshape(-1, BLOCK).mean(axis=1))

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with one line per checkpoint."""
        columns = {"impressions": self.checkpoints, "offline": self.offline, "online": self._online_curve()}
        return data_frame(columns)

    def __repr__(self) -> str:
        online, offline = f"{self.online_performance:.2f}", f"{self.offline_performance:.4f}"
        return f"Record({self.spec.id}: online {online}, offline {offline}, {self.spec.metric!r})"

    def _repr_html_(self) -> str:
        shown = {
            "run": self.spec.id,
            "metric": repr(self.spec.metric),
            "impressions": f"{self.spec.impressions:,}",
            "online performance": f"{self.online_performance:.2f}",
            "offline performance": f"{self.offline_performance:.4f}",
            "seconds": f"{self.seconds:.2f}",
        }
        rows = (f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in shown.items())
        return f"<table>{''.join(rows)}</table>"


@lru_cache(maxsize=8)
def _discounts(size: int) -> NDArray[np.float64]:
    return np.asarray(frozen(exps(log(DISCOUNT) * np.arange(size, dtype=np.float64))))


def earlier_views(queries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each list the number of earlier lists of the same query.

    Examples
    --------
    >>> import numpy as np
    >>> earlier_views(np.array([7, 4, 7, 7, 4])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(queries, kind="stable")
    earlier = np.empty(queries.size, np.int64)
    earlier[order] = np.arange(queries.size) - np.searchsorted(queries[order], queries[order])
    return earlier


def data_frame(content: Any) -> pandas.DataFrame:
    """Return a pandas data frame of columns or of records; pandas is imported only here."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra("to_pandas needs pandas: pip install pandas") from None
    return pandas.DataFrame(content)


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
        The other parameters of `RunSpec`.
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
    queries = drawn_queries(fold, spec.impressions, stream(spec.stream_seed, "queries"))
    user_key = stream_key(spec.stream_seed, "user")
    checkpoints = spec.checkpoints
    pauses, later = set(checkpoints.tolist()), dict(fold.later)
    online, norms = np.zeros(spec.impressions), np.zeros(spec.impressions)
    offline: list[float] = []
    states: list[State] = []
    evaluating, started = 0.0, perf_counter()
    for t, index in enumerate(queries.tolist()):
        if t in later:
            train, held_out = later[t].train, getattr(later[t], spec.split)
        impression = host.rank(train.query(index))
        labels = train.judgements(index)
        shown = labels[impression.ranking]
        before = learner.weights
        host.learn(impression, user.at(t).click(shown, derive(user_key, t)))
        if learner.weights is not before:
            # If the number of columns has changed, there is no distance.
            norms[t] = moved = distance(before, learner.weights) if before.shape == learner.weights.shape else 0.0
            if not isfinite(moved) and not np.isfinite(learner.weights).all():
                raise _not_finite(spec, t + 1)
        online[t] = spec.metric.of(shown, labels)
        if t + 1 in pauses:
            paused = perf_counter()
            offline.append(_evaluated(learner, held_out, spec.metric, stream(spec.stream_seed, "evaluation", t + 1)))
            states.append(_weighed(learner.state))
            evaluating += perf_counter() - paused
        if progress is not None and (t % 256 == 255 or t + 1 in pauses):
            progress(t + 1)
    seconds = perf_counter() - started - evaluating
    trajectory = np.array([spec.algorithm.carry(state, learner.state) for state in states])
    done = online, checkpoints, np.array(offline), norms, trajectory, seconds, evaluating
    return Record(spec, *done, learner, guarded.history if guarded else None, queries=queries)


def _learners(spec: RunSpec, fold: Fold) -> tuple[Learner, GuardedLearner | None]:
    """Return the learner, and its guarded version if there is a guard."""
    settings = spec.guard
    if fold.train.missing and (settings, spec.log) != (None, None):
        raise InvalidValue(
            "production rankings need all values; give a run with missing values neither a log nor a guard"
        )
    if settings is None:
        return Learner(spec.algorithm, fold.n_features, spec.stream_seed, spec.length), None
    had = settings.baseline.weights(spec.dataset, spec.fold)
    start = had if settings.start == "baseline" else None
    learner = Learner(spec.algorithm, fold.n_features, spec.stream_seed, spec.length, weights=start)
    return learner, GuardedLearner(settings, learner, had, 0 if spec.log is None else spec.log.lists)


def _weighed(state: State) -> State:
    """Return a state with only its weights and the memory of the representation; other memory may be large."""
    seen = {name: memory for name, memory in state.memory.items() if name == "representation"}
    return State(state.weights, memory=seen)


def _evaluated(learner: Learner, split: Split, metric: Metric, draws: Stream) -> float:
    """Return the mean metric of a learner's rankings of a split, whose only column are then the scores."""
    scores = learner.algorithm.scores(learner.state, split.features, split.offsets)
    ranked = Split.trusted(frozen(scores[:, None]), split.labels, split.offsets, split.ids)
    return offline_performance(frozen(np.ones(1)), ranked, metric, draws)


def _not_finite(spec: RunSpec, impression: int) -> InvalidValue:
    return InvalidValue(
        f"{spell(spec.algorithm)} returned weights with NaN or infinite values after impression {impression:,} "
        f"({spec.id}): check its update for divisions by zero and for steps that grow without bound"
    )
