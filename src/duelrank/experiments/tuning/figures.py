"""Draws the figures of a search: the objective trial by trial, against each parameter, and the importance of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from duelrank.drawing import COLOURS, style_panel
from duelrank.experiments.figures import add_legend, new_figure
from duelrank.experiments.tuning.space import Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from optuna.trial import FrozenTrial

    from duelrank.experiments.tuning.search import Tuned

__all__ = ["draw_history", "draw_importance", "draw_slices"]

_DONE: dict[str, Any] = {"color": COLOURS[0], "s": 14, "alpha": 0.75, "linewidths": 0.0}
_PRUNED: dict[str, Any] = {"facecolors": "none", "edgecolors": "0.6", "s": 12, "linewidths": 0.7}
_COLUMNS = 3
_WIDTH = 10.0  # inches, as wide as three panels
_WORST = 10  # percent of the trials that may be below what a figure shows: the best ones are of interest


def draw_history(found: Tuned) -> Figure:
    """Draw the objective of every trial in their order, and the best so far."""
    figure, ((panel,),) = new_figure(1)
    figure.set_figwidth(_WIDTH)
    done, pruned = _split(found.trials)
    drawn: dict[str, Any] = {}
    if pruned:
        drawn["pruned after a third of the folds"] = panel.scatter(_numbers(pruned), _values(pruned), **_PRUNED)
    drawn["trial"] = panel.scatter(_numbers(done), _values(done), **_DONE)
    best = np.maximum.accumulate(_values(done))
    (drawn["best so far"],) = panel.step(_numbers(done), best, where="post", color=COLOURS[1], linewidth=1.5)
    drawn["the recipe as it was"] = panel.axhline(found.reference.value, color="black", linestyle="--", linewidth=1.0)
    _limit(panel, found)
    panel.set_xlabel("trial")
    panel.set_ylabel("objective")
    style_panel(panel, "")
    add_legend(figure, list(drawn.values()), list(drawn))
    return figure


def draw_slices(found: Tuned) -> Figure:
    """Draw the objective of every trial against each of its values."""
    space = found.settings.space
    columns = min(_COLUMNS, len(space))
    rows = -(-len(space) // columns)
    figure, panels = new_figure(columns, rows, height=2.2, sharey=True)
    flat = [panel for row in panels for panel in row]
    done, pruned = _split(found.trials)
    best = max(done, key=lambda trial: trial.user_attrs["value"])
    for panel, parameter in zip(flat, space, strict=False):
        for trials, style in ((pruned, _PRUNED), (done, _DONE)):
            panel.scatter(_places(trials, parameter), _values(trials), **style)
        panel.scatter(_places([best], parameter), _values([best]), color=COLOURS[1], marker="*", s=110, zorder=3)
        panel.axhline(found.reference.value, color="black", linestyle="--", linewidth=1.0)
        _scale(panel, parameter)
        style_panel(panel, parameter.name)
    for panel in flat[len(space) :]:
        panel.set_visible(False)
    _limit(flat[0], found)
    for row in panels:
        row[0].set_ylabel("objective")
    return figure


def draw_importance(found: Tuned) -> Figure:
    """Draw how much each parameter decides about being among the best trials."""
    names = list(found.importance)
    figure, ((panel,),) = new_figure(1, height=0.28 * len(names))
    figure.set_figwidth(_WIDTH)
    panel.barh(range(len(names)), list(found.importance.values()), color=COLOURS[0], height=0.6)
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_xlabel("share of the importance")
    style_panel(panel, "")
    return figure


def _split(trials: Sequence[FrozenTrial]) -> tuple[list[FrozenTrial], list[FrozenTrial]]:
    """Return the trials that made all of their runs, and those that were pruned."""
    done = [trial for trial in trials if trial.state.name == "COMPLETE"]
    return done, [trial for trial in trials if trial.state.name == "PRUNED"]


def _numbers(trials: Sequence[FrozenTrial]) -> list[int]:
    return [trial.number for trial in trials]


def _values(trials: Sequence[FrozenTrial]) -> list[float]:
    return [trial.user_attrs["value"] for trial in trials]


def _places(trials: Sequence[FrozenTrial], parameter: Parameter) -> list[Any]:
    values = [trial.params[parameter.name] for trial in trials]
    return [parameter.choices.index(value) for value in values] if parameter.choices else values


def _scale(panel: Axes, parameter: Parameter) -> None:
    if parameter.choices:
        panel.set_xticks(range(len(parameter.choices)), [str(choice) for choice in parameter.choices])
        panel.set_xlim(-0.5, len(parameter.choices) - 0.5)
        return
    if parameter.log:
        panel.set_xscale("log")
    ends = np.array([parameter.low, parameter.high])
    ends = np.log(ends) if parameter.log else ends
    room = 0.04 * (ends[1] - ends[0]) * np.array([-1.0, 1.0])
    panel.set_xlim(*(np.exp(ends + room) if parameter.log else ends + room))


def _limit(panel: Axes, found: Tuned) -> None:
    """Leave the worst trials out of the picture: they would flatten the others."""
    done, pruned = _split(found.trials)
    values = [*_values(done), *_values(pruned), found.reference.value]
    low, high = float(np.percentile(values, _WORST)), max(values)
    low = min(low, found.reference.value)
    room = 0.08 * (high - low) or 0.01
    panel.set_ylim(low - room, high + room)
