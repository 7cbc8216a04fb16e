"""Defines the figures that notebooks show; it imports matplotlib, so that only `figure_class` imports it."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

__all__ = ["ShownFigure"]


class ShownFigure(Figure):
    """A figure that a notebook shows, also where nobody has imported ``matplotlib.pyplot``, which teaches notebooks to."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()
