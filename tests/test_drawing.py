"""Figures: notebooks show them; curves have readable axes for long tails, one scale of heights, and names that are not formulas."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from duelrank.drawing import feature_curves, figure_class, style_panel
from duelrank.representation import Raw, Steps
from duelrank.representation.curves import Ramps, ShownCurve, shown_curves

RAMPS = Ramps()


def shown(values: NDArray[np.float64], name: str = "price", representation: Ramps | Steps = RAMPS) -> ShownCurve:
    """Return the curve of one feature that rises to its median and falls after it."""
    knots = np.quantile(values, [[0.01, 0.5, 0.99]])
    memory = {"knots": knots, "sample": values[:, None].astype(np.float32), "seen": np.array([len(values)])}
    weights = np.array([1.0, -2.0] if isinstance(representation, Ramps) else [0.0, 1.0])
    (found,) = shown_curves(representation, weights, memory, [name])
    return found


LONG = np.exp(3.0 + 1.5 * np.random.default_rng(1).standard_normal(300))


def test_the_axis_of_a_long_tail_is_logarithmic():
    figure = feature_curves([shown(LONG)], "")
    (panel,) = figure.axes
    low, high = panel.get_xlim()
    ticks = [tick for tick in panel.get_xticks() if low <= tick <= high]
    assert 3 <= len(ticks) <= 7
    assert set(ticks) <= {value * size for value in (1.0, 2.0, 5.0) for size in (0.1, 1.0, 10.0, 100.0, 1000.0)}
    places = panel.transAxes.inverted().transform(panel.transData.transform([(tick, 0.0) for tick in ticks]))[:, 0]
    assert np.ptp(places) > 0.5
    assert np.diff(places).min() > 0.1  # labels do not overlap
    median = panel.transAxes.inverted().transform(panel.transData.transform((np.median(LONG), 0.0)))[0]
    assert 0.3 < median < 0.7
    assert (high - low) * 0.2 > np.median(LONG) - low  # which an even axis would have put at the left end


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(2).random(300),
        np.random.default_rng(3).integers(0, 3, 300).astype(float),
        50.0 + np.random.default_rng(4).standard_normal(300),
    ],
)
def test_other_axes_are_even(values):
    (panel,) = feature_curves([shown(values)], "").axes
    assert panel.get_xscale() == "linear"


@pytest.mark.parametrize(
    "values",
    [np.zeros(50), np.full(50, 7.0), np.r_[np.zeros(49), 1e6], -LONG, np.r_[LONG, -LONG], 1e-9 * LONG, 1e30 * LONG],
)
@pytest.mark.parametrize("representation", [Ramps(), Steps()])
def test_any_values_can_be_drawn(values, representation):
    figure = feature_curves([shown(values, representation=representation)], "any")
    figure.savefig(io.BytesIO(), format="png")
    (panel,) = figure.axes
    heights = panel.lines[1].get_ydata()
    assert np.isfinite(heights).all()


def test_bars_are_the_shares_of_documents():
    found = shown(LONG)
    (panel,) = feature_curves([found], "").axes
    heights = np.array([bar.get_height() for bar in panel.patches])
    np.testing.assert_allclose(heights / heights.sum(), found.shares)
    assert found.shares.sum() == pytest.approx(1.0)


def test_heights_have_one_scale_and_curves_a_mean_of_zero():
    low, high = shown(LONG, "low"), shown(LONG, "high")
    steep = replace(high, curve=replace(high.curve, heights=5.0 * high.curve.heights))
    one, other = feature_curves([steep, low], "").axes
    assert one.get_ylim() == other.get_ylim()
    assert np.ptp(one.lines[1].get_ydata()) == pytest.approx(5.0 * np.ptp(other.lines[1].get_ydata()), rel=1e-3)
    assert other.lines[1].get_ydata().min() < 0.0 < other.lines[1].get_ydata().max()


def test_names_and_titles_are_text():
    curves = shown_curves(Raw(), np.arange(3.0), {}, ["$x", "a long name of a feature that says everything", "x_1"])
    figure = feature_curves(curves, "$mgd", most=2)
    figure.savefig(io.BytesIO(), format="png")
    assert figure.get_suptitle() == r"\$mgd; 1 more feature moves rankings less"
    assert figure.get_supxlabel() == "value of the feature"
    assert max(len(panel.get_title()) for panel in figure.axes) <= 31


def test_a_notebook_shows_a_figure_without_pyplot_also_after_the_trip_to_another_process():
    figure = figure_class()(figsize=(1.0, 1.0))
    style_panel(figure.subplots(), "title")
    again = pickle.loads(pickle.dumps(figure))
    assert again._repr_png_() == figure._repr_png_()
    assert again._repr_png_().startswith(b"\x89PNG")
    assert again.axes[0].get_title() == "title"
