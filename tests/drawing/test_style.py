"""Figures are shown by notebooks as they are."""

from __future__ import annotations

import pickle

from duelrank.drawing import figure_class, style_panel


def test_a_notebook_shows_a_figure_without_pyplot():
    figure = figure_class()(figsize=(1.0, 1.0))
    style_panel(figure.subplots(), "title")
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_figure_survives_the_trip_to_another_process():
    figure = figure_class()(figsize=(1.0, 1.0))
    style_panel(figure.subplots(), "title")
    (panel,) = pickle.loads(pickle.dumps(figure)).axes
    assert panel.get_title() == "title"
