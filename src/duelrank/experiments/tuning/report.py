"""Makes the report of a search: the best trials, what the best recipe achieves cell by cell, and what each parameter does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duelrank.core.registry import spell
from duelrank.experiments.report import Picture, Report, Section
from duelrank.experiments.results.provenance import provenance
from duelrank.experiments.results.store import load_results
from duelrank.experiments.tables import Cell, Column, Row, Table
from duelrank.experiments.tuning.figures import draw_history, draw_importance, draw_slices
from duelrank.experiments.tuning.objective import Scores
from duelrank.experiments.tuning.search import SUITE, Tuned
from duelrank.experiments.tuning.space import Parameter, value_at
from duelrank.experiments.tuning.study import best_first

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

__all__ = ["make_report", "write_report"]

_BEST = 10
_MEASURES = ("objective", "reward", "validation", "worst reward", "worst validation")


def write_report(found: Tuned, command: str = "") -> Path:
    """Write ``report.html``, its tables and its figures to the folder of a search; return the path of the page."""
    return make_report(found, command).write(found.folder)


def make_report(found: Tuned, command: str = "") -> Report:
    """Return the report of a search; needs matplotlib."""
    title = f"Search for parameters of {spell(found.settings.algorithm)}"
    sections = [_summary(found), _cells(found), *([_parameters(found)] if best_first(found.trials) else [])]
    return Report(title, tuple(sections), _provenance(found, command))


def _summary(found: Tuned) -> Section:
    settings = found.settings
    states = [trial.state.name for trial in found.trials]
    counts = ", ".join(
        f"{states.count(state)} {word}"
        for state, word in (("COMPLETE", "complete"), ("PRUNED", "pruned"), ("FAIL", "failed"))
        if state in states
    )
    text = (
        f"The best recipe of {len(states):,} trials ({counts}) is {found.recipe}. Its objective is {found.scores.value:.4f}; "
        f"that of the recipe as it was is {found.reference.value:.4f}.\n\n"
        f"The objective ({settings.objective}) is relative to the recipe as it was: in each cell, a data set with a user, reward "
        "(the discounted sum over the lists shown) and the quality of the final weights on the validation queries are divided "
        "by its means over the same runs; cells count alike. 1.05 is five percent better. The worst run of each cell is "
        "divided by the same means.\n\n"
        "The best of many trials on the same runs looks better than it is, because it was chosen for them. Compare it with "
        "others on test queries and other seeds: duelrank compare does that."
    )
    figures: tuple[Picture, ...] = ()
    if best_first(found.trials):
        figures = (Picture("history", draw_history(found), "The objective of each trial, and the best so far"),)
    recipes = {"as it was": settings.algorithm, "best": found.algorithm}
    return Section(
        "What was found", text=text, tables=(_best_table(found),), figures=figures, recipes=tuple(recipes.items())
    )


def _best_table(found: Tuned) -> Table:
    names = [each.name for each in found.settings.space]
    values = {each.name: value_at(found.settings.algorithm, each.path) for each in found.settings.space}
    rows = [_trial_row(found, trial, names) for trial in best_first(found.trials)[:_BEST]]
    rows.append(_row("as it was", found.reference, [values[name] for name in names], names))
    columns = (*(Column(name) for name in _MEASURES), *(Column(name, "parameters") for name in names))
    note = "Objective and measures are relative to the recipe as it was; validation is the quality on the validation queries."
    return Table("best-trials", "The best trials", columns, tuple(rows), (note,), row_head="trial")


def _trial_row(found: Tuned, trial: FrozenTrial, names: Sequence[str]) -> Row:
    scores = Scores(**{name: trial.user_attrs[name] for name in Scores.__dataclass_fields__})
    return _row(
        str(trial.number), scores, [each.rounded(trial.params[each.name]) for each in found.settings.space], names
    )


def _row(name: str, scores: Scores, values: Sequence[Any], names: Sequence[str]) -> Row:
    record = {"trial": name, **asdict(scores), **dict(zip(names, values, strict=True))}
    measures = [
        Cell(f"{value:.4f}", record=record if i == 0 else None) for i, value in enumerate(asdict(scores).values())
    ]
    return Row(name, (*measures, *(Cell(_shown(value)) for value in values)))


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cells(found: Tuned) -> Section:
    """Return the section that compares the best recipe with the one as it was, in each cell."""
    rows = []
    for (dataset, user), before in found.measured_before.items():
        after = found.measured[dataset, user]
        cells = [
            _change(
                summary(before)[column],
                summary(after)[column],
                {"dataset": dataset, "user": user, "measure": head},
                digits,
            )
            for column, digits in ((0, 1), (1, 4))
            for head, summary in ((f"{_KINDS[column]} mean", _mean), (f"{_KINDS[column]} worst", _worst))
        ]
        rows.append(Row(user, tuple(cells), dataset))
    columns = tuple(Column(head, group) for group in _KINDS for head in ("mean", "worst run"))
    n = len(next(iter(found.measured.values())))
    note = f"{n} runs in each cell, the same for both; in brackets the change against the recipe as it was."
    table = Table(
        "cells",
        "The best recipe, cell by cell",
        columns,
        tuple(rows),
        (note,),
        row_head="user",
        section_head="data set",
    )
    return Section("Cell by cell", tables=(table,))


_KINDS = ("reward", "validation")


def _mean(values: Any) -> Any:
    return values.mean(axis=0)


def _worst(values: Any) -> Any:
    return values.min(axis=0)


def _change(before: float, after: float, place: dict[str, str], digits: int) -> Cell:
    change = after / before - 1.0 if before else float("nan")
    style: Any = "" if abs(change) < 5e-4 else "up" if change > 0 else "down"
    record = {**place, "before": float(before), "after": float(after)}
    return Cell(f"{after:.{digits}f}", f"({change:+.1%})", style, record)


def _parameters(found: Tuned) -> Section:
    caption = (
        "Objective against each parameter; hollow: pruned after a third of the folds, star: the best, dashed: as it was"
    )
    figures = [Picture("slices", draw_slices(found), caption)]
    text = "Each point is a trial; the worst tenth may lie below the picture."
    if found.importance:
        text += " The importance of a parameter says how much it decides about a trial being among the best tenth (PED-ANOVA)."
        figures.append(Picture("importance", draw_importance(found), "Importance of the parameters"))
    rows = [_parameter_row(found, each) for each in found.settings.space]
    columns = (Column("range"), Column("as it was"), Column("best"), Column("importance"))
    table = Table("parameters", "The parameters that were searched", columns, tuple(rows), row_head="parameter")
    return Section("The parameters", text=text, tables=(table,), figures=tuple(figures))


def _parameter_row(found: Tuned, each: Parameter) -> Row:
    before, best = (value_at(recipe, each.path) for recipe in (found.settings.algorithm, found.algorithm))
    importance = found.importance.get(each.name)
    record = {"parameter": each.name, "range": str(each), "before": before, "best": best, "importance": importance}
    share = "" if importance is None else f"{importance:.2f}"
    return Row(each.name, (Cell(str(each), record=record), *map(Cell, (_shown(before), _shown(best), share))))


def _provenance(found: Tuned, command: str) -> dict[str, str]:
    settings = found.settings
    made = provenance(load_results(found.folder, SUITE), found.wall_seconds, command)
    how = {
        "Sampler": f"Optuna, {settings.sampler}, seed {settings.seed}, {settings.batch} trials at a time",
        "Pruning": "below the median after a third of the folds" if settings.rungs > 1 else "none",
        "Objective": str(settings.objective),
    }
    return {**how, **made}
