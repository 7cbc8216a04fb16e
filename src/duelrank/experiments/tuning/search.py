"""Searches for good parameters of a recipe with Optuna, in batches of trials whose runs are made together.

The trials are in ``study.log`` of the folder of the search, an Optuna journal; the runs are in a `Store`. A search that was killed
resumes from there: the values of a trial depend only on the seed, its number and the trials before its batch.
"""

from __future__ import annotations

import csv
import io
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np

from duelrank.algorithms import Algorithm
from duelrank.core.errors import DataFormatError, InvalidRecipe, InvalidValue, MissingExtra
from duelrank.core.files import write_bytes
from duelrank.core.grammar import as_part
from duelrank.core.progress import ProgressCallback, count_bar
from duelrank.core.randomness import stream_key
from duelrank.core.registry import counted, spell, spelling_once
from duelrank.core.validation import explained, whole_number
from duelrank.datasets import Dataset
from duelrank.experiments.dask import Scheduler
from duelrank.experiments.executors import Device, choose, run_all
from duelrank.experiments.experiment import parts
from duelrank.experiments.pipeline import USERS, check_data, fingerprints, timed
from duelrank.experiments.results import Store
from duelrank.experiments.tuning.settings import (
    SAMPLERS,
    Measurements,
    Objective,
    Scores,
    Settings,
    check_same,
    has_begun,
    search_space,
    variants,
    with_values,
)
from duelrank.metrics import Metric
from duelrank.simulation import RunSpec
from duelrank.users import User

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

#: The name of the suite in the store of a search.
SUITE = "tune"

_JOURNAL = "study.log"
_KEPT = "kept"  # attribute of a trial that was judged and not pruned
_SECONDS = 1.0  # between two writes to the store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of a search.

    Parameters
    ----------
    settings
        Settings of the search.
    folder
        Folder of the trials, the runs and the report.
    algorithm, scores
        The best recipe and its scores; the start recipe if no other is better.
    reference
        Scores of the start recipe.
    trials
        All trials, by number.
    importance
        Importance of each parameter for a trial to be among the best tenth.
    measured, measured_before
        The runs of the best recipe and of the start recipe, cell by cell.
    wall_seconds
        Time in runs, over all sessions.
    """

    settings: Settings
    folder: Path
    algorithm: Algorithm
    scores: Scores
    reference: Scores
    trials: tuple[FrozenTrial, ...]
    importance: dict[str, float]
    measured: Measurements
    measured_before: Measurements
    wall_seconds: float

    @property
    def recipe(self) -> str:
        """The text of the best recipe, which `parse` reads."""
        return spell(self.algorithm)


@explained
def tune(
    algorithm: Algorithm | str,
    dataset: Sequence[Dataset | str] | Dataset | str = "synthetic",
    trials: int = 100,
    users: Sequence[User | str] | User | str = USERS,
    *,
    out: str | Path,
    vary: Sequence[str] = (),
    fix: Sequence[str] = (),
    objective: Objective | str = "reward=1,validation=1",
    folds: int | None = None,
    seeds: int = 1,
    impressions: int = 10_000,
    length: int = 10,
    metric: Metric | str = "nDCG@10",
    sampler: str = "tpe",
    seed: int = 1,
    batch: int = 20,
    prune: bool = True,
    workers: int | None = None,
    scheduler: Scheduler | None = None,
    device: Device = "cpu",
) -> Tuned:
    """Search for good parameters of a recipe, and return the best; the same call resumes a search that was interrupted.

    Parameters
    ----------
    algorithm
        The start recipe; parameters that are not varied keep their values.
    dataset, users
        One or several; each data set with each user has equal influence.
    trials
        Total number of settings to try.
    out
        Folder of the search: its trials, its runs, ``best.txt`` and ``trials.csv``.
    vary, fix
        As in `search_space`.
    objective
        As in `Objective`.
    folds, seeds, impressions, length, metric, sampler, seed, batch, prune
        As in `Settings`.
    workers, scheduler, device
        As in `run_all`; on a device, all recipes of the search must be able to run in lockstep.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from duelrank.experiments import tune
    >>> with TemporaryDirectory() as folder:
    ...     found = tune("mgd", "synthetic(n_queries=10)", trials=2, users="perfect", out=folder, impressions=50, workers=1)
    >>> len(found.trials), found.algorithm
    (2, MGD())
    """
    recipe = as_part(algorithm, Algorithm)
    settings = Settings(
        recipe,
        search_space(recipe, vary, fix),
        parts(dataset, Dataset),
        parts(users, User),
        Objective.parse(objective) if isinstance(objective, str) else objective,
        folds,
        seeds,
        impressions,
        length,
        as_part(metric, Metric),
        sampler,
        seed,
        batch,
        prune,
    )
    return _search(settings, Path(out), trials, workers, scheduler, device)


def _search(
    settings: Settings, out: Path, trials: int, workers: int | None, scheduler: Scheduler | None, device: Device
) -> Tuned:
    """Make the missing trials of a folder, and write the best recipe and a table of all trials."""
    _optuna()
    whole_number("trials", trials)
    for dataset in settings.datasets:
        if scheduler is None:
            dataset.fold(1)  # raises an error that says where to get it
    if not has_begun(out):
        choose(1, workers, scheduler, device)
        recipes = [settings.algorithm, *variants(settings.algorithm, settings.space)]
        _check_lockstep((spec for recipe in recipes for spec in settings.specs(recipe)), device)
    for each in settings.space:
        _log.info("%s: %s", each.name, each)
    _log.info("%s runs per trial; trials and runs are kept in %s", f"{len(settings.specs(settings.algorithm)):,}", out)
    with Store(out, SUITE) as store, count_bar("runs") as tell, spelling_once():
        check_same(settings, store.folder)
        study, runs = Trials(settings, store.folder), Runs(settings, store, tell, workers, scheduler, device)
        if study.is_open(trials):  # a finished search needs no device to make its report again
            runs.check_device()
        while batch := study.batch(trials):
            _evaluate(study, runs, batch, max(0, trials - len(study.begun)))
            _log.info("%s", _news(study.begun, trials))
        runs.make([settings.algorithm])
        found = _tuned(settings, study, runs, store)
    write_bytes(found.folder / "best.txt", (found.recipe + "\n").encode())
    write_bytes(found.folder / "trials.csv", _csv(found).encode())
    return found


def _evaluate(study: Trials, runs: Runs, batch: Sequence[Trial], waiting: int) -> None:
    """Make the runs of a batch, rung by rung, and finish its trials."""
    settings = runs.settings
    recipes = dict(_recipes(study, settings, batch))
    per_trial = len(settings.specs(settings.algorithm))
    for rung in range(1, settings.rungs + 1):
        unmade = len(recipes) * (per_trial - len(settings.specs(settings.algorithm, rung))) + waiting * per_trial
        failed = runs.make([settings.algorithm, *recipes.values()], rung, unmade)
        for trial in [trial for trial, recipe in recipes.items() if recipe in failed]:
            study.finish(trial, "FAIL")
            del recipes[trial]
        found = {trial: runs.scores(recipe, rung) for trial, recipe in recipes.items()}
        if rung < settings.rungs:
            study.report(rung, found)
            for trial in [trial for trial in found if study.is_below_median(trial)]:
                study.finish(trial, "PRUNED", recipes.pop(trial), found[trial])
    for trial, recipe in recipes.items():
        study.finish(trial, "COMPLETE", recipe, found[trial])


def _recipes(study: Trials, settings: Settings, batch: Iterable[Trial]) -> Iterator[tuple[Trial, Algorithm]]:
    for trial in batch:
        try:
            yield trial, with_values(settings.algorithm, settings.space, trial.params)
        except InvalidRecipe as error:  # two values that exclude each other
            _log.warning("left out trial %d: %s", trial.number, error)
            study.finish(trial, "FAIL")


def _news(trials: Sequence[FrozenTrial], wanted: int) -> str:
    best = best_first(trials)
    leader = f"; best so far {best[0].value:.4f}, trial {best[0].number}" if best else ""
    return f"{len(trials):,} of {counted(wanted, 'trial')}{leader}"


def _tuned(settings: Settings, study: Trials, runs: Runs, store: Store) -> Tuned:
    trials, reference = study.begun, runs.scores(settings.algorithm)
    algorithm = settings.algorithm
    for best in best_first(trials)[:1]:
        if best.value is not None and best.value > reference.value:
            algorithm = with_values(settings.algorithm, settings.space, best.params)
    scores, measured = runs.scores(algorithm), (runs.measured(algorithm), runs.measured(settings.algorithm))
    places = (settings, store.folder, algorithm)
    return Tuned(*places, scores, reference, tuple(trials), study.importance(), *measured, store.wall_seconds)


def _csv(found: Tuned) -> str:
    """Return a line per trial: its state, its scores, its values and its recipe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    measures, space = list(asdict(found.reference)), found.settings.space
    writer.writerow(["trial", "state", *measures, *(each.name for each in space), "recipe"])
    for trial in found.trials:
        scores = [trial.user_attrs.get(name, "") for name in measures]
        values = [each.rounded(trial.params[each.name]) for each in space]
        state, recipe = trial.state.name.lower(), trial.user_attrs.get("recipe", "")
        writer.writerow([trial.number, state, *scores, *values, recipe])
    return text.getvalue()


def best_first(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the complete trials, the best first; equally good ones in order of their numbers."""
    done = [trial for trial in trials if trial.state.name == "COMPLETE"]
    return sorted(done, key=lambda trial: (-(trial.value or 0.0), trial.number))


def _optuna() -> Any:
    """Return Optuna, or raise an error that says how to install it."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("a search for parameters needs Optuna: pip install 'duelrank[tune]'") from None
    return optuna


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Prevent Optuna from logging anything below warnings."""
    logs = _optuna().logging
    before = logs.get_verbosity()
    logs.set_verbosity(logs.WARNING)
    try:
        yield
    finally:
        logs.set_verbosity(before)


class Trials:
    """The trials of a search: an Optuna study in a journal, which only one process may open for writing.

    Parameters
    ----------
    settings
        Settings of the search.
    folder
        Folder of ``study.log``.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._optuna, self._settings = _optuna(), settings
        path = folder / _JOURNAL
        _repair(path)
        with quiet_optuna():
            try:
                self._study = self._open(path)
            except (AssertionError, LookupError, TypeError, ValueError) as error:  # Optuna does not check what it reads
                raise DataFormatError(
                    f"{path} is damaged ({type(error).__name__}: {error}); restore it, or choose another folder (--out)"
                ) from None
            if not self._study.trials:
                self._study.enqueue_trial({each.name: each.start for each in settings.space})

    def _open(self, path: Path) -> Any:
        storages = self._optuna.storages
        return self._optuna.create_study(
            study_name="duelrank",
            storage=storages.JournalStorage(storages.journal.JournalFileBackend(str(path))),
            direction="maximize",
            pruner=self._optuna.pruners.MedianPruner(n_startup_trials=5),
            load_if_exists=True,
        )

    @property
    def begun(self) -> list[FrozenTrial]:
        """All trials that have begun, by number."""
        found: list[FrozenTrial] = self._study.get_trials(deepcopy=False)
        return [trial for trial in found if trial.state.name != "WAITING"]

    def importance(self) -> dict[str, float]:
        """Return the importance of each parameter for being among the best tenth; empty if there are too few trials."""
        try:
            with quiet_optuna(), catch_warnings():
                simplefilter("error")  # Optuna warns if the trials do not distinguish the parameters
                evaluator = self._optuna.importance.PedAnovaImportanceEvaluator()
                return dict(self._optuna.importance.get_param_importances(self._study, evaluator=evaluator))
        except (ValueError, RuntimeError, UserWarning):
            return {}

    def is_open(self, trials: int) -> bool:
        """Return whether fewer than this number of trials have begun, or some are not finished."""
        begun = self.begun
        return len(begun) < trials or not all(trial.state.is_finished() for trial in begun)

    def batch(self, trials: int) -> list[Trial]:
        """Return the next batch, which includes trials that a kill left unfinished; empty after the last of ``trials``."""
        begun, size = self.begun, self._settings.batch
        unfinished = [trial for trial in begun if not trial.state.is_finished()]
        first = (unfinished[0].number if unfinished else len(begun)) // size * size
        last = max(min(first + size, trials), len(begun))
        again = [self._with_values(trial.number, trial._trial_id) for trial in unfinished]
        return again + [self._with_values(number) for number in range(len(begun), last)]

    def _with_values(self, number: int, begun: int | None = None) -> Trial:
        """Return a new trial, or one that has begun, with all values; a resumed trial gets the values it would have had."""
        self._seed(number)
        trial: Trial = self._study.ask() if begun is None else self._optuna.trial.Trial(self._study, begun)
        # Values that are drawn for all parameters together are drawn first, even if some parameters have values.
        _ = trial.relative_params
        for each in self._settings.space:
            self._seed(number, each.name)
            if each.choices:
                trial.suggest_categorical(each.name, each.choices)
            elif each.whole:
                trial.suggest_int(each.name, int(each.low), int(each.high), log=each.log)
            else:
                trial.suggest_float(each.name, each.low, each.high, log=each.log)
        return trial

    def _seed(self, *place: int | str) -> None:
        """Give each trial, and each of its parameters, its own random numbers: a resumed search must not repeat draws."""
        make = getattr(self._optuna.samplers, SAMPLERS[self._settings.sampler])
        self._study.sampler = make(seed=stream_key(self._settings.seed, f"tune {place}") % (1 << 32))

    def report(self, rung: int, scores: dict[Trial, Scores]) -> None:
        """Report the objectives of a batch at a rung, before any of its trials is judged."""
        known = self._study.get_trials(deepcopy=False)
        for trial, found in scores.items():
            if rung not in known[trial.number].intermediate_values:
                trial.report(found.value, rung)

    def is_below_median(self, trial: Trial) -> bool:
        """Return whether a trial is below the median of the finished ones at its rung."""
        if trial.user_attrs.get(_KEPT):  # judged before a kill, when fewer trials were finished
            return False
        if trial.should_prune():
            return True
        trial.set_user_attr(_KEPT, True)
        return False

    def finish(self, trial: Trial, state: str, recipe: Algorithm | None = None, scores: Scores | None = None) -> None:
        """Finish a trial; Optuna's dashboard shows its recipe and its scores."""
        if recipe is not None and scores is not None:
            for name, value in {"recipe": spell(recipe), **asdict(scores)}.items():
                trial.set_user_attr(name, value)
        value = scores.value if scores is not None and state == "COMPLETE" else None
        self._study.tell(trial, value, state=self._optuna.trial.TrialState[state])


def _repair(path: Path) -> None:
    """Remove what a kill may have left: an incomplete last line of the journal, and its lock, which Optuna would wait for."""
    with suppress(FileNotFoundError):
        os.unlink(f"{path}.lock")
    if path.exists():
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)


class Runs:
    """The finished runs of a search; missing runs are made on demand.

    Parameters
    ----------
    settings
        Settings of the search.
    store
        Stores the rows, so that no run is made twice.
    tell
        Shows progress; called with the number of finished runs and the maximum total.
    workers, scheduler, device
        As in `run_all`.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        tell: ProgressCallback,
        workers: int | None = None,
        scheduler: Scheduler | None = None,
        device: Device = "cpu",
    ) -> None:
        self.settings, self._store, self._tell = settings, store, tell
        self._workers, self._scheduler, self._device = workers, scheduler, device
        # The digest of each spec is needed several times, but only while its batch is made, rung by rung.
        self._specs = lru_cache(maxsize=settings.rungs * (settings.batch + 1))(settings.specs)
        self._data = fingerprints(settings.specs(settings.algorithm))
        self._values: dict[str, tuple[float, float]] = {}
        self._made_on: set[str] = set()
        if store.done():
            frame = store.load()
            check_data(frame, settings.specs(settings.algorithm), self._data, store.folder)
            columns = (frame[name].tolist() for name in ("digest", "online_performance", "offline_performance"))
            self._values = {digest: (online, offline) for digest, online, offline in zip(*columns, strict=True)}
            self._made_on = set(frame["device"].tolist())

    def check_device(self) -> None:
        """Raise an error if runs cannot be made on the device, or if the stored runs were made on another device."""
        choose(1, self._workers, self._scheduler, self._device)
        if other := self._made_on - {_device_name(self._device)}:
            raise InvalidValue(
                f"the runs in {self._store.folder} were made on {' and '.join(sorted(other))}, not on "
                f"{_device_name(self._device)}, and runs of two devices cannot be compared: resume with the same --device, or "
                "choose another folder (--out)"
            )

    def measured(self, recipe: Algorithm, rung: int | None = None) -> Measurements:
        """Return the results of the runs of a recipe up to a rung, cell by cell."""
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for spec in self._specs(recipe, rung):
            found.setdefault((spell(spec.dataset), spell(spec.user)), []).append(self._values[spec.digest])
        return {cell: np.array(values) for cell, values in found.items()}

    def scores(self, recipe: Algorithm, rung: int | None = None) -> Scores:
        """Return the scores of a recipe over the runs up to a rung."""
        reference = self.measured(self.settings.algorithm, rung)
        return self.settings.objective.scores(self.measured(recipe, rung), reference)

    def make(self, recipes: Sequence[Algorithm], rung: int | None = None, later: int = 0) -> set[Algorithm]:
        """Make the missing runs of recipes up to a rung; return the recipes whose runs fail.

        Runs that were finished before one failed are kept. If runs of several recipes are missing then, the recipes are halved
        until the failing ones are found.

        Parameters
        ----------
        later
            Maximum number of further runs, for the progress bar.
        """
        missing = self._missing(recipes, rung)
        if not missing:
            return set()
        self.check_device()
        _check_lockstep(missing, self._device)
        try:
            with timed(self._store):
                self._run(missing, len(self._values) + len(missing) + later)
        except InvalidValue as error:  # such as weights that are no longer finite
            left = [recipe for recipe in dict.fromkeys(recipes) if self._missing([recipe], rung)]
            if left == [self.settings.algorithm]:
                raise
            if len(left) == 1:
                _log.warning("left out %s: %s", spell(left[0]), error)
                return set(left)
            half = len(left) // 2
            return self.make(left[:half], rung, later) | self.make(left[half:], rung, later)
        return set()

    def _missing(self, recipes: Iterable[Algorithm], rung: int | None) -> list[RunSpec]:
        wanted = {spec.digest: spec for recipe in recipes for spec in self._specs(recipe, rung)}
        return [spec for digest, spec in wanted.items() if digest not in self._values]

    def _run(self, specs: Sequence[RunSpec], total: int) -> None:
        """Make runs; their rows are written once a second, because each write waits for the disk."""
        rows: list[dict[str, Any]] = []
        written = monotonic()
        self._tell(len(self._values), total)
        try:
            for record in run_all(specs, self._workers, self._scheduler, device=self._device):
                rows.append(record.row(data=self._data[record.spec.dataset, record.spec.fold]))
                self._tell(len(self._values) + len(rows), total)
                if monotonic() - written > _SECONDS:
                    self._keep(rows)
                    written = monotonic()
        finally:
            self._keep(rows)

    def _keep(self, rows: list[dict[str, Any]]) -> None:
        self._store.extend(rows)
        self._values.update((row["digest"], (row["online_performance"], row["offline_performance"])) for row in rows)
        rows.clear()


def _check_lockstep(specs: Iterable[RunSpec], device: Device) -> None:
    """Raise an error if a run cannot be made on the device: results of the CPU cannot be compared with those of the device."""
    if device == "cpu":
        return
    from duelrank.lockstep import why_not

    for spec in dict.fromkeys(replace(spec, fold=1, seed=1) for spec in specs):
        if reasons := why_not(spec):
            raise InvalidValue(
                f"{spell(spec.algorithm)} with the user {spell(spec.user)} cannot run in lockstep: {reasons[0]}. A search "
                "compares runs of one engine: search without that, or leave --device out"
            )


def _device_name(device: Device) -> str:
    """Return the name of a device as records have it."""
    if device == "cpu":
        return device
    from duelrank.lockstep.engine import device_name

    return device_name()
