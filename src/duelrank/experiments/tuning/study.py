"""Wraps Optuna: which values the next trials try, what came of earlier ones, and which are worth finishing.

All trials are in ``study.log`` of the folder, an Optuna journal. A search that is killed goes on from there: the values of a trial
depend only on the seed, its number and the trials before its batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

from duelrank.core.errors import DataFormatError, MissingExtra
from duelrank.core.randomness import stream_key
from duelrank.experiments.tuning.settings import SAMPLERS, Settings

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

__all__ = ["JOURNAL", "Study", "best_first", "optuna"]

JOURNAL = "study.log"
_NAME = "duelrank"
_KEPT = "kept"


def optuna() -> Any:
    """Return Optuna, or raise an error that says how to install it."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("a search for parameters needs Optuna: pip install 'duelrank[tune]'") from None
    return optuna


class Study:
    """The trials of a search, on the disk; only one process may have it open for writing.

    Parameters
    ----------
    settings
        Of the search.
    folder
        Where ``study.log`` is.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._optuna, self._settings = optuna(), settings
        path = folder / JOURNAL
        _repair(path)
        with self._quiet():
            try:
                self._study = self._open(path)
            except (AssertionError, LookupError, TypeError, ValueError) as error:  # Optuna does not check what it reads
                raise DataFormatError(
                    f"{path} is damaged ({type(error).__name__}: {error}); restore it, or choose another folder (--out)"
                ) from None
            if not self._study.trials:
                self._study.enqueue_trial({each.name: each.start for each in settings.space})

    def _open(self, path: Path) -> Any:
        """Read the journal, or begin it."""
        backend = self._optuna.storages.journal.JournalFileBackend(str(path))
        return self._optuna.create_study(
            study_name=_NAME,
            storage=self._optuna.storages.JournalStorage(backend),
            direction="maximize",
            pruner=self._optuna.pruners.MedianPruner(n_startup_trials=5),
            load_if_exists=True,
        )

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials that have begun, by number."""
        found: list[FrozenTrial] = self._study.get_trials(deepcopy=False)
        return [trial for trial in found if trial.state.name != "WAITING"]

    @property
    def importance(self) -> dict[str, float]:
        """How much each parameter decides about being among the best tenth of the trials; empty if there are too few trials."""
        evaluator = self._optuna.importance.PedAnovaImportanceEvaluator()
        try:
            with self._quiet(), catch_warnings():
                simplefilter("error")  # Optuna warns where the trials do not tell parameters apart
                found: dict[str, float] = self._optuna.importance.get_param_importances(
                    self._study, evaluator=evaluator
                )
        except (ValueError, RuntimeError, UserWarning):
            return {}
        return found

    def is_open(self, trials: int) -> bool:
        """Return whether fewer than so many trials have begun, or some are not finished."""
        begun = self.trials
        return len(begun) < trials or not all(trial.state.is_finished() for trial in begun)

    def batch(self, trials: int) -> list[Trial]:
        """Return the next batch, of which some may have begun before a kill; at most so many trials in all, empty at the end."""
        begun = self.trials
        open_trials = [trial.number for trial in begun if not trial.state.is_finished()]
        first = (min(open_trials) if open_trials else len(begun)) // self._settings.batch * self._settings.batch
        last = max(min(first + self._settings.batch, trials), len(begun))
        asked = [self._again(begun[number]) for number in open_trials]
        return asked + [self._ask(number) for number in range(len(begun), last)]

    def tell(self, trial: Trial, value: float, notes: dict[str, Any]) -> None:
        """Finish a trial with its objective; notes are shown by Optuna's dashboard and kept for the report."""
        self._note(trial, notes)
        self._study.tell(trial, value)

    def fail(self, trial: Trial) -> None:
        """Finish a trial whose recipe does not work."""
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)

    def report(self, trial: Trial, rung: int, value: float) -> None:
        """Report the objective of a trial at a rung; those of a whole batch come before the first is judged."""
        if rung not in self._frozen(trial).intermediate_values:
            trial.report(value, rung)

    def is_pruned(self, trial: Trial, notes: dict[str, Any]) -> bool:
        """Finish a trial that is below the median of the finished ones at its rung; return whether it was."""
        if trial.user_attrs.get(_KEPT):  # judged before a kill, when fewer trials were finished
            return False
        if not trial.should_prune():
            trial.set_user_attr(_KEPT, True)
            return False
        self._note(trial, notes)
        self._study.tell(trial, state=self._optuna.trial.TrialState.PRUNED)
        return True

    def _note(self, trial: Trial, notes: dict[str, Any]) -> None:
        for name, value in notes.items():
            trial.set_user_attr(name, value)

    def _frozen(self, trial: Trial) -> FrozenTrial:
        found: FrozenTrial = self._study.get_trials(deepcopy=False)[trial.number]
        return found

    def _ask(self, number: int) -> Trial:
        self._seed(number)
        return self._with_values(self._study.ask())

    def _again(self, begun: FrozenTrial) -> Trial:
        """Return a trial that had begun before a kill; values that it does not have yet are chosen as they would have been."""
        self._seed(begun.number)
        return self._with_values(self._optuna.trial.Trial(self._study, begun._trial_id))

    def _with_values(self, trial: Trial) -> Trial:
        # What is drawn for all parameters together is drawn first, whether some have values or not.
        _ = trial.relative_params
        for each in self._settings.space:
            self._seed(trial.number, each.name)
            if each.choices:
                trial.suggest_categorical(each.name, each.choices)
            elif each.whole:
                trial.suggest_int(each.name, int(each.low), int(each.high), log=each.log)
            else:
                trial.suggest_float(each.name, each.low, each.high, log=each.log)
        return trial

    def _seed(self, *place: int | str) -> None:
        """Give each trial, and each of its parameters, random numbers of its own: a search that goes on must not repeat draws."""
        make = getattr(self._optuna.samplers, SAMPLERS[self._settings.sampler])
        self._study.sampler = make(seed=stream_key(self._settings.seed, f"tune {place}") % (1 << 32))

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Keep Optuna from announcing what nobody has to know."""
        before = self._optuna.logging.get_verbosity()
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        try:
            yield
        finally:
            self._optuna.logging.set_verbosity(before)


def best_first(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that have made all of their runs, the best first; of equally good ones the earliest."""
    done = [trial for trial in trials if trial.state.name == "COMPLETE"]
    return sorted(done, key=lambda trial: (-(trial.value or 0.0), trial.number))


def _repair(path: Path) -> None:
    """Remove what a kill may have left of a journal: an incomplete last line, and its lock, which would be waited for."""
    with suppress(FileNotFoundError):
        os.unlink(f"{path}.lock")
    if not path.exists():
        return
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)
