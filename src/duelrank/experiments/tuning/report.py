"""Writes the report of a search: the best trials, the results of the best recipe cell by cell, and the effect of each parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np

from duelrank.core.progress import spinner
from duelrank.core.registry import counted, spell
from duelrank.drawing import figure_class
from duelrank.experiments.report import Picture, Report, Section
from duelrank.experiments.results import load_results, provenance
from duelrank.experiments.tables import Cell, Column, Row, Table
from duelrank.experiments.tuning.search import SUITE, Tuned, best_first, quiet_optuna
from duelrank.experiments.tuning.settings import Parameter, Scores, value_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BEST = 10  # number of trials in the table
_MEASURES = ("objective", "reward", "validation", "worst reward", "worst validation", "floor")
_FIELDS = {item.name for item in fields(Scores)}
_KINDS = ("reward", "validation")
_COLUMNS = 3  # panels per figure
_WORST = 10  # percent of the trials that may lie below the visible range: the best ones are of interest
_RELATIVE = (
    "Objective and measures are relative to the recipe as it was; validation is the quality on the validation queries."
)
_DASHED = "dashed: the recipe as it was"
_IMPORTANCE = (
    "The importance of a parameter says how much it decides about a trial being among the best tenth (PED-ANOVA)."
)


def write_report(found: Tuned, command: str = "") -> Path:
    """Write ``report.html``, its tables and its figures to the folder of a search; return the path of the page."""
    with spinner("drawing tables and figures"):
        return make_report(found, command).write(found.folder)


def make_report(found: Tuned, command: str = "") -> Report:
    """Return the report of a search; needs matplotlib."""
    figure_class()  # raises an error if matplotlib is missing
    title = f"Search for parameters of {spell(found.settings.algorithm)}"
    sections = [_summary(found), _cells(found), *([_parameters(found)] if best_first(found.trials) else [])]
    return Report(title, tuple(sections), _provenance(found, command))


def _summary(found: Tuned) -> Section:
    settings = found.settings
    states = [trial.state.name for trial in found.trials]
    words = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    counts = ", ".join(f"{states.count(state)} {word}" for state, word in words.items() if state in states)
    answer = (
        f"The best recipe of {counted(len(states), 'trial')} ({counts}) is {found.recipe}. "
        f"Its objective is {found.scores.value:.4f}; that of the recipe as it was is {found.reference.value:.4f}."
    )
    text = (
        f"The objective ({settings.objective}) is relative to the recipe as it was: in each cell, a data set with a user, reward "
        "(the discounted sum over the lists shown) and the quality of the final weights on the validation queries are divided "
        "by its means over the same runs; cells count alike. 1.05 is five percent better. The worst run of each cell is "
        "divided by the same means. The floor is the value of the worst data set.\n\n"
        "The best of many trials on the same runs looks better than it is, because it was chosen for them. Compare it with "
        "others on test queries and other seeds: duelrank compare does that."
    )
    figures: tuple[Picture, ...] = ()
    if best_first(found.trials):
        caption = f"The objective of each complete trial, and the best so far; {_DASHED}"
        figures = (Picture("history", _drawn(found, "plot_optimization_history"), caption),)
    recipes = (("as it was", settings.algorithm), ("best", found.algorithm))
    return Section("What was found", "", text, (_best_table(found),), figures, recipes, answer)


def _best_table(found: Tuned) -> Table:
    space = found.settings.space
    rows = []
    for trial in best_first(found.trials)[:_BEST]:
        scores = Scores(**{name: value for name, value in trial.user_attrs.items() if name in _FIELDS})
        rows.append(_row(str(trial.number), scores, space, [each.rounded(trial.params[each.name]) for each in space]))
    before = [value_at(found.settings.algorithm, each.path) for each in space]
    rows.append(_row("as it was", found.reference, space, before))
    columns = (*map(Column, _MEASURES), *(Column(each.name, "parameters") for each in space))
    return Table("best-trials", "The best trials", columns, tuple(rows), (_RELATIVE,), row_head="trial")


def _row(name: str, scores: Scores, space: Sequence[Parameter], values: Sequence[Any]) -> Row:
    numbers = asdict(scores)
    record = {"trial": name, **numbers, **{each.name: value for each, value in zip(space, values, strict=True)}}
    measures = [Cell(f"{value:.4f}", record=None if i else record) for i, value in enumerate(numbers.values())]
    return Row(name, (*measures, *(Cell(_shown(value)) for value in values)))


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cells(found: Tuned) -> Section:
    """Return the section that compares the best recipe with the start recipe, cell by cell."""
    rows = []
    for (dataset, user), before in found.measured_before.items():
        after, place = found.measured[dataset, user], {"dataset": dataset, "user": user}
        cells = [
            _change(summary(before, axis=0)[column], summary(after, axis=0)[column], place | {"measure": head}, digits)
            for column, digits in ((0, 1), (1, 4))
            for head, summary in ((f"{_KINDS[column]} mean", np.mean), (f"{_KINDS[column]} worst", np.min))
        ]
        rows.append(Row(user, tuple(cells), dataset))
    columns = tuple(Column(head, kind) for kind in _KINDS for head in ("mean", "worst run"))
    n = len(next(iter(found.measured.values())))
    note = f"{counted(n, 'run')} in each cell, the same for both; in brackets the change against the recipe as it was."
    table = Table("cells", "The best recipe, cell by cell", columns, tuple(rows), (note,), "user", "data set")
    return Section("Cell by cell", tables=(table,))


def _change(before: float, after: float, place: dict[str, str], digits: int) -> Cell:
    change = after / before - 1.0 if before else float("nan")
    style: Any = "" if abs(change) < 5e-4 else "up" if change > 0 else "down"
    record = {**place, "before": float(before), "after": float(after)}
    return Cell(f"{after:.{digits}f}", f"({change:+.1%})", style, record)


def _parameters(found: Tuned) -> Section:
    figures = list(_slices(found))
    text = f"Each point is a complete trial; the worst {_WORST}% may lie below the visible range."
    if found.importance:
        text += f" {_IMPORTANCE}"
        figures.append(
            Picture("importance", _drawn(found, "plot_param_importances", False), "Importance of the parameters")
        )
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


def _slices(found: Tuned) -> Iterator[Picture]:
    """Yield figures of the objective against the values of each parameter, a few parameters in each."""
    names = [each.name for each in found.settings.space]
    for number, start in enumerate(range(0, len(names), _COLUMNS), start=1):
        shown = names[start : start + _COLUMNS]
        caption = f"The objective against {', '.join(shown)}; {_DASHED}"
        yield Picture(f"slices-{number}" if start else "slices", _drawn(found, "plot_slice", params=shown), caption)


def _drawn(found: Tuned, plot: str, objective: bool = True, **options: Any) -> Figure:
    """Return one of Optuna's figures; if it has an axis of objectives, the start recipe is marked there."""
    import matplotlib.pyplot as plt
    import optuna

    with quiet_optuna(), plt.rc_context({"figure.constrained_layout.use": True}), catch_warnings():
        simplefilter("ignore")  # the figures are experimental, and warn if all trials have the same value
        study = optuna.create_study(direction="maximize")
        study.add_trials(found.trials)
        panels = np.ravel(getattr(optuna.visualization.matplotlib, plot)(study, target_name="objective", **options))
    figure: Figure = panels[0].figure
    plt.close(figure)  # pyplot would show it in a notebook
    for panel in panels if objective else ():
        panel.axhline(found.reference.value, color="black", linestyle="--", linewidth=1.0)
        panel.set_ylim(_visible([trial.value or 0.0 for trial in best_first(found.trials)], found.reference.value))
    return figure


def _visible(values: Sequence[float], reference: float) -> tuple[float, float]:
    """Return the range of objectives that a figure shows: the worst trials would compress the others."""
    low, high = min(float(np.percentile(values, _WORST)), reference), max(values)
    room = 0.08 * (high - low) or 0.01
    return low - room, high + room


def _provenance(found: Tuned, command: str) -> dict[str, str]:
    settings = found.settings
    made = provenance(load_results(found.folder, SUITE), found.wall_seconds, command)
    how = {
        "Sampler": f"Optuna, {settings.sampler}, seed {settings.seed}, {counted(settings.batch, 'trial')} at a time",
        "Pruning": "below the median after a third of the folds" if settings.rungs > 1 else "none",
        "Objective": str(settings.objective),
    }
    return {**how, **made}
