"""Writes figures to files: SVG and PNG, or the format of the file name."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duelrank.core.errors import InvalidValue
from duelrank.experiments.figures.style import figure_class
from duelrank.experiments.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_target", "save", "to_svg", "write_figure"]


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
    write_bytes(png, _draw(figure, "png", dpi=200))
    return svg, png


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file name's suffix."""
    write_bytes(path, _draw(figure, path.suffix.lower().lstrip(".")))


def to_svg(figure: Figure) -> str:
    """Return a figure as SVG; the same figure gives the same text."""
    return _draw(figure, "svg", metadata={"Date": None}).decode()


def _draw(figure: Figure, kind: str, **how: Any) -> bytes:
    from matplotlib import rc_context

    drawn = io.BytesIO()
    with rc_context({"svg.hashsalt": "duelrank"}):  # otherwise its ids are random
        figure.savefig(drawn, format=kind, **how)
    return drawn.getvalue()
