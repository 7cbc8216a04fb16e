"""Runs specs in lockstep on the device that JAX finds, and returns their records."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Algorithm
from duelrank.algorithms.remembered import Remember
from duelrank.core.errors import InvalidValue
from duelrank.core.home import home
from duelrank.core.randomness import stream_key
from duelrank.core.registry import spell, walk
from duelrank.lockstep import metrics, program, users
from duelrank.lockstep.algorithms import AlgorithmTwin, ProjectedTwin, RememberedTwin, RepresentedTwin, prepared
from duelrank.lockstep.library import Library, Place, Shelf, Training, load
from duelrank.lockstep.program import alike, batches, padded_count
from duelrank.lockstep.ranking import Scores
from duelrank.lockstep.twin import DType, Numbers, Shape, Sizes, obstacles, twin_of, usable, within_memory
from duelrank.projection import Observed
from duelrank.simulation import Record, RunSpec
from duelrank.users import PBM

_log = logging.getLogger(__name__)

_NAMED = 3  # runs that an error about many names
_EVALUATED = 200_000_000  # most scores of documents to compute at a time
_BYTES_EVALUATED = 96  # bytes per score, including intermediate results


def why_not(spec: RunSpec) -> list[str]:
    """Return the reasons why a run cannot run in lockstep; an empty list if it can.

    Examples
    --------
    >>> from duelrank.experiments import Grid
    >>> from duelrank.lockstep import why_not
    >>> (spec,) = Grid(["mgd"], "synthetic", "perfect", runs=1).specs()
    >>> why_not(spec)
    []
    """
    fold = spec.dataset.fold(spec.fold)
    found = [*obstacles(spec.algorithm), users.obstacle(spec.user, fold.n_grades), metrics.obstacle(spec.metric)]
    if isinstance(spec.user, PBM) and any(isinstance(part, Observed) for _, part in walk(spec.algorithm)):
        found.append("Observed() needs a user who reads from the top")
    if spec.guard is not None:
        found.append("a guard has no lockstep twin")
    if spec.log is not None:
        found.append("learning from a log has no lockstep twin")
    memories = [part for _, part in walk(spec.algorithm) if isinstance(part, Remember)]
    if any(memory.queries < len(fold.train) for memory in memories):
        found.append(f"a memory of fewer than all {len(fold.train)} training queries has no lockstep twin")
    if fold.later:
        found.append("grades that change during a run have no lockstep twin")
    if fold.train.missing:
        found.append("missing values have no lockstep twin")
    return list(dict.fromkeys(reason for reason in found if reason))


def device_name() -> str:
    """Return the name of the device; JAX on a CPU is "cpu, in lockstep", because "cpu" is the ordinary engine."""
    kind = jax.local_devices()[0].device_kind
    return "cpu, in lockstep" if kind == "cpu" else str(kind)


@dataclass(frozen=True)
class Lockstep:
    """Runs specs in lockstep, with the interface of the executors of `duelrank.experiments.executors`.

    Parameters
    ----------
    precision
        Precision of features, weights and scores. Credit, projections and metrics are always computed in double precision.
    """

    precision: Literal["single", "double"] = "single"

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the record of each spec, batch by batch."""
        _set_program_cache()
        for group in alike(specs):
            yield from self._run_group(group)

    def _run_group(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Run specs that share a table of documents, program by program."""
        with jax.enable_x64(True), within_memory():
            places = list(dict.fromkeys((spec.dataset, spec.fold) for spec in specs))
            one = specs[0]
            library = load(places, one.metric, one.split, self._real, prepared(one.algorithm), one.length)
        work = [self._batch(some, library) for some in _batches(specs, library)]
        _compile({(batch.twin.shape, len(batch.runs.key)): batch for batch in work}.values())
        for batch in work:
            with jax.enable_x64(True), within_memory():
                records = self._run_batch(batch, library)
            yield from (record for record in records if _is_finite(record))
            if diverged := [record.spec for record in records if not _is_finite(record)]:
                raise InvalidValue(_divergence(diverged))

    @property
    def _real(self) -> DType:
        return jnp.float32 if self.precision == "single" else jnp.float64

    def _batch(self, specs: Sequence[RunSpec], library: Library) -> _Batch:
        spec, checkpoints = specs[0], specs[0].checkpoints
        widest = max(library.widest, _widest(library))
        slots = np.searchsorted(checkpoints, np.arange(spec.impressions) + 1).astype(np.int32)
        dimensions = program.Dimensions(
            library.widest, spec.length, library.rows, spec.impressions, len(checkpoints), np.dtype(self._real)
        )
        with jax.enable_x64(True), within_memory():
            metric = metrics.numbers_of(spec.metric, widest, library.grades)
            runs = _stacked(specs, library, padded_count(len(specs)))
        return _Batch(specs, _twin(spec.algorithm), dimensions, (runs, library.training, metric, slots))

    def _run_batch(self, batch: _Batch, library: Library) -> list[Record]:
        specs, twin, (runs, _, metric, _) = batch.specs, batch.twin, batch.given
        started = perf_counter()
        online, moved, queries, kept = batch.compiled()(*batch.given)
        online, moved, queries = jax.device_get((online, moved, queries))
        learned = perf_counter()
        rows, trajectories = jax.device_get((twin.scored(runs.algorithm, kept), twin.trajectory(kept)))
        offline = _evaluated(twin, specs, library, metric, rows, runs.key)
        done = perf_counter()
        _log.info("%d runs: %.1f s to learn, %.1f s to evaluate", len(specs), learned - started, done - learned)
        seconds, evaluating = (learned - started) / len(specs), (done - learned) / len(specs)
        return [
            _record(
                each,
                online[:, i],
                moved[:, i],
                queries[:, i],
                trajectories[:, i, runs.columns[i].reshape(-1)],
                offline[i],
                seconds,
                evaluating,
            )
            for i, each in enumerate(specs)
        ]


class _Batch(NamedTuple):
    """Runs of one program, and what it takes."""

    specs: Sequence[RunSpec]
    twin: AlgorithmTwin
    dimensions: program.Dimensions
    given: tuple[program.Runs, Training, Numbers, NDArray[np.int32]]

    @property
    def runs(self) -> program.Runs:
        return self.given[0]

    def compiled(self) -> Any:
        with jax.enable_x64(True), within_memory():  # JAX has this setting for each thread
            return program.compiled(self.twin, self.dimensions, *self.given)


def _batches(specs: Sequence[RunSpec], library: Library) -> Iterator[Sequence[RunSpec]]:
    """Yield the runs of each program in batches."""
    shapes: dict[Shape, list[RunSpec]] = {}
    for spec in specs:
        shapes.setdefault(_twin(spec.algorithm).shape, []).append(spec)
    for alike_specs in shapes.values():
        twin, spec = _twin(alike_specs[0].algorithm), alike_specs[0]
        n_columns = twin.columns(np.ones(library.n_columns, bool), spec.impressions).size
        sizes = Sizes(n_columns, library.widest, spec.length, _n_rankers(twin), library.rows)
        yield from batches(alike_specs, library, sizes, twin.room(sizes))


def _compile(work: Collection[_Batch]) -> None:
    """Compile several programs at a time, because XLA compiles without Python's lock."""
    started = perf_counter()
    with ThreadPoolExecutor() as pool:
        programs = list(pool.map(_Batch.compiled, work))
    _log.info("%d programs: %.1f s to compile", len(programs), perf_counter() - started)


@cache
def _twin(algorithm: Algorithm) -> AlgorithmTwin:
    found = twin_of(algorithm)
    assert isinstance(found, AlgorithmTwin)
    return found


def _n_rankers(twin: AlgorithmTwin) -> int:
    """Return the number of rankers that are compared in a list, to estimate memory."""
    while isinstance(twin, ProjectedTwin | RememberedTwin | RepresentedTwin):
        twin = twin.base
    exploration = getattr(twin, "exploration", None)
    return 1 + getattr(exploration.part, "n_candidates", 2) if exploration is not None else 1


def _stacked(specs: Sequence[RunSpec], library: Library, count: int) -> program.Runs:
    """Return the data that differs between runs, as arrays; the last run is repeated up to the count."""
    length = specs[0].length
    padded = [*specs, *[specs[-1]] * (count - len(specs))]
    keys = np.array([stream_key(spec.stream_seed, "lockstep") for spec in padded], np.uint64)
    words = np.stack((keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)), axis=1).astype(np.uint32)
    places: list[Place] = [(spec.dataset, spec.fold) for spec in padded]
    behaviours = [
        users.numbers_of(spec.user, library.n_grades[place], length, library.grades)
        for spec, place in zip(padded, places, strict=True)
    ]
    features = [np.arange(library.n_columns) < library.n_features[place] for place in places]
    twin, impressions = _twin(specs[0].algorithm), specs[0].impressions
    return program.Runs(
        _stack([_twin(spec.algorithm).numbers() for spec in padded]),
        _stack(behaviours),
        words,
        np.array([library.first[place] for place in places], np.int32),
        np.array([library.count[place] for place in places], np.int32),
        np.array([twin.columns(flags, impressions) for flags in features]),
    )


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.array(leaves, np.float64), *trees)


def _evaluated(
    twin: AlgorithmTwin, specs: Sequence[RunSpec], library: Library, metric: Numbers, rows: Any, keys: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the metric of every run at every checkpoint on its held-out queries."""
    checkpoints = specs[0].checkpoints
    offline = np.empty((len(specs), len(checkpoints)))
    by_place: dict[Place, list[int]] = {}
    for number, spec in enumerate(specs):
        by_place.setdefault((spec.dataset, spec.fold), []).append(number)
    for place, numbers in by_place.items():
        shelf = library.held_out[place]
        theirs = jax.tree.map(lambda leaf, n=numbers: _by_run(leaf[:, n]), rows)
        owners, when = np.repeat(keys[numbers], len(checkpoints), axis=0), np.tile(checkpoints, len(numbers))
        found = _in_chunks(twin.scores, shelf, metric, theirs, owners, when.astype(np.int32), _widest(library))
        offline[numbers] = found.reshape(len(numbers), -1)
    return offline


def _by_run(kept: NDArray[Any]) -> NDArray[Any]:
    """Return an array (checkpoints, runs, …) as rows: all checkpoints of the first run, then of the second, and so on."""
    return np.ascontiguousarray(kept.swapaxes(0, 1)).reshape(-1, *kept.shape[2:])


def _widest(library: Library) -> int:
    return max(int(shelf.sizes.max()) for shelf in library.held_out.values())


def _in_chunks(
    scores: Scores, shelf: Shelf, metric: Numbers, rows: Any, keys: NDArray[Any], when: NDArray[Any], widest: int
) -> NDArray[np.float64]:
    """Evaluate rows of weights, in chunks that fit on the device."""
    most, area = min(_EVALUATED, usable() // _BYTES_EVALUATED), max(1, len(shelf.starts) * widest)
    size = min(padded_count(len(when)), 1 << max(0, (most // area).bit_length() - 1))
    found = []
    for start in range(0, len(when), size):
        part = slice(start, start + size)
        room = size - len(when[part])
        some, their_keys, times = jax.tree.map(
            lambda each, p=part, n=room: np.pad(each[p], ((0, n), *[(0, 0)] * (each.ndim - 1))), (rows, keys, when)
        )
        found.append(program.evaluate(scores, shelf, metric, some, their_keys, times, widest)[: size - room])
    return np.concatenate([np.asarray(each) for each in found])


def _record(
    spec: RunSpec,
    online: NDArray[Any],
    moved: NDArray[Any],
    queries: NDArray[Any],
    trajectory: NDArray[Any],
    offline: NDArray[np.float64],
    seconds: float,
    evaluating: float,
) -> Record:
    return Record(
        spec,
        online.astype(np.float64),
        spec.checkpoints,
        offline,
        moved.astype(np.float64),
        trajectory.astype(np.float64),
        seconds,
        evaluating,
        device=device_name(),
        queries=queries.astype(np.int64),
    )


def _is_finite(record: Record) -> bool:
    return bool(np.isfinite(record.trajectory).all())


def _divergence(specs: Sequence[RunSpec]) -> str:
    """Return the error message for runs with infinite or NaN weights, with the names of the first few."""
    names = ", ".join(spec.id for spec in specs[:_NAMED])
    more = f" and {len(specs) - _NAMED} more" if len(specs) > _NAMED else ""
    return (
        f"{spell(specs[0].algorithm)} returned weights with NaN or infinite values in {len(specs)} runs of its batch "
        f"({names}{more}): check for steps that grow without bound"
    )


def _set_program_cache() -> None:
    """Cache compiled programs in our cache folder, unless the user has chosen another one."""
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(home() / "lockstep"))
