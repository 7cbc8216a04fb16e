"""Searches for good parameters of a recipe: batches of trials, whose runs are made together, until there are enough."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe
from duelrank.core.grammar import as_part, listed
from duelrank.core.progress import count_bar
from duelrank.core.registry import P, spell, spelling_once
from duelrank.core.validation import explained, whole_number
from duelrank.datasets import Dataset
from duelrank.experiments.files import write_bytes
from duelrank.experiments.pipeline import USERS
from duelrank.experiments.results.store import Store
from duelrank.experiments.run.device import Device
from duelrank.experiments.run.scheduler import Scheduler
from duelrank.experiments.tuning.objective import Measured, Objective, Scores
from duelrank.experiments.tuning.runs import Runs, check_engine
from duelrank.experiments.tuning.settings import Settings, check_same, has_begun
from duelrank.experiments.tuning.space import search_space, with_values
from duelrank.experiments.tuning.study import Study, best_first, optuna
from duelrank.metrics import Metric
from duelrank.users import User

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

__all__ = ["SUITE", "Tuned", "make_settings", "search", "tune"]

#: The name in the store of a search.
SUITE = "tune"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a search has found.

    Parameters
    ----------
    settings
        Of the search.
    folder
        Where its trials, runs and report are.
    algorithm, scores
        The best recipe and what it achieves; the recipe that the search began with if none is better.
    reference
        What the recipe that the search began with achieves.
    trials
        All trials, by number.
    importance
        How much each parameter decides about being among the best tenth of the trials.
    measured, measured_before
        The runs of the best recipe and of the one that the search began with, cell by cell.
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
    measured: Measured
    measured_before: Measured
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
        The recipe that the search begins with; parameters that it does not vary stay as they are.
    dataset, users
        One or several; each data set with each user counts alike.
    trials
        How many settings to try in all.
    out
        The folder of the search: its trials, its runs, ``best.txt`` and ``trials.csv``.
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
    settings = make_settings(
        algorithm,
        dataset,
        users,
        vary,
        fix,
        objective,
        folds=folds,
        seeds=seeds,
        impressions=impressions,
        length=length,
        metric=as_part(metric, Metric),
        sampler=sampler,
        seed=seed,
        batch=batch,
        prune=prune,
    )
    return search(settings, out, trials, workers, scheduler, device)


def make_settings(
    algorithm: Algorithm | str,
    dataset: Sequence[Dataset | str] | Dataset | str,
    users: Sequence[User | str] | User | str,
    vary: Sequence[str],
    fix: Sequence[str],
    objective: Objective | str,
    **further: Any,
) -> Settings:
    """Return the settings of a search; parts may be given as texts."""
    recipe = as_part(algorithm, Algorithm)
    weights = Objective.parse(objective) if isinstance(objective, str) else objective
    space = search_space(recipe, vary, fix)
    return Settings(recipe, space, _parts(dataset, Dataset), _parts(users, User), weights, **further)


def search(
    settings: Settings,
    out: str | Path,
    trials: int,
    workers: int | None = None,
    scheduler: Scheduler | None = None,
    device: Device = "cpu",
) -> Tuned:
    """Make the trials that are missing in a folder, and write the best recipe and a table of all trials there."""
    optuna()
    whole_number("trials", trials)
    for dataset in settings.datasets:
        if scheduler is None:
            dataset.fold(1)  # an error says where to get it
    if not has_begun(Path(out)):
        check_engine(settings, workers, scheduler, device)
    with Store(out, SUITE) as store, count_bar("runs") as tell, spelling_once():
        check_same(settings, store.folder)
        study, runs = Study(settings, store.folder), Runs(settings, store, tell, workers, scheduler, device)
        if study.is_open(trials):  # a finished search needs no device to make its report again
            runs.check_device()
        while batch := study.batch(trials):
            _evaluate(study, runs, batch, max(0, trials - len(study.trials)))
            _log.info("%s", _news(study.trials, trials))
        runs.make([settings.algorithm])
        found = _tuned(settings, study, runs, store)
    write_bytes(found.folder / "best.txt", (found.recipe + "\n").encode())
    write_bytes(found.folder / "trials.csv", _csv(found).encode())
    return found


def _evaluate(study: Study, runs: Runs, batch: Sequence[Trial], waiting: int) -> None:
    """Make the runs of a batch, rung by rung, and finish its trials."""
    settings = runs.settings
    recipes = dict(_recipes(study, settings, batch))
    per_trial = len(settings.specs(settings.algorithm))
    for rung in range(1, settings.rungs + 1):
        unmade = len(recipes) * (per_trial - len(settings.specs(settings.algorithm, rung))) + waiting * per_trial
        failed = runs.make([settings.algorithm, *recipes.values()], rung, unmade)
        for trial in [trial for trial, recipe in recipes.items() if recipe in failed]:
            study.fail(trial)
            del recipes[trial]
        if rung == settings.rungs:
            break
        found = {trial: runs.scores(recipe, rung) for trial, recipe in recipes.items()}
        for trial, scores in found.items():
            study.report(trial, rung, scores.value)
        for trial, scores in found.items():
            if study.is_pruned(trial, _notes(recipes[trial], scores)):
                del recipes[trial]
    for trial, recipe in recipes.items():
        scores = runs.scores(recipe)
        study.tell(trial, scores.value, _notes(recipe, scores))


def _recipes(study: Study, settings: Settings, batch: Iterable[Trial]) -> Iterable[tuple[Trial, Algorithm]]:
    for trial in batch:
        try:
            yield trial, with_values(settings.algorithm, settings.space, trial.params)
        except InvalidRecipe as error:  # two values that exclude each other
            _log.warning("left out trial %d: %s", trial.number, error)
            study.fail(trial)


def _notes(recipe: Algorithm, scores: Scores) -> dict[str, Any]:
    return {"recipe": spell(recipe), **asdict(scores)}


def _news(trials: Sequence[FrozenTrial], wanted: int) -> str:
    best = best_first(trials)
    leader = f"; best so far {best[0].value:.4f}, trial {best[0].number}" if best else ""
    return f"{len(trials):,} of {wanted:,} trials{leader}"


def _tuned(settings: Settings, study: Study, runs: Runs, store: Store) -> Tuned:
    trials, reference = study.trials, runs.scores(settings.algorithm)
    algorithm = settings.algorithm
    for best in best_first(trials)[:1]:
        if best.value is not None and best.value > reference.value:
            algorithm = with_values(settings.algorithm, settings.space, best.params)
    return Tuned(
        settings,
        store.folder,
        algorithm,
        runs.scores(algorithm),
        reference,
        tuple(trials),
        study.importance,
        runs.measured(algorithm),
        runs.measured(settings.algorithm),
        store.wall_seconds,
    )


def _csv(found: Tuned) -> str:
    """Return a line per trial: its state, its objective, what it achieves, its values and its recipe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    measures = list(asdict(found.reference))
    names = [each.name for each in found.settings.space]
    writer.writerow(["trial", "state", *measures, *names, "recipe"])
    for trial in found.trials:
        notes = trial.user_attrs
        achieved = [notes.get(name, "") for name in measures]
        values = [each.rounded(trial.params[each.name]) for each in found.settings.space]
        writer.writerow([trial.number, trial.state.name.lower(), *achieved, *values, notes.get("recipe", "")])
    return text.getvalue()


def _parts(given: Any, kind: type[P]) -> tuple[P, ...]:
    """Return one or several parts, given as objects or texts, without duplicates."""
    return tuple(dict.fromkeys(as_part(each, kind) for each in listed(given)))
