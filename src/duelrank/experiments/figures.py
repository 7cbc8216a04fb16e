"""Draws matplotlib figures from frames, readable in greyscale print, and writes them to files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.core.files import write_bytes
from duelrank.drawing import COLOURS, escape_formulas, figure_class, style_panel
from duelrank.experiments.results import Frame
from duelrank.experiments.summary import (
    MEASURES,
    Estimate,
    Labels,
    MeanCurve,
    Measure,
    Summary,
    average_curves,
    check_comparable,
    mean_curves,
    summarise,
    view_bins,
    view_curves,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CurveColumn = Literal["offline_curve", "online_curve", "cosine_curve", "reward_curve"]
#: The fill style of a confidence band.
BAND: dict[str, Any] = {"alpha": 0.13, "linewidth": 0.0}

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_NARROW = 4.4  # width in inches of a figure on a phone
_narrow: ContextVar[bool] = ContextVar("narrow", default=False)
_APART = 0.12  # horizontal distance between points of one rescaling


def learning_curves(
    frame: Frame,
    column: CurveColumn = "offline_curve",
    labels: Labels | None = None,
    skyline: float | None = None,
    skyline_label: str = "offline reference",
    title: str = "",
) -> Figure:
    """Draw a curve per algorithm over impressions, the mean of its runs with a 95% confidence band, one panel per user.

    An algorithm and the same with a projection or a memory share a colour and a marker; if both are present, the line of the
    algorithm itself is dashed.

    Parameters
    ----------
    column
        The column of the frame that holds the curves.
    labels
        From a recipe to the short name to print for it.
    skyline, skyline_label
        A value to mark in every panel, such as that of weights learned from all labels, and its name.
    """
    metric = check_one_dataset(frame)
    curves = mean_curves(frame, column)
    styles = family_styles({curve.algorithm: curve.base for curve in curves})
    figure, panels, lines = _draw_panels(curves, styles)
    for panel in panels:
        if skyline is not None:
            lines[""] = panel.axhline(skyline, color="0.25", linestyle=(0, (1, 1.5)), linewidth=1.4)
        _over_impressions(panel, "log")
    panels[0].set_ylabel(_curve_label(column, metric))
    _limit_heights(panels[0], column)
    if title:
        figure.suptitle(title, fontsize="medium")
    ordered = [name for name in (*styles, "") if name in lines]
    names = [(labels or {}).get(name, name) if name else skyline_label for name in ordered]
    add_legend(figure, [lines[name] for name in ordered], names)
    return figure


def _over_impressions(panel: Axes, scale: Literal["linear", "log"]) -> None:
    """Label the x axis and set its scale."""
    panel.set_xlabel("impressions")
    panel.set_xscale(scale)
    panel.xaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")


def _draw_curve(panel: Axes, curve: MeanCurve, style: dict[str, Any]) -> Any:
    (line,) = panel.plot(curve.impressions, curve.mean, label=curve.algorithm, **style)
    if curve.half_width:
        mean, width = np.array(curve.mean), np.array(curve.half_width)
        panel.fill_between(curve.impressions, mean - width, mean + width, color=style["color"], **BAND)
    return line


def _limit_heights(panel: Axes, column: str) -> None:
    """Set the y limits by the curves, not by their confidence bands."""
    lowest, highest = {"online_curve": (0.0, np.inf), "cosine_curve": (-1.0, 1.0)}.get(column, (0.0, 1.0))
    bottom, top = panel.get_ylim()
    panel.set_ylim(max(bottom, lowest), min(top, highest))


def _curve_label(column: str, metric: str) -> str:
    return {
        "offline_curve": f"offline {metric}",
        "online_curve": f"online {metric} so far",
        "cosine_curve": "cosine to the reference",
        "reward_curve": f"{metric} of the lists shown",
    }[column]


def moving_averages(
    frame: Frame, lists: int, window: int, change: tuple[int, int], labels: Labels | None = None, title: str = ""
) -> Figure:
    """Draw the moving average of the metric of the shown lists, mean of the runs with a 95% confidence band, one panel per user.

    Parameters
    ----------
    lists, window
        As in `average_curves`.
    change
        Numbers of the lists at which a change of taste begins and ends, which are marked.
    labels
        From a recipe to the short name to print for it.
    """
    metric = check_one_dataset(frame)
    curves = average_curves(frame, lists, window)
    styles = {
        name: {**style, "marker": ""}
        for name, style in family_styles({curve.algorithm: curve.base for curve in curves}).items()
    }
    figure, panels, lines = _draw_panels(curves, styles)
    for panel in panels:
        panel.axvspan(*change, color="0.94", linewidth=0.0, zorder=0)
        panel.axvline(change[0], color="0.25", linestyle=(0, (1, 1.5)), linewidth=1.4)
        _over_impressions(panel, "linear")
        panel.locator_params(axis="x", nbins=5)
        panel.set_xlim(left=0)
    panels[0].set_ylabel(f"{metric}, last {window:,} lists")
    _limit_heights(panels[0], "online_blocks")
    if title:
        figure.suptitle(title, fontsize="medium")
    add_legend(figure, [lines[name] for name in styles], [(labels or {}).get(name, name) for name in styles])
    return figure


def rewards_by_views(frame: Frame, labels: Labels | None = None, title: str = "") -> Figure:
    """Draw the mean metric of lists by the number of earlier lists of their query, with a 95% confidence band, one panel per user.

    Parameters
    ----------
    labels
        From a recipe to the short name to print for it.
    """
    metric = check_one_dataset(frame)
    curves = view_curves(frame)
    styles = family_styles({curve.algorithm: curve.base for curve in curves})
    figure, panels, lines = _draw_panels(curves, styles)
    names = view_bins(max(len(curve.mean) for curve in curves))
    for panel in panels:
        panel.set_xticks(range(len(names)), names, rotation=60)
        panel.set_xlabel("earlier lists of the query")
    panels[0].set_ylabel(f"{metric} of the lists shown")
    _limit_heights(panels[0], "reward_curve")
    if title:
        figure.suptitle(title, fontsize="medium")
    add_legend(figure, [lines[name] for name in styles], [(labels or {}).get(name, name) for name in styles])
    return figure


def _draw_panels(
    curves: Sequence[MeanCurve], styles: Mapping[str, dict[str, Any]]
) -> tuple[Figure, list[Axes], dict[str, Any]]:
    """Draw a panel per user; return also the line of each algorithm."""
    users = list(dict.fromkeys(curve.user for curve in curves))
    figure, (panels,) = new_figure(len(users), sharex=True, sharey=True)
    lines: dict[str, Any] = {}
    for panel, user in zip(panels, users, strict=True):
        for curve in curves:
            if curve.user == user:
                lines[curve.algorithm] = _draw_curve(panel, curve, styles[curve.algorithm])
        style_panel(panel, user)
    return figure, panels, lines


def performance(frame: Frame, labels: Labels | None = None, title: str = "") -> Figure:
    """Draw mean and 95% confidence interval of every algorithm: a column per user, a row per measure.

    Parameters
    ----------
    labels
        From a recipe to the short name to print for it.
    """
    check_one_dataset(frame)
    summaries = [summarise(frame, measure, tests=False) for measure in MEASURES]
    first = summaries[0]
    names = list(first.algorithms)
    styles = family_styles(first.algorithms)
    figure, panels = new_figure(len(first.users), len(summaries), sharey=True, height=0.8 + 0.24 * len(names))
    for summary, row in zip(summaries, panels, strict=True):
        for user, panel in zip(first.users, row, strict=True):
            _draw_estimates(panel, summary, user, names, styles)
            style_panel(panel, user if summary is first else "")
            panel.set_xlabel(f"{summary.measure} {summary.metric}")
        row[0].set_yticks(range(len(names)), [escape_formulas((labels or {}).get(name, name)) for name in names])
        row[0].set_ylim(len(names) - 0.5, -0.5)
    if title:
        figure.suptitle(title, fontsize="medium")
    return figure


def _draw_estimates(
    panel: Axes, summary: Summary, user: str, names: Sequence[str], styles: dict[str, dict[str, Any]]
) -> None:
    for place, name in enumerate(names):
        estimate = summary.find(summary.datasets[0], user, name)
        if estimate is not None:
            style = {**styles[name], "markevery": None, "linestyle": "none", "markersize": 6}
            panel.errorbar([estimate.mean], [place], xerr=[estimate.half_width or 0.0], capsize=2.5, **style)


def sweep(
    frame: Frame,
    points: Sequence[tuple[float, str]],
    measure: Measure,
    parameter: str,
    label: str,
    base: tuple[str, str] | None = None,
    title: str = "",
) -> Figure:
    """Draw a measure, mean and 95% confidence interval, against the value of a parameter, one panel per user.

    Each panel has its own scale, because users differ more than parameter values do.

    Parameters
    ----------
    points
        Each value of the parameter, and the recipe with that value, as in the frame.
    parameter, label
        The names of the parameter and of the recipe that is varied.
    base
        Label and recipe of the baseline, drawn as a dashed horizontal line.
    """
    metric = check_one_dataset(frame)
    _check_sweep(frame, points, base)
    summary = summarise(frame, measure, tests=False)
    (dataset,) = summary.datasets
    related = base is not None and all(summary.algorithms[recipe] == base[1] for _, recipe in points)
    styles = family_styles({"base": "", "varied": "base" if related else ""})
    figure, (panels,) = new_figure(len(summary.users), sharex=True)
    drawn: dict[str, Any] = {}
    for panel, user in zip(panels, summary.users, strict=True):
        found = [(value, summary.find(dataset, user, recipe)) for value, recipe in sorted(points)]
        drawn[label] = _draw_sweep(panel, [(value, each) for value, each in found if each], styles["varied"])
        level = summary.find(dataset, user, base[1]) if base else None
        if base and level:
            drawn[base[0]] = _draw_base(panel, level, styles["base"])
        style_panel(panel, user)
        panel.set_xlabel(parameter)
    panels[0].set_ylabel(f"{measure} {metric}")
    if title:
        figure.suptitle(title, fontsize="medium")
    add_legend(figure, list(drawn.values()), list(drawn))
    return figure


def _check_sweep(frame: Frame, points: Sequence[tuple[float, str]], base: tuple[str, str] | None) -> None:
    if not points:
        raise InvalidValue("a sweep needs at least one value")
    known = set(frame["algorithm"].tolist())
    for recipe in (*(recipe for _, recipe in points), *([base[1]] if base else [])):
        if recipe not in known:
            raise UnknownName.among("algorithm of these runs", recipe, known)


def _draw_sweep(panel: Axes, points: list[tuple[float, Estimate]], style: dict[str, Any]) -> Any:
    means, widths = [each.mean for _, each in points], [each.half_width or 0.0 for _, each in points]
    style = {**style, "markevery": None}
    return panel.errorbar([value for value, _ in points], means, yerr=widths, capsize=2.5, elinewidth=1.0, **style)


def _draw_base(panel: Axes, estimate: Estimate, style: dict[str, Any]) -> Any:
    """Draw the mean of the base and its confidence interval."""
    mean, width = estimate.mean, estimate.half_width
    if width is not None:
        panel.axhspan(mean - width, mean + width, color=style["color"], **BAND)
    return panel.axhline(mean, color=style["color"], linestyle="--", linewidth=1.3)


@dataclass(frozen=True)
class Arm:
    """One recipe of an ablation: its projection, its rescaling, and its text as in the frame."""

    projection: str
    rescaling: str
    recipe: str


def ablation(frame: Frame, arms: Sequence[Arm], title: str = "") -> Figure:
    """Draw mean and 95% confidence interval of every arm: a column per user, a row per measure.

    Each position on the x axis is a rescaling, each line a projection: parallel lines mean that their effects are independent.
    Each panel has its own scale.
    """
    metric = check_one_dataset(frame)
    for arm in arms:
        if arm.recipe not in frame["algorithm"]:
            raise UnknownName.among("algorithm of these runs", arm.recipe, set(frame["algorithm"].tolist()))
    users = list(dict.fromkeys(frame["user"].tolist()))
    projections = list(dict.fromkeys(arm.projection for arm in arms))
    styles = family_styles(dict.fromkeys(projections, ""))
    figure, panels = new_figure(len(users), len(MEASURES), sharex=True)
    lines: dict[str, Any] = {}
    for measure, row in zip(MEASURES, panels, strict=True):
        summary = summarise(frame, measure, tests=False)
        for user, panel in zip(users, row, strict=True):
            for place, projection in enumerate(projections):
                shift = _APART * (place - (len(projections) - 1) / 2)
                points = _arm_points(summary, user, arms, projection)
                lines[projection] = _draw_arms(panel, points, shift, styles[projection])
            _set_rescaling_axis(panel, user if measure == MEASURES[0] else "", arms)
        row[0].set_ylabel(f"{measure} {metric}")
    for panel in panels[-1]:
        panel.set_xlabel("rescaling of the gradient")
    if title:
        figure.suptitle(title, fontsize="medium")
    add_legend(figure, list(lines.values()), list(lines))
    return figure


_Point = tuple[int, Estimate]


def _arm_points(summary: Summary, user: str, arms: Sequence[Arm], projection: str) -> list[_Point]:
    """Return the position and estimate of each arm with a given projection that has runs."""
    places = _rescalings(arms)
    mine = sorted((places.index(arm.rescaling), arm.recipe) for arm in arms if arm.projection == projection)
    found = [(place, summary.find(summary.datasets[0], user, recipe)) for place, recipe in mine]
    return [(place, estimate) for place, estimate in found if estimate is not None]


def _draw_arms(panel: Axes, points: list[_Point], shift: float, style: dict[str, Any]) -> Any:
    places = [place + shift for place, _ in points]
    style = {**style, "markevery": None, "linewidth": 1.0, "markersize": 6}
    means, widths = [each.mean for _, each in points], [each.half_width or 0.0 for _, each in points]
    return panel.errorbar(places, means, yerr=widths, capsize=3, elinewidth=1.3, **style)


def _set_rescaling_axis(panel: Axes, user: str, arms: Sequence[Arm]) -> None:
    rescalings = _rescalings(arms)
    style_panel(panel, user)
    panel.grid(visible=False, axis="x")
    panel.set_xticks(range(len(rescalings)), [escape_formulas(name) for name in rescalings])
    panel.set_xlim(-0.5, len(rescalings) - 0.5)


def _rescalings(arms: Sequence[Arm]) -> list[str]:
    return list(dict.fromkeys(arm.rescaling for arm in arms))


def new_figure(columns: int, rows: int = 1, height: float = 2.8, **sharing: Any) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure with panels of equal size, below each other in a narrow one; the height of each is in inches."""
    if _narrow.get():
        size, grid = (_NARROW, 1.0 + height * rows * columns), (rows * columns, 1)
    else:
        size, grid = (max(6.0, 1.2 + 3.1 * columns), 1.0 + height * rows), (rows, columns)
    figure: Figure = figure_class()(figsize=size, dpi=150, layout="constrained")
    return figure, figure.subplots(*grid, squeeze=False, **sharing).reshape(rows, columns).tolist()


def narrow(draw: Callable[[], Figure]) -> Figure:
    """Draw a figure for a narrow screen: all panels in one column, each with its title and the label of its y axis."""
    before = _narrow.set(True)
    try:
        figure = draw()
    finally:
        _narrow.reset(before)
    figure.set_layout_engine("constrained", h_pad=0.12)
    titles = [title for title in (panel.get_title() for panel in figure.axes) if title]
    for number, panel in enumerate(figure.axes):
        if titles and not panel.get_title():
            panel.set_title(titles[number % len(titles)], fontsize="medium")
        panel.set_ylabel(panel.get_ylabel() or figure.axes[max(0, number - 1)].get_ylabel())
    return figure


def family_styles(algorithms: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Assign a colour and a marker to each family (an algorithm and those it is the base of), and a line style to each member.

    If an algorithm and one that it is the base of are both present, the base has a dashed line and hollow markers.

    Parameters
    ----------
    algorithms
        From each algorithm to its base; empty if it has no base.
    """
    families = list(dict.fromkeys(base or algorithm for algorithm, base in algorithms.items()))
    members = dict.fromkeys(families, 0)
    styles = {}
    for algorithm, base in algorithms.items():
        family = families.index(base or algorithm)
        if not base:
            styles[algorithm] = _style(family, dashed=algorithm in algorithms.values())
        else:
            styles[algorithm] = _style(family, member=members[base])
            members[base] += 1
    return styles


def add_legend(figure: Figure, lines: Sequence[Any], names: Sequence[str]) -> None:
    """Add a legend below, with each algorithm above its projection if they alternate; long recipes take several lines."""
    letters = int(11 * figure.get_figwidth())  # about as many as fit side by side
    filled = [fill(escape_formulas(name), letters - 8) for name in names]
    most = len(names) if len(names) <= 3 else min(4, (len(names) + 1) // 2)
    columns = next(n for n in range(most, 0, -1) if n == 1 or _legend_width(filled, n) <= letters)
    figure.legend(lines, filled, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2)


def check_one_dataset(frame: Frame) -> str:
    """Return the metric of the runs; raise an error unless they have the same settings and one data set."""
    metric = check_comparable(frame)
    found = sorted(set(frame["dataset"].tolist()))
    if len(found) > 1:
        raise InvalidValue(
            f"a figure shows one data set, but the runs have {', '.join(found)}: select one with `where`"
        )
    return metric


def _legend_width(names: Sequence[str], columns: int) -> int:
    """Return the approximate width, in characters, of a legend that is filled column by column."""
    rows, longer = divmod(len(names), columns)
    ends = [(column + 1) * rows + min(column + 1, longer) for column in range(columns)]
    parts = [names[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return sum(8 + max(len(line) for name in part for line in name.splitlines()) for part in parts)


def _style(family: int, member: int = 0, dashed: bool = False) -> dict[str, Any]:
    colour = COLOURS[family % len(COLOURS)]
    return {
        "color": colour,
        "linestyle": "--" if dashed else _DASHES[member % len(_DASHES)],
        "linewidth": 1.3 if dashed else 1.7,
        "marker": _MARKERS[(family + 3 * member) % len(_MARKERS)],
        "markersize": 4,
        "markerfacecolor": "white" if dashed else colour,
        "markevery": (family + member, 4),  # not on top of the markers of other lines
    }


def check_target(path: Path) -> None:
    """Raise an error if a figure cannot be written to the path, before any work is done."""
    figure_class()
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in known:
        raise InvalidValue(f"cannot write a figure to {path.name!r}; the name must end in .{', .'.join(sorted(known))}")


def save(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write a figure as SVG and as PNG into a folder, atomically, and return the two paths."""
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    write_bytes(svg, to_svg(figure).encode())
    write_bytes(png, _rendered(figure, "png", dpi=200))
    return svg, png


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file name's suffix."""
    write_bytes(path, _rendered(figure, path.suffix.lower().lstrip(".")))


def to_svg(figure: Figure) -> str:
    """Return a figure as SVG; the same figure gives the same text."""
    return _rendered(figure, "svg", metadata={"Date": None}).decode()


def _rendered(figure: Figure, kind: str, **how: Any) -> bytes:
    from matplotlib import rc_context

    drawn = io.BytesIO()
    with rc_context({"svg.hashsalt": "duelrank"}):  # otherwise its ids are random
        figure.savefig(drawn, format=kind, **how)
    return drawn.getvalue()
